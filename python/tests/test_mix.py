"""Tests of mixtures: the draws, the ends of epochs, changes of weights, and the manners of a loader."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
import math
import pickle
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from mixtures import ALL, FIRST, NEVER, STOPS, Batch, case, loader, mixture, next_of, scheduled, taken

# Draws.


def test_draws_never_change_between_versions() -> None:
    made = mixture({"web": 4, "code": 4, "books": 4}, {"web": 3, "code": 2, "books": 1}, seed=7)
    assert "".join(made.component(step)[0] for step in range(48)) == "wwwwcbwcwwwcbwccbwccwbcwwccwccbcwbwccccwcwccbbwc"


@pytest.mark.parametrize("weights", [[3, 1], [1, 1, 1, 1], [0.7, 0.2, 0.1], [5, 0, 1]], ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_frequencies_match_the_weights(weights: list[float], seed: int) -> None:
    made = mixture({chr(97 + at): 2 for at in range(len(weights))}, weights, seed=seed)
    steps = 20_000
    drawn = [made.component(step) for step in range(steps)]
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
        runs.append([made.component(step, epoch=epoch) for step in range(40)])
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
        foreseen = [made.component(step, epoch=epoch) for step in range(steps)]
        with pytest.raises(IndexError, match=f"has {steps} steps"):
            made.component(steps, epoch=epoch)
        found = taken(iter(made))
        assert found == list(model.run(epoch))
        assert (len(found), [name for name, _ in found]) == (steps, foreseen)
        # Delivered steps are known without the lengths.
        assert [made.component(step) for step in range(steps)] == foreseen and (made.epoch, made.step) == (epoch, steps)


def test_long_epochs_are_counted_in_blocks() -> None:
    made = ms.mix([ms.DataLoader(range(count), output="numpy") for count in (200_000, 1000, 70)], [200, 1, 1], seed=1, stop=ALL)
    made.set_mixture([1, 0, 0], at_step=70_000)
    made.set_mixture([1, 1, 1], at_step=100_000)
    assert len(made) == 201_070
    drawn = collections.Counter(made.component(step) for step in range(len(made)))
    assert drawn == {"0": 200_000, "1": 1000, "2": 70}
    assert {made.component(step) for step in range(70_000, 100_000)} == {"0"}


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
        made.component(0)
    found = [(name, batch.tolist()) for name, batch in made]
    assert [batch for name, batch in found if name == "a"] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [batch for name, batch in found if name == "b"] == [[0, 1], [2, 3], [4]]
    assert [made.component(step) for step in range(7)] == [name for name, _ in found]
    endless = ms.mix([numbers, numbers], stop=FIRST, output="numpy")
    assert {endless.component(step) for step in range(4)} <= {"0", "1"}


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
    for call in (lambda: made.set_mixture([1, 1], epoch=1), lambda: made.component(3, epoch=1)):
        with pytest.raises(InvalidArgumentError, match="only the endless epoch 0"):
            call()
    with pytest.raises(IndexError, match="begin at 0"):
        made.component(-1)


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
    assert again.component(0) == "code" and taken(iter(again), 9) == taken(iter(made), 9)


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
