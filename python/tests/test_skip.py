"""Tests of skipped batches: a run with skips is an undisturbed run without these batches, for every chain of saves and loads."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.errors import InvalidArgumentError

Start = Callable[..., str]
Make = Callable[..., Any]


def exact(target: Any, dataset: Dataset, rank: int = 0, size: int = 1, **options: Any) -> ms.DataLoader:
    options = {"visitation": "exactly_once", "seed": 3, "output": "numpy", "dp_rank": rank, "dp_size": size, **options}
    return ms.DataLoader(dataset, service=target, **options)


def counted(target: Any, **options: Any) -> ms.DataLoader:
    return exact(target, Dataset.range(200).shuffle(50).batch(4), **options)


def parted(target: Any, **options: Any) -> ms.DataLoader:
    """Returns a loader with several batches in a split."""
    return exact(target, Dataset.range(200).split_size(30).shuffle(20).batch(4), **options)


def filtered(target: Any, **options: Any) -> ms.DataLoader:
    """Returns a loader whose number of batches is unknown. Some splits have no batch."""
    return exact(target, Dataset.range(400).split_size(20).filter(lambda x: x % 80 >= 20).shuffle(7).batch(4), **options)


def skips_allowed(target: Any, **options: Any) -> ms.DataLoader:
    return exact(target, Dataset.range(200).shuffle(50).batch(4), max_skips=1, **options)


def quarantining(target: Any, **options: Any) -> ms.DataLoader:
    """Returns a loader that leaves out the elements 13, 74, 135 and 196, whose computation fails."""
    failing = Dataset.range(200).split_size(30).shuffle(20).map(lambda x: x + 0 * (100 // (x % 61 - 13)))
    return exact(target, failing.batch(4), max_quarantined=4, max_failures=1, **options)


def indexed(target: Any, rank: int = 0, size: int = 1, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(list(range(200)), batch_size=4, shuffle=True, seed=3, output="numpy", dp_rank=rank, dp_size=size, **options)


def mixed(target: Any, **options: Any) -> ms.Mixture:
    components = {"a": Dataset.range(120).shuffle(30).batch(4), "b": Dataset.range(1000, 1080).filter(lambda x: x % 3 != 0).batch(4)}
    options = {"rank": 0, "size": 1, **options}
    rank, size = options.pop("rank"), options.pop("size")
    loaders = {name: exact(target, dataset, rank, size, **options) for name, dataset in components.items()}
    return ms.mix(loaders, [2, 1], stop="all_exhausted_without_replacement", seed=3)


def indexed_on_workers(target: Any, **options: Any) -> ms.DataLoader:
    return indexed(target, service=target, **options)


def stream(target: Any, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(Dataset.range(200).shuffle(50, seed=3).batch(4), visitation="upstream", output="numpy")


class Numbers:
    """An iterable dataset."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(200))


def iterable(target: Any, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(Numbers(), batch_size=4, output="numpy")


KINDS: dict[str, Make] = {
    "counted": counted,
    "parted": parted,
    "filtered": filtered,
    "skips allowed": skips_allowed,
    "quarantining": quarantining,
    "indexed": indexed,
    "indexed on workers": indexed_on_workers,
    "stream": stream,
    "iterable": iterable,
    "mixed": mixed,
}
#: The kinds that have only one order.
IN_ORDER_ONLY = ("indexed", "stream", "iterable", "mixed")


def numbers(batch: Any) -> tuple[int, ...]:
    return tuple(int(x) for x in batch.reshape(-1))


def taken(batches: Iterator[Any], count: int | None = None) -> list[tuple[int, ...]]:
    return [numbers(batch) for batch in itertools.islice(batches, count)]


def wire(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state)
    assert len(text) < 1024
    loaded: dict[str, Any] = json.loads(text)
    return loaded


class Run:
    """One random chain of reads, skips, saves and loads. Notes the delivered batches, and the steps of skipped ones."""

    def __init__(self, make: Callable[[], Any], seed: int) -> None:
        self.make, self.draws = make, random.Random(seed)
        self.part = make()
        self.batches: Iterator[Any] | None = None
        self.found: list[tuple[int, ...]] = []
        self.skipped: list[int] = []

    def to_the_end(self) -> None:
        for _ in range(1000):
            count = self.draws.choice([0, 1, 3, 8])
            match self.draws.choice(["read", "skip", "load"]):
                case "read":
                    self.batches = iter(self.part) if self.batches is None else self.batches
                    read = taken(self.batches, count)
                    self.found += read
                    if len(read) < count:
                        return
                case "skip":
                    before = self.part.step
                    skipped = self.part.skip(count)
                    self.skipped += range(before, before + skipped)
                    if skipped < count:
                        assert self.part.epoch == 0 and taken(iter(self.part) if self.batches is None else self.batches) == []
                        return
                case "load":
                    state = wire(self.part.state_dict())
                    if self.batches is not None:
                        self.batches.close()  # type: ignore[attr-defined]
                    self.part, self.batches = self.make(), None
                    self.part.load_state_dict(state)
                    if not state["finished"]:
                        assert wire(self.part.state_dict()) == state


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "any order"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_run_with_skips_lacks_only_these_batches(cluster: Start, kind: str, in_order: bool) -> None:
    target = cluster(2)
    if kind in IN_ORDER_ONLY and not in_order:
        pytest.skip("this kind has only one order")
    wanted = taken(iter(KINDS[kind](target, in_order=in_order)))
    for seed in range(3):
        run = Run(lambda: KINDS[kind](target, in_order=in_order), seed)
        run.to_the_end()
        assert len(run.skipped) == len(set(run.skipped))
        if in_order:
            assert run.found == [batch for step, batch in enumerate(wanted) if step not in run.skipped]
        else:
            assert len(run.found) == len(set(run.found)) == len(wanted) - len(run.skipped)
            assert set(run.found) <= set(wanted)


@pytest.mark.parametrize("kind", ["counted", "parted", "filtered", "quarantining"])
@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "any order"])
def test_states_of_trainers_that_skip_alike_join(cluster: Start, kind: str, in_order: bool) -> None:
    target, draws = cluster(2), random.Random(kind)
    wanted = taken(iter(KINDS[kind](target)))
    for _ in range(2):
        state, found, skipped = None, [], 0
        for _ in range(2):
            size, reads, skips = draws.choice([1, 2, 3]), draws.randrange(4), draws.randrange(1, 4)
            parts = [KINDS[kind](target, rank=rank, size=size, in_order=in_order) for rank in range(size)]
            for part in parts:
                if state is not None:
                    part.load_state_dict(ms.joined_states(state, size))
                batches = iter(part)
                found += taken(batches, reads)
                assert part.skip(skips) == skips
                skipped += skips
            state = [wire(part.state_dict()) for part in parts]
        assert state is not None
        last = KINDS[kind](target, in_order=in_order)
        last.load_state_dict(wire(ms.joined_states(state, 1)))
        found += taken(iter(last))
        assert len(found) == len(set(found)) == len(wanted) - skipped and set(found) <= set(wanted)


def test_trainers_skip_the_batches_of_a_step(cluster: Start) -> None:
    target = cluster(2)
    alone = taken(iter(counted(target)))
    for size in (2, 5):
        found: list[tuple[int, ...]] = []
        for rank in range(size):
            part = counted(target, rank=rank, size=size)
            batches = iter(part)
            found += taken(batches, 3)
            assert part.skip(2) == 2
            found += taken(batches)
        assert sorted(found) == sorted(alone[: 3 * size] + alone[5 * size :])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("is_running", [False, True], ids=["before", "within"])
def test_skips_end_with_the_epoch(cluster: Start, kind: str, is_running: bool) -> None:
    make, target = KINDS[kind], cluster(1)
    whole = make(target)
    epochs = [taken(iter(whole)), taken(iter(whole))]
    part = make(target)
    batches = iter(part)
    assert taken(batches, 2 * is_running) == epochs[0][: 2 * is_running]
    left = len(epochs[0]) - 2 * is_running
    assert part.skip(left - 1) == left - 1
    assert part.skip(7) == 1
    assert part.skip(7) == part.skip(1) == 0
    assert taken(batches if is_running else iter(part)) == []
    assert taken(iter(part)) == epochs[1]


def test_endless_mixtures_skip_across_epochs(cluster: Start) -> None:
    def endless() -> ms.Mixture:
        return ms.mix({"a": counted(cluster(1)), "b": parted(cluster(1))}, [2, 1], stop="never", seed=3)

    wanted, part = taken(iter(endless()), 200), endless()
    batches = iter(part)
    found = taken(batches, 30)
    assert part.skip(100) == 100
    assert found + taken(batches, 70) == wanted[:30] + wanted[130:]


def test_skipping_nothing_begins_nothing() -> None:
    part = filtered("127.0.0.1:1")
    assert (part.skip(0), part.step) == (0, 0)
    assert ms.mix([filtered("127.0.0.1:1")]).skip(0) == 0


def test_mixtures_prefetch_after_a_skip(cluster: Start) -> None:
    part = mixed(cluster(1))
    part.skip(1)
    part.start_prefetch()
    assert all(loader._prefetched is not None or name in part._readings for name, loader in part._loaders.items())
    assert taken(iter(part)) == taken(iter(mixed(cluster(1))))[1:]


def test_the_next_epoch_may_begin_with_a_skip(cluster: Start) -> None:
    for make in (counted, filtered):
        whole = make(cluster(1))
        epochs = [taken(iter(whole)), taken(iter(whole))]
        part = make(cluster(1))
        assert taken(iter(part)) == epochs[0]
        assert part.skip(3) == 3
        assert (part.epoch, part.step) == (1, 3)
        assert taken(iter(part)) == epochs[1][3:]


def test_computed_positions_are_skipped_without_reading(cluster: Start) -> None:
    part = counted("127.0.0.1:1")
    assert part.skip(30) == 30
    state = wire(part.state_dict())
    assert state["step"] == 30
    later = counted(cluster(1))
    later.load_state_dict(state)
    assert taken(iter(later)) == taken(iter(counted(cluster(1))))[30:]


def test_prefetched_batches_are_skipped(cluster: Start) -> None:
    wanted = taken(iter(counted(cluster(1))))
    part = counted(cluster(1))
    part.start_prefetch()
    assert part.skip(2) == 2
    assert taken(iter(part)) == wanted[2:]


def test_unused_batches_before_a_skip_have_no_state(cluster: Start) -> None:
    for make in (counted, mixed):
        part = make(cluster(1))
        batches = iter(part)
        taken(batches, 5)
        part.skip(2)
        taken(batches, 2)
        assert part.state_dict(behind=2)["step"] == 7
        with pytest.raises(InvalidArgumentError, match="behind=3 reaches back to step 6.*up to step 7 were skipped"):
            part.state_dict(behind=3)


def test_counts_of_skips_are_bounded(cluster: Start) -> None:
    for make in (counted, mixed):
        for count in (-1, 4097):
            with pytest.raises(InvalidArgumentError, match=f"batches={count}: expected a number of batches from 0 to 4096"):
                make(cluster(1)).skip(count)


def test_skipped_batches_have_a_lineage(cluster: Start) -> None:
    for in_order in (True, False):
        part = filtered(cluster(1), in_order=in_order)
        batches = iter(part)
        taken(batches, 2)
        part.skip(3)
        lineages = [part.lineage(step).parts[0] for step in range(5)]
        assert len({(one.split, one.positions) for one in lineages}) == 5
