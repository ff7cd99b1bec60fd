"""Tests of the states of mixtures: any chain of states is one run, on any number of trainers."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import millstream as ms
from millstream import Mixture
from millstream.errors import InvalidArgumentError
from mixtures import ALL, FIRST, NEVER, STOPS, Batch, case, loader, mixture, next_of, scheduled, taken, wire


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("number", range(20))
def test_any_chain_of_states_is_one_run(stop: str, number: int) -> None:
    counts, weights, seed, model = case(number, stop)
    made = mixture(counts, weights, stop, seed)
    scheduled(number, made, model)
    wanted = list(model.run(0, 120)) if stop == NEVER else [*model.run(0), *model.run(1), *model.run(2)]
    chance, batches = random.Random(number), iter(made)
    found: list[Batch] = []
    # The batches of the epoch since the state that was loaded last.
    since = 0
    while len(found) < len(wanted):
        asked = chance.randint(0, 6)
        more = taken(batches, asked)
        found, since = found + more, since + len(more)
        if chance.random() < 0.6:
            # The trainer has prefetched batches that it did not use.
            behind = chance.randint(0, min(since, 5))
            found = found[: len(found) - behind]
            state = wire(made.state_dict(behind=behind))
            made = mixture(counts, weights, stop, seed)
            made.load_state_dict(state)
            assert made.state_dict() == state
            batches, since = iter(made), 0
        elif len(more) < asked:
            batches, since = iter(made), 0
    assert found[: len(wanted)] == wanted


def test_a_state_of_a_finished_epoch_continues() -> None:
    made = mixture({"web": 9, "code": 5}, stop=ALL)
    whole = [taken(iter(made)) for _ in range(3)]
    again = mixture({"web": 9, "code": 5}, stop=ALL)
    assert taken(iter(again)) == whole[0]
    finished = again.state_dict()
    assert (finished["epoch"], finished["step"], finished["finished"]) == (0, 8, True)
    for _ in range(2):
        again = mixture({"web": 9, "code": 5}, stop=ALL)
        again.load_state_dict(finished)
        assert (again.epoch, again.step) == (1, 0) and again.state_dict() == finished
    assert [taken(iter(again)) for _ in range(2)] == whole[1:]


def test_states_are_small_and_plain() -> None:
    made = mixture({name: 1_000_000 for name in ("web", "code", "books", "papers")}, [4, 3, 2, 1])
    taken(iter(made), 100)
    state = made.state_dict()
    assert wire(state) == state and len(json.dumps(state)) < 1024
    assert made.get_state() == made.dataset.state_dict() == state


def test_states_know_positions_before_a_new_epoch() -> None:
    counts = {"web": 400, "code": 4}
    made = mixture(counts, [1, 3])
    batches = iter(made)
    whole = taken(batches, 40)
    for behind in range(41):
        again = mixture(counts, [1, 3])
        again.load_state_dict(wire(made.state_dict(behind=behind)))
        assert taken(iter(again), behind) == whole[40 - behind :]
    with pytest.raises(InvalidArgumentError, match="behind=41: only 40"):
        made.state_dict(behind=41)
    resumed = mixture(counts, [1, 3])
    resumed.load_state_dict(made.state_dict())
    taken(iter(resumed), 8)
    # Positions from before the resume are unknown, also if the mixture was read before.
    made.load_state_dict(resumed.state_dict())
    for one in (resumed, made):
        taken(iter(one), 8)
        with pytest.raises(InvalidArgumentError, match="behind"):
            one.state_dict(behind=40)


def test_an_interrupted_new_epoch_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, begun = {"web": 400, "code": 4}, ms.DataLoader._begun
    made = mixture(counts, [1, 3])
    whole = taken(iter(mixture(counts, [1, 3])), 20)

    def interrupted(self: ms.DataLoader) -> Any:
        if self._given.name == "code" and self._has_begun and self._epoch == 1:
            raise KeyboardInterrupt
        return begun(self)

    monkeypatch.setattr(ms.DataLoader, "_begun", interrupted)
    batches, found = iter(made), []
    with pytest.raises(KeyboardInterrupt):
        while True:
            found.append(next_of(batches))
    monkeypatch.undo()
    for behind in range(len(found) + 1):
        again = mixture(counts, [1, 3])
        again.load_state_dict(made.state_dict(behind=behind))
        assert found[: len(found) - behind] + taken(iter(again), 20 - len(found) + behind) == whole
    assert found + taken(batches, 20 - len(found)) == whole


def test_foreign_states_are_refused_by_name() -> None:
    counts = {"web": 40, "code": 40}
    made = mixture(counts, [3, 1], seed=1)
    taken(iter(made), 5)
    state = made.state_dict()
    for other, reason in [
        (mixture(counts, [3, 1], seed=2), "seed 1, this mixture 2"),
        (mixture(counts, [3, 1], FIRST, seed=1), "stop 'never', this mixture 'first_exhausted'"),
        (mixture(counts, [1, 1], seed=1), "set_mixture"),
        (mixture(counts | {"books": 4}, [3, 1, 1], seed=1), "components"),
        (mixture(counts, [3, 1], seed=1, batch_size=1), "the same number of samples of all trainers"),
        (mixture(counts | {"code": 39}, [3, 1], seed=1), "samples 40, this loader 39"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            other.load_state_dict(state)
    lenient = mixture(counts, [1, 1], FIRST, seed=2)
    lenient.load_state_dict(state, strict=False)
    assert lenient.state_dict() == state and lenient.weights == made.weights
    for foreign, reason in [(state | {"version": 9}, "version 9"), (loader("web", 4).state_dict(), "without components")]:
        with pytest.raises(InvalidArgumentError, match=reason):
            made.load_state_dict(foreign)


@pytest.mark.parametrize("stop", STOPS)
def test_all_trainers_draw_the_same(stop: str) -> None:
    runs: dict[int, list[list[Batch]]] = {}
    for size in (1, 2, 4):
        parts = [mixture({"web": 64, "code": 24}, [3, 1], stop, batch_size=4 // size, dp_rank=rank, dp_size=size) for rank in range(size)]
        runs[size] = [taken(iter(part), 50) for part in parts]
    names = {str([name for name, _ in run]) for parts in runs.values() for run in parts}
    assert len(names) == 1
    # The trainers of each run have the same samples together.
    together = [[sorted(sum((part[step][1] for part in parts), [])) for step in range(len(parts[0]))] for parts in runs.values()]
    assert together[0] == together[1] == together[2]


def test_states_continue_on_other_numbers_of_trainers() -> None:
    def parts(size: int) -> list[Mixture]:
        return [mixture({"web": 64, "code": 24}, [3, 1], batch_size=4 // size, dp_rank=rank, dp_size=size) for rank in range(size)]

    alone = [(name, sorted(samples)) for name, samples in taken(iter(parts(1)[0]), 60)]
    found: list[Batch] = []
    state = parts(1)[0].state_dict()
    for size in (2, 4, 1, 2):
        running, steps = parts(size), []
        for part in running:
            part.load_state_dict(state)
            steps.append(taken(iter(part), 15))
        states = [part.state_dict() for part in running]
        assert all(one == states[0] for one in states)
        state = wire(ms.joined_states(states, 3))
        found += [(batches[0][0], sorted(sum((samples for _, samples in batches), []))) for batches in zip(*steps, strict=True)]
    assert found == alone
