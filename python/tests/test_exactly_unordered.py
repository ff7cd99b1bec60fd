"""Tests of exactly-once jobs in any order: each batch is delivered once, as it arrives, and a small state continues at every step."""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream._exact_places import Place, element_of
from millstream.errors import InvalidArgumentError

Start = Callable[..., str]

#: The limits of a position, which the extension has: the splits of the window, and those that are begun and not finished.
WINDOW, OPEN_MAX = 2048, 32


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=3) as service:
        yield service


def counted(target: Any, rank: int = 0, size: int = 1, **options: Any) -> ms.DataLoader:
    """Returns a loader whose number of batches is known: 67 batches in 7 splits, of which the last one has 7."""
    dataset = Dataset.range(200).split_size(30).shuffle(20).batch(3)
    options = {"visitation": "exactly_once", "in_order": False, "output": "numpy", "seed": 3, "dp_rank": rank, "dp_size": size, **options}
    return ms.DataLoader(dataset, service=target, **options)


def filtered(target: Any, rank: int = 0, size: int = 1) -> ms.DataLoader:
    """Returns a loader whose number of batches is unknown. Some splits have no batch."""
    dataset = Dataset.range(400).split_size(10).filter(lambda x: x % 40 >= 10).shuffle(7).batch(4)
    return ms.DataLoader(dataset, service=target, visitation="exactly_once", in_order=False, output="numpy", dp_rank=rank, dp_size=size)


def lists(loader: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in loader]


def taken(loader: Any, count: int) -> list[list[int]]:
    """Returns the next batches of a loader, at most ``count``. The loader may have fewer."""
    batches = iter(loader)
    found = [[int(x) for x in batch] for _, batch in zip(range(count), batches, strict=False)]
    batches.close()
    return found


def saved(loader: ms.DataLoader) -> dict[str, Any]:
    """Returns the state of a loader after a round trip through JSON."""
    text = json.dumps(loader.state_dict())
    assert len(text) < 1024
    state: dict[str, Any] = json.loads(text)
    return state


@pytest.mark.parametrize("make", [counted, filtered])
def test_each_step_continues_exactly(cluster: Start, make: Callable[..., ms.DataLoader]) -> None:
    target = cluster(3)
    wanted, found, state = sorted(lists(make(target))), [], None
    while state is None or not state["finished"]:
        loader = make(target)
        if state is not None:
            loader.load_state_dict(state)
            assert saved(loader) == state
        step = iter(loader)
        found += [[int(x) for x in batch] for _, batch in zip(range(1), step, strict=False)]
        if loader.step == len(wanted):
            assert next(step, None) is None
        step.close()
        state = saved(loader)
    assert sorted(found) == wanted


def test_batches_are_those_of_the_order(cluster: Start) -> None:
    target = cluster(3)
    ordered = [counted(target, in_order=True), counted(target)]
    epochs = [[sorted(lists(loader)) for loader in ordered] for _ in range(2)]
    assert all(fixed == any_order for fixed, any_order in epochs)
    assert epochs[0] != epochs[1]


class Blocked:
    """Returns its argument. The first position waits until a file exists."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, x: Any) -> Any:
        while x == 0 and not os.path.exists(self.file):
            time.sleep(0.01)
        return x


def test_a_slow_split_stops_no_other(service: ms.LocalService, tmp_path: Path) -> None:
    file = tmp_path / "released"
    spec = ms.TensorSpec((), ms.int64)
    dataset = Dataset.range(400).split_size(4).map_python(Blocked(str(file)), element_spec=spec).batch(2)
    loader = ms.DataLoader(dataset, service=service, visitation="exactly_once", in_order=False, output="numpy")
    batches = iter(loader)
    early = [[int(x) for x in next(batches)] for _ in range(40)]
    assert all(batch[0] >= 4 for batch in early), "split 0 waits for the file"
    state = saved(loader)
    assert state["split"] == 0 and "0" not in state["had"]
    batches.close()
    file.touch()
    resumed = ms.DataLoader(dataset, service=service, visitation="exactly_once", in_order=False, output="numpy")
    resumed.load_state_dict(state)
    assert sorted(early + lists(resumed)) == [[x, x + 1] for x in range(0, 400, 2)]


class Ahead:
    """Returns an array of its argument, of 1 MiB beyond the window. Position 0 waits until others are far beyond the window."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, x: Any) -> Any:
        if x == 0:
            while not os.path.exists(self.file):
                time.sleep(0.01)
            # Other workers go on until the reader grants them no more credits.
            time.sleep(1)
        if x > WINDOW + 50 and not os.path.exists(self.file):
            Path(self.file).touch()
        return np.full(1 if x < WINDOW else 1 << 17, int(x))


def test_splits_beyond_the_window_arrive_later(service: ms.LocalService, tmp_path: Path) -> None:
    spec = ms.TensorSpec((None,), ms.int64)
    # Two of three workers run ahead by more than the window and the 64 MiB of early elements.
    large = Dataset.range(WINDOW + 200).split_size(1).map_python(Ahead(str(tmp_path / "released")), element_spec=spec)
    exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", in_order=False)
    found = [int(x[-1]) for x in large.apply(exactly)]
    assert found.index(0) > 1000, "many elements arrive before the first one"
    assert sorted(found) == list(range(WINDOW + 200))


class Slow:
    """Computes an element in a few milliseconds, so that a worker is killed in the middle of a split."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.004)
        return x


def test_a_lost_worker_repeats_nothing() -> None:
    with ms.local(workers=3) as service:
        slow = Dataset.range(600).split_size(25).shuffle(10).map_python(Slow(), element_spec=ms.TensorSpec((), ms.int64)).batch(3)
        loader = ms.DataLoader(slow, service=service, visitation="exactly_once", in_order=False, output="numpy")
        found = []
        for batch in loader:
            found.append([int(x) for x in batch])
            if len(found) == 20:
                os.kill(service.pids[1], signal.SIGKILL)
        assert len(found) == len(loader) == len({tuple(batch) for batch in found})
        assert sorted(x for batch in found for x in batch) == list(range(600))


@pytest.mark.parametrize("make", [counted, filtered])
@pytest.mark.parametrize("later", [1, 2, 4])
def test_other_trainers_continue_from_joined_states(cluster: Start, later: int, make: Callable[..., ms.DataLoader]) -> None:
    target = cluster(3)
    wanted, found, states = sorted(lists(make(target))), [], []
    for rank, steps in enumerate((4, 9, 6)):
        part = make(target, rank, 3)
        found += taken(part, steps)
        states.append(saved(part))
    joined = ms.joined_states(states, later)
    for rank in range(later):
        part = make(target, rank, later)
        part.load_state_dict(joined)
        found += taken(part, 3)
        rest = make(target, rank, later)
        rest.load_state_dict(saved(part))
        found += lists(rest)
    assert sorted(found) == wanted
    with pytest.raises(InvalidArgumentError, match="joined_states"):
        make(target, 0, 2).load_state_dict(states[0])


@pytest.mark.parametrize("count", [0, 9, 30])
def test_mixtures_resume_in_any_order(cluster: Start, count: int) -> None:
    target = cluster(2)

    def mixture() -> ms.Mixture:
        return ms.mix({"a": counted(target), "b": filtered(target)}, [3, 1], stop="all_exhausted_without_replacement")

    wanted = sorted(lists(counted(target)) + lists(filtered(target)))
    first, second = mixture(), mixture()
    found = [[int(x) for x in batch] for _, batch in zip(range(count), first, strict=False)]
    state = json.loads(json.dumps(first.state_dict()))
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert sorted(found + lists(second)) == wanted


def test_lengths_are_known_in_any_order(cluster: Start) -> None:
    target = cluster(2)
    whole = [counted(target, rank, 3) for rank in range(3)]
    lengths = [len(part) for part in whole]
    assert [len(lists(part)) for part in whole] == lengths and sum(lengths) == 67
    parts = [counted(target, rank, 3, last_batch="DROP") for rank in range(3)]
    assert {len(part) for part in parts} == {min(lengths)}
    found = [batch for part in parts for batch in taken(part, 5)]
    states = [saved(part) for part in parts]
    for rank, state in enumerate(states):
        part = counted(target, rank, 3, last_batch="DROP")
        part.load_state_dict(state)
        rest = lists(part)
        assert 5 + len(rest) == len(part) == min(lengths)
        assert part.state_dict()["finished"]
        found += rest
    assert len({tuple(batch) for batch in found}) == len(found) == 3 * min(lengths)
    joined = counted(target, 0, 1, last_batch="DROP")
    joined.load_state_dict(ms.joined_states(states, 1))
    assert len(joined) == 5 + 67 - 15 == 5 + len(lists(joined))
    with pytest.raises(TypeError, match="unknown before its end"):
        len(filtered(target))


def test_any_order_continues_an_ordered_state(cluster: Start) -> None:
    target = cluster(2)
    ordered = counted(target, in_order=True)
    found = taken(ordered, 11)
    part = counted(target)
    part.load_state_dict(ordered.state_dict())
    assert len(part) == 67
    found += taken(part, 20)
    rest = pickle.loads(pickle.dumps(part))
    found += lists(rest)
    assert sorted(found) == sorted(lists(counted(target)))
    with pytest.raises(InvalidArgumentError, match="in_order=False"):
        counted(target, in_order=True).load_state_dict(part.state_dict())
    uncertain = counted(target)
    uncertain.load_state_dict(part.state_dict(), strict=False)
    with pytest.raises(InvalidArgumentError, match="strict=True"):
        next(iter(uncertain))


def test_an_epoch_begins_again_after_a_state(cluster: Start) -> None:
    target = cluster(1)
    earlier = counted(target, in_order=True)
    taken(earlier, 7)
    part = counted(target)
    part.load_state_dict(earlier.state_dict())
    taken(part, 2)
    assert part.state_dict(behind=1)["step"] == 8
    part.set_epoch(0)
    assert len(lists(part)) == len(part) == 67


def test_positions_are_small_states() -> None:
    done = {100_000 + at: (1 << 64) - 1 for at in range(OPEN_MAX + 1, WINDOW)}
    place = Place(100_000, {100_000 + at: 10 + at for at in range(OPEN_MAX + 1)} | done)
    state = place.to_state()
    assert Place.from_state(json.loads(json.dumps(state))) == place
    assert len(json.dumps(state)) < 900
    spread = Place(7, {7 + 5 * at: (1 << 64) - 1 for at in (2, 3, 40)})
    assert Place.from_state(spread.to_state()) == spread
    assert len(json.dumps(spread.to_state())) < 60
    after = (7, 5, 1, (1 << 2) + (1 << 3) + (1 << 63), 8, 2)
    had = {8: 2, 17: (1 << 64) - 1, 22: (1 << 64) - 1, 322: (1 << 64) - 1}
    complete = struct.pack("<10Q", 8, 1, 0, 0, *after)
    assert element_of(complete) == (8, 1, False) and Place.from_bytes(complete) == Place(7, had)
    reduced = struct.pack("<14Q", 8, 1, 0, 2, 6, 9, 8, (1 << 64) - 1, *after)
    place = Place.from_bytes(reduced)
    assert element_of(reduced) == (8, 1, True) and place == Place(7, had, None, ((6, 9), (8, (1 << 64) - 1)))
    # Split 6 is finished, so the state need not name its element.
    assert Place.from_state(place.to_state()) == Place(7, had, None, ((8, (1 << 64) - 1),))


def test_order_belongs_to_exactly_once(cluster: Start) -> None:
    with pytest.raises(ValueError, match="in_order belong"):
        ms.service.distribute("distributed_epoch", cluster(1), in_order=False)
