"""Tests of mixtures: the draws, the ends of epochs, changes of weights, states at any position, and exactly-once components."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
import math
import os
import pickle
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, Mixture, _draws
from millstream.errors import DataLossError, FailedPreconditionError, InvalidArgumentError

Start = Callable[..., str]

STOPS = ["first_exhausted", "all_exhausted_without_replacement", "never"]
FIRST, ALL, NEVER = STOPS


class Tagged:
    """A dataset whose samples name their component."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        if index == 13 and self.name == "broken":
            raise ValueError("sample 13")
        return np.array([ord(self.name[0]), index])


def loader(name: str, count: int, **arguments: Any) -> ms.DataLoader:
    defaults = {"batch_size": 2, "output": "numpy", "shuffle": True, "seed": 5, "dp_rank": 0, "dp_size": 1}
    return ms.DataLoader(Tagged(name, count), **{**defaults, **arguments})


def mixture(counts: dict[str, int], weights: Any = None, stop: str = NEVER, seed: int = 0, **arguments: Any) -> Mixture:
    return ms.mix({name: loader(name, count, **arguments) for name, count in counts.items()}, weights, seed=seed, stop=stop, with_names=True)


Batch = tuple[str, list[int]]


def taken(batches: Iterator[Any], count: int | None = None) -> list[Batch]:
    """Returns the names and samples of the next batches."""
    found = []
    for name, batch in itertools.islice(batches, count):
        assert {chr(tag) for tag in batch[:, 0].tolist()} == {name[0]}
        found.append((name, batch[:, 1].tolist()))
    return found


class Model:
    """A naive mixture: one step after the other, with the batches of each epoch of each loader in lists."""

    def __init__(self, counts: dict[str, int], weights: dict[str, float], stop: str, seed: int) -> None:
        self.counts, self.weights, self.stop, self.seed = counts, weights, stop, seed
        self.changes: dict[tuple[int, int], dict[str, float]] = {}

    def weights_at(self, epoch: int, step: int) -> dict[str, float]:
        held = [at for at in sorted(self.changes) if at <= (epoch, step)]
        return self.changes[held[-1]] if held else self.weights

    @staticmethod
    def pick(weights: dict[str, float], hashed: int) -> str:
        point = (hashed >> 11) / 2**53 * sum(weights[name] for name in sorted(weights))
        for name in sorted(weights):
            if weights[name] and point < weights[name]:
                return name
            point -= weights[name]
        raise AssertionError("rounding reached the total")

    def run(self, epoch: int, steps: int | None = None) -> Iterator[Batch]:
        """Yields the batches of an epoch of the mixture, at most ``steps``."""
        loaders = {name: loader(name, count) for name, count in self.counts.items()}
        for one in loaders.values():
            one.set_epoch(epoch)
        left = {name: [batch[:, 1].tolist() for batch in one] for name, one in loaders.items()}
        base = _draws.mix(_draws.mix(0x6D6978, self.seed), epoch)
        for step in itertools.count() if steps is None else range(steps):
            weights, hashed = self.weights_at(epoch, step), _draws.mix(base, step)
            name = self.pick(weights, hashed)
            if not left[name] and self.stop == NEVER:
                left[name] = [batch[:, 1].tolist() for batch in loaders[name]]
            if not left[name]:
                others = {other: weight if left[other] else 0.0 for other, weight in weights.items()}
                if self.stop == FIRST or not any(others.values()):
                    return
                name = self.pick(others, _draws.mix(hashed, 1))
            yield name, left[name].pop(0)


def case(number: int, stop: str) -> tuple[dict[str, int], dict[str, float], int, Model]:
    """Returns random components, weights, a seed and their model."""
    chance = random.Random(number)
    names = ["web", "code", "books", "z"][: chance.randint(1, 4)]
    counts = {name: chance.randint(1, 24) for name in names}
    weights = {name: chance.choice([0.5, 1.0, 2.0, 7.0]) for name in names}
    seed = chance.randint(0, 99)
    return counts, weights, seed, Model(counts, weights, stop, seed)


def scheduled(number: int, made: Mixture, model: Model) -> None:
    """Adds random changes of weights to a mixture and its model."""
    chance = random.Random(number)
    epochs = 1 if made._plan.stop == NEVER else 2
    for _ in range(chance.randint(0, 4)):
        weights = {name: chance.choice([0.0, 1.0, 3.0]) for name in model.counts}
        weights[chance.choice(sorted(weights))] = 1.0
        epoch, step = chance.randrange(epochs), chance.randint(0, 20)
        made.set_mixture(weights, at_step=step, epoch=epoch)
        model.changes[epoch, step] = weights


# Draws.


def test_draws_never_change_between_versions() -> None:
    made = mixture({"web": 4, "code": 4, "books": 4}, {"web": 3, "code": 2, "books": 1}, seed=7)
    assert "".join(made.lineage(step)[0] for step in range(48)) == "wwwwcbwcwwwcbwccbwccwbcwwccwccbcwbwccccwcwccbbwc"


@pytest.mark.parametrize("weights", [[3, 1], [1, 1, 1, 1], [0.7, 0.2, 0.1], [5, 0, 1]], ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_frequencies_match_the_weights(weights: list[float], seed: int) -> None:
    made = mixture({chr(97 + at): 2 for at in range(len(weights))}, weights, seed=seed)
    steps = 20_000
    drawn = [made.lineage(step) for step in range(steps)]
    for names, degrees in ((drawn, 1), (list(itertools.pairwise(drawn)), 2)):
        counts = collections.Counter(names)
        shares = {name: math.prod(made.weights[one] for one in name) / sum(weights) ** degrees for name in counts}
        distance = sum((count - len(names) * shares[name]) ** 2 / (len(names) * shares[name]) for name, count in counts.items())
        # A chi-square variable of at most 15 degrees of freedom exceeds 45 in one of 10 000 cases. The seeds are fixed.
        assert distance < 45
        assert len(counts) == sum(weight > 0 for weight in weights) ** degrees


def test_seeds_and_epochs_draw_differently() -> None:
    runs = []
    for seed, epoch in itertools.product((0, 1, 2), (0, 1)):
        made = mixture({"a": 100, "b": 100}, stop=FIRST, seed=seed)
        runs.append([made.lineage(step, epoch=epoch) for step in range(40)])
    assert len({str(run) for run in runs}) == 6


def test_the_order_of_names_has_no_effect() -> None:
    one = mixture({"a": 20, "b": 20}, {"a": 3, "b": 1}, seed=2)
    other = mixture({"b": 20, "a": 20}, [1, 3], seed=2)
    assert taken(iter(one), 30) == taken(iter(other), 30)


# Epochs.


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("number", range(12))
def test_epochs_are_those_of_the_model(stop: str, number: int) -> None:
    counts, weights, seed, model = case(number, stop)
    made = mixture(counts, weights, stop, seed)
    scheduled(number, made, model)
    if stop == NEVER:
        assert taken(iter(made), 90) == list(model.run(0, 90))
        return
    for epoch in range(3):
        foreseen, steps = [], len(made)
        foreseen = [made.lineage(step, epoch=epoch) for step in range(steps)]
        with pytest.raises(IndexError, match=f"has {steps} steps"):
            made.lineage(steps, epoch=epoch)
        found = taken(iter(made))
        assert found == list(model.run(epoch))
        assert (len(found), [name for name, _ in found]) == (steps, foreseen)
        # Delivered steps are known without the lengths.
        assert [made.lineage(step) for step in range(steps)] == foreseen and (made.epoch, made.step) == (epoch, steps)


def test_long_epochs_are_counted_in_blocks() -> None:
    made = ms.mix([ms.DataLoader(range(count), output="numpy") for count in (200_000, 1000, 70)], [200, 1, 1], seed=1, stop=ALL)
    made.set_mixture([1, 0, 0], at_step=70_000)
    made.set_mixture([1, 1, 1], at_step=100_000)
    assert len(made) == 201_070
    drawn = collections.Counter(made.lineage(step) for step in range(len(made)))
    assert drawn == {"0": 200_000, "1": 1000, "2": 70}
    assert {made.lineage(step) for step in range(70_000, 100_000)} == {"0"}


def test_a_mixture_without_an_end_repeats_components() -> None:
    made = mixture({"web": 40, "code": 6}, {"web": 1, "code": 1})
    with pytest.raises(TypeError, match="no end"):
        len(made)
    found = taken(iter(made), 30)
    code = [batch for name, batch in found if name == "code"]
    assert [sorted(itertools.chain(*code[at : at + 3])) for at in range(0, 9, 3)] == [list(range(6))] * 3
    # Each epoch of a component has its own order.
    assert len({str(code[at : at + 3]) for at in range(0, 9, 3)}) > 1
    assert made.components["code"].epoch >= 3 and made.components["web"].epoch == 0
    made.set_epoch(4)
    assert (made.epoch, made.step) == (0, 30)


def test_a_component_without_batches_is_an_error() -> None:
    made = mixture({"web": 4, "empty": 0}, {"web": 1, "empty": 1}, NEVER)
    with pytest.raises(FailedPreconditionError, match="'empty' has no batch in a whole epoch"):
        taken(iter(made), 20)
    assert taken(iter(mixture({"web": 4, "empty": 0}, stop=ALL))) and len(mixture({"web": 4, "empty": 0}, stop=ALL)) == 2


def test_streams_are_components() -> None:
    numbers = Dataset.range(12).batch(3)
    made = ms.mix({"a": numbers, "b": (lambda: iter(range(5)))}, [2, 1], stop=ALL, seed=1, with_names=True, output="numpy", batch_size=2)
    with pytest.raises(TypeError, match="unknown number"):
        len(made)
    with pytest.raises(FailedPreconditionError, match="unknown length"):
        made.lineage(0)
    found = [(name, batch.tolist()) for name, batch in made]
    assert [batch for name, batch in found if name == "a"] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [batch for name, batch in found if name == "b"] == [[0, 1], [2, 3], [4]]
    assert [made.lineage(step) for step in range(7)] == [name for name, _ in found]
    endless = ms.mix([numbers, numbers], stop=FIRST, output="numpy")
    assert {endless.lineage(step) for step in range(4)} <= {"0", "1"}


# Changes of weights.


def test_changes_hold_from_their_step() -> None:
    made = mixture({"web": 400, "code": 400}, {"web": 1, "code": 0})
    made.set_mixture({"web": 0, "code": 1}, at_step=10)
    batches = iter(made)
    assert {name for name, _ in taken(batches, 5)} == {"web"}
    made.set_mixture({"web": 1, "code": 0}, at_step=15)
    assert made.weights == {"web": 1, "code": 0}
    names = [name for name, _ in taken(batches, 15)]
    assert names == ["web"] * 5 + ["code"] * 5 + ["web"] * 5
    made.set_mixture([0, 1])
    assert [name for name, _ in taken(batches, 3)] == ["code"] * 3
    assert [(epoch, step) for epoch, step, _ in made.weights_history] == [(0, 0), (0, 10), (0, 15), (0, 20)]
    # A program may repeat its changes after a restart.
    made.set_mixture({"web": 0, "code": 1}, at_step=10)
    for weights, at_step in (([1, 1], 22), ([1, 1], 10), ([1, 1], -1)):
        with pytest.raises(InvalidArgumentError, match=f"step {at_step} of epoch 0: the next step is 23"):
            made.set_mixture(weights, at_step=at_step)
    for call in (lambda: made.set_mixture([1, 1], epoch=1), lambda: made.lineage(3, epoch=1)):
        with pytest.raises(InvalidArgumentError, match="only the endless epoch 0"):
            call()
    with pytest.raises(IndexError, match="begin at 0"):
        made.lineage(-1)


def test_an_unreached_change_holds_in_the_next_epoch() -> None:
    made = mixture({"web": 8, "code": 8}, {"web": 1, "code": 0}, FIRST)
    made.set_mixture({"web": 0, "code": 1}, at_step=100)
    assert [[name for name, _ in taken(iter(made))] for _ in range(2)] == [["web"] * 4, ["code"] * 4]
    made.set_mixture({"web": 1, "code": 0}, epoch=4)
    made.set_epoch(4)
    assert [name for name, _ in taken(iter(made))] == ["web"] * 4


def test_the_number_of_changes_is_limited() -> None:
    made = mixture({"web": 4, "code": 4})
    for step in range(64):
        made.set_mixture([step + 1, 1], at_step=step)
    made.set_mixture([2, 2], at_step=63)
    with pytest.raises(InvalidArgumentError, match="at most 64 changes"):
        made.set_mixture([1, 1], at_step=64)
    assert len(made.weights_history) == 65 and len(json.dumps(made.state_dict())) < 5120


def test_weights_set_before_the_first_batch_resume() -> None:
    made = mixture({"web": 40, "code": 40}, [1, 0])
    made.set_mixture([0, 1])
    taken(iter(made), 3)
    again = mixture({"web": 40, "code": 40}, [1, 0])
    again.load_state_dict(made.state_dict())
    assert again.lineage(0) == "code" and taken(iter(again), 9) == taken(iter(made), 9)


# States.


def wire(state: dict[str, Any]) -> dict[str, Any]:
    """Returns the state as a program reads it from a file, with the keys in another order."""

    def turned(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    return json.loads(json.dumps(state), object_pairs_hook=turned)


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


# Trainers.


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


# The manners of a loader.


def test_the_attributes_of_a_loader_exist() -> None:
    made = ms.mix({"a": loader("a", 9, num_workers=0), "b": loader("b", 9, dp_rank=1, dp_size=2)}, stop=FIRST)
    plain = loader("a", 9)
    for name in vars(plain):
        assert name.startswith("_") or name in ("rank", "on_lost") or hasattr(made, name), name
    assert (made.batch_size, made.total_batch_size, made.batch_sampler, made.rank.dp_size) == (2, None, None, 2)
    assert bool(made) and "stop='first_exhausted', epoch 0, step 0" in repr(made)
    assert made.last_batch_valid_count is None
    next(iter(made))
    assert made.last_batch_valid_count == 2
    assert set(made.stats()) == {"epoch", "step", "weights", "components"} and set(made.stats()["components"]) == {"a", "b"}
    with pytest.raises(TypeError):
        made.components["c"] = plain  # type: ignore[index]


def test_set_epoch_moves_all_components() -> None:
    counts = {"web": 12, "code": 6}
    made = mixture(counts, stop=ALL)
    epochs = [taken(iter(made)) for _ in range(4)]
    for holder in (made, made.sampler, made.dataset):
        for epoch in (3, 1, 2, 2):
            for _ in range(2):
                holder.set_epoch(epoch)
            assert made.epoch == epoch and taken(iter(made)) == epochs[epoch]
    batches = iter(made)
    begun = taken(batches, 2)
    made.set_epoch(made.epoch)
    # The running iterator continues, and the next one begins the epoch again.
    assert begun + taken(batches) == epochs[3] and taken(iter(made)) == epochs[3]
    made.set_epoch(1)
    batches = iter(made)
    taken(batches, 2)
    made.set_epoch(0)
    assert taken(iter(made)) == epochs[0]
    with pytest.raises(FailedPreconditionError, match="has ended this iterator"):
        next(batches)


def test_a_restored_epoch_can_begin_again() -> None:
    counts = {"web": 40, "code": 40}
    whole = mixture(counts, stop=ALL)
    epochs = [taken(iter(whole)) for _ in range(2)]
    made = mixture(counts, stop=ALL)
    made.set_epoch(1)
    taken(iter(made), 6)
    for epoch in (1, 0):
        again = mixture(counts, stop=ALL)
        again.load_state_dict(made.state_dict())
        taken(iter(again), 1)
        again.set_epoch(epoch)
        assert taken(iter(again)) == epochs[epoch] and again.epoch == epoch


@pytest.mark.parametrize("stop", STOPS)
def test_a_mixture_is_pickled_with_its_position(stop: str) -> None:
    made = mixture({"web": 40, "code": 20}, [3, 1], stop)
    batches = iter(made)
    taken(batches, 7)
    copied = pickle.loads(pickle.dumps(made))
    assert copied.state_dict() == made.state_dict() and taken(iter(copied), 12) == taken(batches, 12)


def test_an_endless_mixture_continues_after_closing() -> None:
    counts = {"web": 40, "code": 6}
    whole = taken(iter(mixture(counts)), 60)
    found: list[Batch] = []
    with mixture(counts) as made:
        for count in (4, 0, 9, 20):
            found += taken(iter(made), count)
            made.set_epoch(count)
        made.close()
        found += taken(iter(made), 10)
        made.start_prefetch()
        made.close()
        made.start_prefetch()
        made.start_prefetch()
        found += taken(iter(made), 10)

        async def some() -> None:
            async for name, batch in made:
                found.append((name, batch[:, 1].tolist()))
                if len(found) == 57:
                    break

        asyncio.run(some())
        found += taken(iter(made), 3)
    assert found == whole


def test_prefetching_changes_no_batch() -> None:
    whole = mixture({"web": 12, "code": 6}, stop=ALL)
    epochs = [taken(iter(whole)) for _ in range(3)]
    made = mixture({"web": 12, "code": 6}, stop=ALL)
    made.start_prefetch()
    assert made.state_dict() == mixture({"web": 12, "code": 6}, stop=ALL).state_dict()
    batches = iter(made)
    found = taken(batches, 3)
    state = made.state_dict()
    assert found + taken(batches) == epochs[0]
    made.start_prefetch()
    assert (made.epoch, made.step) == (1, 0) and taken(iter(made)) == epochs[1] and taken(iter(made)) == epochs[2]
    made.start_prefetch()
    made.load_state_dict(state)
    assert found + taken(iter(made)) == epochs[0]


def test_only_the_latest_iterator_is_valid() -> None:
    made = mixture({"web": 40, "code": 40}, stop=FIRST)
    first, second = iter(made), iter(made)
    next(first)
    next(second)
    assert (made.epoch, made.step) == (1, 1)
    with pytest.raises(FailedPreconditionError, match="one at a time"):
        next(first)
    next(second)
    second.close()
    with pytest.raises(FailedPreconditionError, match="one at a time"):
        next(second)


def test_a_components_error_is_not_its_end() -> None:
    made = mixture({"web": 40, "broken": 40}, [1, 1], FIRST, shuffle=False)
    batches, found = iter(made), []
    with pytest.raises(ms.errors.UserFunctionError, match="sample 13"):
        while True:
            found += taken(batches, 1)
    assert made.step == len(found) == made.state_dict()["step"] and not made.state_dict()["finished"]


def test_a_loss_ends_its_component(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {stop: taken(iter(mixture({"web": 40, "code": 6}, stop=stop)), 30) for stop in STOPS}

    def lost(self: ms.DataLoader, *_: Any) -> None:
        if self._given.name == "code" and self._epoch == 0:
            raise DataLossError("lost")

    monkeypatch.setattr(ms.DataLoader, "_check_complete", lost)
    for stop in STOPS:
        batches = iter(mixture({"web": 40, "code": 6}, stop=stop))
        found: list[Batch] = []
        with pytest.raises(DataLossError):
            while True:
                found += [next_of(batches)]
        found += taken(batches, 30 - len(found))
        assert found == wanted[stop]


def next_of(batches: Iterator[Any]) -> Batch:
    name, batch = next(batches)
    return name, batch[:, 1].tolist()


def test_components_out_of_order_state_what_they_can() -> None:
    made = mixture({"web": 40, "code": 40}, in_order=False)
    taken(iter(made), 9)
    again = mixture({"web": 40, "code": 40}, in_order=False)
    again.load_state_dict(made.state_dict())
    assert taken(iter(again), 9) == taken(iter(made), 9) and not again.in_order


def test_unsuitable_components_are_refused() -> None:
    one, used = loader("a", 4), loader("u", 4)
    list(used)
    for components, reason in [
        ({"a": mixture({"b": 4})}, "'a' is a mixture: pass its components to one ms.mix"),
        ({"a": one, "b": one}, "another component has"),
        ({"u": used}, "has delivered batches"),
        ({}, "a dict of components"),
        ({1: one}, "a dict of components"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            ms.mix(components)
    with pytest.raises(InvalidArgumentError, match="batch_size: no effect"):
        ms.mix([one], batch_size=3)


def test_unsuitable_weights_and_rules_are_refused() -> None:
    for weights, reason in [
        ([1], "found 1 weights"),
        ({"a": 1}, r"found weights for \['a'\]"),
        ([1, -1], "at least 0"),
        ([0, 0], "not all 0"),
        ([1, math.nan], "finite"),
        ([1, math.inf], "finite"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            mixture({"a": 4, "b": 4}, weights)
        with pytest.raises(InvalidArgumentError, match=reason):
            mixture({"a": 4, "b": 4}).set_mixture(weights)
    for stop, reason in [("all_exhausted", "'never' repeats exhausted components"), ("first", "is the full name"), ("no", "use 'first_exhausted'")]:
        with pytest.raises(InvalidArgumentError, match=reason):
            mixture({"a": 4}, stop=stop)


# Exactly-once components.


class Slow:
    """Computes an element in a few milliseconds, so that a worker is killed in the middle of a split."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.003)
        return x


def exact(target: Any, stop: str = ALL, slow: bool = False, **arguments: Any) -> Mixture:
    """Returns a mixture of two exactly-once components: even numbers, and multiples of 10 000."""

    def numbers(count: int, factor: int) -> Dataset:
        source = Dataset.range(count).split_size(25).shuffle(10)
        if slow:
            source = source.map_python(Slow(), element_spec=ms.TensorSpec((), ms.int64))
        return source.filter(lambda x: x % 2 == 0).map(lambda x: x * factor).batch(3)

    components = {"small": numbers(400, 1), "large": numbers(150, 10_000)}
    return ms.mix(components, [3, 1], stop=stop, service=target, visitation="exactly_once", output="numpy", seed=3, **arguments)


WANTED = sorted([*range(0, 400, 2), *(x * 10_000 for x in range(0, 150, 2))])


def lists(batches: Iterator[Any], count: int | None = None) -> list[list[int]]:
    return [batch.tolist() for batch in itertools.islice(batches, count)]


def test_exact_components_survive_a_killed_worker() -> None:
    with ms.local(workers=3) as service:
        undisturbed = lists(iter(exact(service, slow=True)))
        assert sorted(x for batch in undisturbed for x in batch) == WANTED
        batches = iter(exact(service, slow=True))
        found = lists(batches, 15)
        os.kill(service.pids[1], signal.SIGKILL)
        assert found + lists(batches) == undisturbed


@pytest.mark.parametrize("count", [0, 1, 9, 40, 90])
@pytest.mark.parametrize("stop", STOPS)
def test_exact_components_resume_in_the_middle(cluster: Start, count: int, stop: str) -> None:
    target = cluster(2)
    made = exact(target, stop)
    batches = iter(made)
    whole = lists(batches, 110)
    first = exact(target, stop)
    found = lists(iter(first), count)
    if stop == NEVER:
        first.close()
    state = wire(first.state_dict())
    second = exact(cluster(1), stop)
    second.load_state_dict(state)
    assert second.state_dict() == state and len(json.dumps(state)) < 1024
    found += lists(iter(second), 10 if stop == NEVER else None)
    second.close()
    assert found + lists(iter(second), len(whole) - len(found)) == whole


@pytest.mark.parametrize("later", [1, 2, 4])
def test_exact_mixtures_continue_with_other_trainers(cluster: Start, later: int) -> None:
    target = cluster(2)
    states, found = [], []
    for rank in range(3):
        part = exact(target, dp_rank=rank, dp_size=3)
        part.set_mixture([1, 1], at_step=9)
        found += lists(iter(part), 13)
        states.append(part.state_dict())
    joined = wire(ms.joined_states(states, later))
    assert joined["step"] == 13
    names = set()
    for rank in range(later):
        part = exact(target, dp_rank=rank, dp_size=later)
        part.load_state_dict(joined)
        names.add(part.lineage(9))
        found += lists(iter(part), 4)
        # A second change of the process, in the middle of the rest.
        rest = exact(target, dp_rank=rank, dp_size=later)
        rest.load_state_dict(part.state_dict())
        found += lists(iter(rest))
    assert sorted(x for batch in found for x in batch) == WANTED and len(names) == 1


def counted(target: Any, stop: str, **arguments: Any) -> Mixture:
    """Returns a mixture of exactly-once components of known length, which end at the same step on all trainers."""
    components = {name: Dataset.range(first, first + count).shuffle(20).batch(5) for name, first, count in (("a", 0, 300), ("b", 1000, 200))}
    return ms.mix(
        components, [3, 1], stop=stop, service=target, visitation="exactly_once", last_batch="DROP", output="numpy", seed=3, with_names=True, **arguments
    )


@pytest.mark.parametrize("stop", STOPS)
def test_components_of_known_length_keep_trainers_together(cluster: Start, stop: str) -> None:
    target = cluster(2)
    parts = [counted(target, stop, dp_rank=rank, dp_size=2) for rank in range(2)]
    for count in (7, 40, 80):
        runs = [[(name, batch.tolist()) for name, batch in itertools.islice(part, count)] for part in parts]
        assert [name for name, _ in runs[0]] == [name for name, _ in runs[1]]
        assert all(mine != other for (_, mine), (_, other) in zip(*runs, strict=True))
        assert parts[0].state_dict() == parts[1].state_dict()
    assert stop == NEVER or len(parts[0]) == len(parts[1])


def test_one_state_continues_on_any_trainers(cluster: Start) -> None:
    target = cluster(2)
    state, found, names = counted(target, ALL).state_dict(), [], []
    for size, count in ((2, 8), (3, 7), (1, 5), (2, 4), (1, None)):
        parts = [counted(target, ALL, dp_rank=rank, dp_size=size) for rank in range(size)]
        for part in parts:
            part.load_state_dict(state)
        runs = [[(name, batch.tolist()) for name, batch in itertools.islice(part, count)] for part in parts]
        found += [x for run in runs for _, batch in run for x in batch]
        names += [name for name, _ in runs[0]]
        state = wire(ms.joined_states([part.state_dict() for part in parts], 5))
    assert sorted(found) == [*range(300), *range(1000, 1200)]
    lone = counted(target, ALL)
    assert names[:24] == [lone.lineage(step) for step in range(24)]


def test_states_that_cannot_be_joined_are_refused(cluster: Start) -> None:
    target = cluster(1)
    states = []
    for rank in range(2):
        part = exact(target, dp_rank=rank, dp_size=2)
        lists(iter(part), 5)
        states.append(part.state_dict())
    changed = exact(target, dp_rank=1, dp_size=2)
    changed.set_mixture([1, 1], at_step=9)
    plain = [mixture({"a": 40, "b": 40}) for _ in range(2)]
    taken(iter(plain[0]), 3)
    endless = [exact(target, NEVER, dp_rank=rank, dp_size=2) for rank in range(2)]
    lists(iter(endless[0]), 3)
    lists(iter(endless[1]), 200)
    uneven = [counted(target, ALL, dp_rank=rank, dp_size=2) for rank in range(2)]
    next(iter(uneven[0]))
    for parts, reason in [
        ([one.state_dict() for one in uneven], "component '[ab]' has different states.*last_batch='DROP'"),
        ([one.state_dict() for one in endless], "in epoch 0 on some trainers and in epoch [1-9]"),
        ([states[0], changed.state_dict()], "found the weights"),
        ([states[0], states[0]], "component 'large'"),
        ([one.state_dict() for one in plain], "component '[ab]' has different states"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            ms.joined_states(parts, 1)
