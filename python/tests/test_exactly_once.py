"""Tests of exactly-once jobs: each element is delivered once and in one order, whatever happens to workers and trainers."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_processes import own_worker

import millstream as ms
from millstream import Dataset
from millstream.errors import InvalidArgumentError
from millstream.service import distribute

Start = Callable[..., str]


def pipeline(count: int = 1000) -> Dataset:
    """Returns a pipeline whose batches depend on draws and on a filter."""
    return Dataset.range(count).split_size(50).shuffle(20).map(lambda x: x * 3).filter(lambda x: x % 2 == 0).batch(7)


def exactly(target: Any, **options: Any) -> Callable[[Dataset], Dataset]:
    return distribute("distributed_epoch", target, visitation="exactly_once", **options)


def lists(dataset: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in dataset]


WANTED = sorted(x * 3 for x in range(1000) if x % 2 == 0)


def test_the_order_does_not_depend_on_workers(cluster: Start) -> None:
    orders = [lists(pipeline().apply(exactly(cluster(workers)))) for workers in (1, 2, 7)]
    assert orders[0] == orders[1] == orders[2]
    assert sorted(x for batch in orders[0] for x in batch) == WANTED


def test_the_order_does_not_depend_on_threads(cluster: Start) -> None:
    spec = ms.TensorSpec((), ms.int64)
    dataset = Dataset.range(300).split_size(20).shuffle(10).map_python(Uneven(), element_spec=spec, num_parallel_calls=8).batch(7)
    orders = [lists(dataset.apply(exactly(cluster(1, threads=threads)))) for threads in (1, 8)]
    inline = ms.DataLoader(dataset, visitation="exactly_once", output="numpy")
    assert orders[0] == orders[1] == lists(inline)
    assert sorted(x for batch in orders[0] for x in batch) == list(range(300))


def ragged(x: Any) -> Any:
    return np.full(1 + int(x) % 4, x)


@pytest.mark.parametrize(
    "make",
    [
        lambda numbers: numbers.batch(7),
        lambda numbers: numbers.window(6).flat_map(lambda window: window.batch(4)),
        lambda numbers: numbers.group_by_window(lambda x: x % 3, lambda _, window: window.batch(4), 4),
        lambda numbers: numbers.map_python(ragged, element_spec=ms.TensorSpec((None,), ms.int64)).bucket_by_sequence_length(
            lambda row: ms.ops.shape(row)[0], [2, 4], [3, 2, 4]
        ),
        lambda numbers: numbers.interleave(lambda x: Dataset.from_tensors(x).repeat(2), cycle_length=3).batch(4),
    ],
    ids=["batch", "window", "group_by_window", "bucket_by_sequence_length", "interleave"],
)
def test_groups_do_not_depend_on_workers(cluster: Start, make: Callable[[Dataset], Dataset]) -> None:
    dataset = make(Dataset.range(200).split_size(20).shuffle(8))
    orders = [[batch.tolist() for batch in dataset.apply(exactly(cluster(workers)))] for workers in (1, 3)]
    inline = ms.DataLoader(dataset, visitation="exactly_once", output="numpy")
    assert orders[0] == orders[1] == [batch.tolist() for batch in inline]
    # Shorter rows end with zeros.
    assert {int(x) for batch in orders[0] for x in np.ravel(batch)} == set(range(200))


def test_epochs_and_seeds_have_different_orders(cluster: Start) -> None:
    target = cluster(2)
    dataset = pipeline().apply(exactly(target))
    first, second = lists(dataset), lists(dataset)
    again = pipeline().apply(exactly(target))
    assert first != second
    assert (lists(again), lists(again)) == (first, second)
    assert lists(pipeline().apply(exactly(target, seed=1))) != first


def test_trainers_divide_an_epoch(cluster: Start) -> None:
    target = cluster(2)
    alone = lists(pipeline().apply(exactly(target)))
    for trainers in (2, 3):
        parts = [lists(pipeline().apply(exactly(target, dp_rank=rank, dp_size=trainers))) for rank in range(trainers)]
        assert sorted(batch for part in parts for batch in part) == sorted(alone)
        assert all(parts)


def test_operations_follow_in_the_trainer(cluster: Start) -> None:
    dataset = pipeline().apply(exactly(cluster(2))).unbatch().map(lambda x: x + 1).batch(100)
    assert sorted(x for batch in lists(dataset) for x in batch) == [x + 1 for x in WANTED]


def test_empty_splits_and_datasets_end(cluster: Start) -> None:
    target = cluster(2)
    sparse = Dataset.range(400).split_size(10).filter(lambda x: x % 100 == 5).map(lambda x: (x, "text"))
    assert [int(x) for x, _ in sparse.apply(exactly(target))] == [5, 105, 205, 305]
    assert list(Dataset.range(40).filter(lambda x: x > 50).apply(exactly(target))) == []


class Uneven:
    """Needs a different time for each element, so that parallel calls end in another order than they begin."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.0005 * (int(x) * 7 % 5))
        return x


class Slow:
    """Computes an element in a few milliseconds, so that a worker is killed in the middle of a split."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.004)
        return x


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=3) as service:
        yield service


def slow(count: int = 600) -> Dataset:
    spec = ms.TensorSpec((), ms.int64)
    return Dataset.range(count).split_size(25).shuffle(10).map_python(Slow(), element_spec=spec).batch(3)


@pytest.mark.parametrize("send", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_lost_worker_changes_nothing(
    service: ms.LocalService, send: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = lists(slow().apply(exactly(service)))
    assert sorted(x for batch in undisturbed for x in batch) == list(range(600))
    batches, found, continued_after = iter(slow().apply(exactly(service))), [], 0
    for batch in batches:
        found.append([int(x) for x in batch])
        if len(found) == 20:
            os.kill(service.pids[1], send)
        if send == signal.SIGSTOP and not continued_after and "was given up" in caplog.text:
            os.kill(service.pids[1], signal.SIGCONT)
            continued_after = len(found)
            # The reader receives meanwhile what the worker sends.
            time.sleep(0.5)
    assert found == undisturbed
    assert send != signal.SIGSTOP or 20 < continued_after < len(found)


class Fickle:
    """Returns twice the element, plus 0 or 1 at random, so that a filter keeps other elements in each attempt. Also returns its worker.

    Several processes of one worker may compute the elements of one split.
    """

    def __init__(self, workers: list[int]) -> None:
        self.workers = workers

    def __call__(self, x: Any) -> Any:
        time.sleep(0.004)
        return 2 * x + (os.urandom(1)[0] & 1), own_worker(self.workers)


def test_a_random_filter_changes_one_split_at_most(service: ms.LocalService) -> None:
    number = ms.TensorSpec((), ms.int64)
    drawn = Dataset.range(600).split_size(25).map_python(Fickle(service.pids[1:]), element_spec=(number, number))
    found = []
    for element, worker in drawn.filter(lambda x, _: x % 2 == 0).apply(exactly(service)):
        found.append((int(element) // 2, int(worker)))
        if len(found) == 60:
            os.kill(service.pids[1], signal.SIGKILL)
    splits = [x // 25 for x, _ in found]
    assert splits == sorted(splits) and {x for x, _ in found} <= set(range(600))
    # The trainer had a part of one split at most when the worker died. Only there, elements come from two attempts.
    workers = {split: {worker for x, worker in found if x // 25 == split} for split in splits}
    mixed = [split for split, of in workers.items() if len(of) > 1]
    assert len(mixed) <= 1, mixed
    for split in workers.keys() - set(mixed):
        own = [x for x, _ in found if x // 25 == split]
        assert own == sorted(set(own))


def loader(target: Any, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(pipeline(), service=target, visitation="exactly_once", output="numpy", seed=3, **options)


@pytest.mark.parametrize("taken", [0, 1, 7, 30])
def test_a_saved_loader_continues_exactly(cluster: Start, taken: int) -> None:
    target = cluster(2)
    whole = loader(target)
    epochs = [lists(whole), lists(whole)]
    first = loader(target)
    batches = iter(first)
    found = [[int(x) for x in next(batches)] for _ in range(taken)]
    state = json.loads(json.dumps(first.state_dict()))
    assert len(json.dumps(state)) < 1024
    second = loader(cluster(1))
    second.load_state_dict(state)
    assert second.state_dict() == state
    found += lists(second)
    assert [found, lists(second)] == epochs
    third = loader(target)
    third.load_state_dict(second.state_dict())
    assert third.state_dict()["finished"]


@pytest.mark.parametrize("seed", range(4))
def test_any_chain_of_saves_is_one_run(cluster: Start, seed: int) -> None:
    """Saves and loads between any two batches, at the ends of epochs, before the first batch, and twice in a row."""
    chance = random.Random(seed)
    targets = [cluster(1), cluster(3)]
    whole = loader(targets[0])
    wanted = [batch for _ in range(3) for batch in lists(whole)]
    reading = loader(targets[0])
    batches, found = iter(reading), list[list[int]]()
    while len(found) < len(wanted):
        wish = chance.choice([0, 1, 2, 20, 1000])
        taken = [[int(x) for x in batch] for batch in itertools.islice(batches, wish)]
        found += taken
        state = json.loads(json.dumps(reading.state_dict()))
        if chance.random() < 0.7:
            reading = loader(chance.choice(targets))
            reading.load_state_dict(state)
            batches = iter(reading)
        elif len(taken) < wish:
            batches = iter(reading)
    assert found[: len(wanted)] == wanted


@pytest.mark.parametrize("later", [1, 2, 4])
def test_states_continue_with_other_trainers(cluster: Start, later: int) -> None:
    target = cluster(2)
    wanted = sorted(lists(loader(target)))
    states, found = [], []
    for rank, taken in enumerate((4, 11, 6)):
        part = loader(target, dp_rank=rank, dp_size=3)
        batches = iter(part)
        found += [[int(x) for x in next(batches)] for _ in range(taken)]
        states.append(part.state_dict())
    joined = ms.joined_states(states, later)
    for rank in range(later):
        part = loader(target, dp_rank=rank, dp_size=later)
        part.load_state_dict(joined)
        # A second change of the number of trainers, in the middle of the rest.
        batches = iter(part)
        found += [[int(x) for x in batch] for _, batch in zip(range(3), batches, strict=False)]
        rest = loader(target, dp_rank=rank, dp_size=later)
        rest.load_state_dict(part.state_dict())
        found += lists(rest)
    assert sorted(found) == wanted


def test_a_finished_trainer_joins_unfinished_ones(cluster: Start) -> None:
    target = cluster(2)
    parts = [loader(target, dp_rank=rank, dp_size=2) for rank in range(2)]
    batches = iter(parts[1])
    found = lists(parts[0]) + [[int(x) for x in next(batches)] for _ in range(5)]
    joined = ms.joined_states([part.state_dict() for part in parts], 1)
    alone = loader(target)
    alone.load_state_dict(joined)
    assert sorted(found + lists(alone)) == sorted(lists(loader(target)))
    finished = ms.joined_states([parts[0].state_dict() | {"trainers": 1, "checksum": None}], 2)
    assert finished["finished"]


def test_a_loader_without_a_service_is_exact(cluster: Start) -> None:
    assert lists(loader(None)) == lists(loader(cluster(3)))


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Dataset.range(9).take(3), "take"),
        (Dataset.range(9).repeat(), "no end"),
        (Dataset.zip((Dataset.range(9), Dataset.range(9))), "2 sources"),
        (Dataset.range(9).enumerate(), "enumerate"),
    ],
    ids=["take", "repeat", "zip", "enumerate"],
)
def test_unsuitable_datasets_are_refused(cluster: Start, dataset: Dataset, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        dataset.apply(exactly(cluster(1)))


def endless(target: Any, dataset: Dataset | None = None, **options: Any) -> ms.DataLoader:
    numbers = Dataset.counter(5, 2).shuffle(40).map(lambda x: x * 3).batch(4) if dataset is None else dataset
    return ms.DataLoader(numbers, service=target, output="numpy", seed=3, **options)


def some(loader: ms.DataLoader, count: int) -> list[list[int]]:
    return [[int(x) for x in batch] for _, batch in zip(range(count), loader, strict=False)]


def test_endless_sources_are_read_exactly_once(cluster: Start) -> None:
    target = cluster(3)
    alone = some(endless(target), 60)
    # Each block of 40 numbers has an order of its own.
    for block in range(6):
        expected = [3 * (5 + 2 * position) for position in range(40 * block, 40 * block + 40)]
        assert sorted(x for batch in alone[10 * block : 10 * block + 10] for x in batch) == expected
    assert alone == some(endless(cluster(1)), 60)
    # Two trainers continue as three.
    parts = [endless(target, dp_rank=rank, dp_size=2) for rank in range(2)]
    read = [some(part, 9) for part in parts]
    assert [batch for pair in zip(*read, strict=True) for batch in pair] == alone[:18]
    states = [json.loads(json.dumps(part.state_dict())) for part in parts]
    assert states[0] == states[1]
    later = [endless(target, dp_rank=rank, dp_size=3) for rank in range(3)]
    for part in later:
        part.load_state_dict(states[0])
        part.skip(2)
    read = [some(part, 4) for part in later]
    assert [batch for three in zip(*read, strict=True) for batch in three] == alone[24:36]
    # Batch 31 of one trainer is batch 10 of trainer 1.
    assert later[1].lineage(9 + 10 - 6).parts == endless(target).lineage(31).parts


def test_endless_sources_have_no_length(cluster: Start) -> None:
    target = cluster(2)
    filtered = Dataset.counter().map(lambda x: x * 3).filter(lambda x: x % 2 == 0)
    assert some(endless(target, filtered.batch(1, drop_remainder=False), visitation="exactly_once"), 5) == [[0], [6], [12], [18], [24]]
    with pytest.raises(TypeError, match="the dataset has no end"):
        len(endless(target))
    unordered = endless(target, in_order=False)
    read = some(unordered, 30)
    with pytest.raises(TypeError, match="unknown"):
        len(unordered)
    rest = endless(cluster(1), in_order=False)
    rest.load_state_dict(unordered.state_dict())
    read += some(rest, 2100)
    # Every batch before the window of splits has been delivered, and none twice.
    alone = {tuple(batch) for batch in some(endless(target), 80)}
    assert len({tuple(batch) for batch in read}) == len(read)
    assert alone <= {tuple(batch) for batch in read}


def test_random_numbers_continue_from_a_state(cluster: Start) -> None:
    target = cluster(2)
    numbers = Dataset.random(4).batch(8)
    whole = some(endless(target, numbers), 40)
    first = endless(target, numbers)
    found = some(first, 13)
    second = endless(cluster(1), numbers)
    second.load_state_dict(first.state_dict())
    assert found + some(second, 27) == whole


def test_contradictory_arguments_are_refused(cluster: Start) -> None:
    target = cluster(1)
    for mode, options in [("parallel_epochs", {}), ("distributed_epoch", {"job_name": "shared"})]:
        with pytest.raises(ValueError, match="exactly_once"):
            distribute(mode, target, visitation="exactly_once", **options)
    with pytest.raises(ValueError, match="seed, dp_rank, dp_size, max_skips, max_deaths, max_quarantined, max_failures and in_order"):
        distribute("distributed_epoch", target, seed=4)
    with pytest.raises(ValueError, match="visitation 'twice'"):
        distribute("distributed_epoch", target, visitation="twice")
    state = loader(target).state_dict()
    with pytest.raises(InvalidArgumentError, match="joined_states"):
        loader(target, dp_rank=0, dp_size=2).load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match="one state of each"):
        ms.joined_states([state, state], 1)


def counted(target: Any, rank: int = 0, size: int = 1, **options: Any) -> ms.DataLoader:
    """Returns a loader whose number of batches is known: 334 batches in 34 splits, of which the last one has 4."""
    dataset = Dataset.range(1000).split_size(30).shuffle(20).batch(3)
    options = {"visitation": "exactly_once", "output": "numpy", "seed": 3, "dp_rank": rank, "dp_size": size, **options}
    return ms.DataLoader(dataset, service=target, **options)


def taken(loader: Any, count: int) -> list[list[int]]:
    batches = iter(loader)
    found = [[int(x) for x in next(batches)] for _ in range(count)]
    batches.close()
    return found


def test_known_lengths_are_those_of_epochs(cluster: Start) -> None:
    target = cluster(2)
    for size in (1, 2, 3):
        parts = [counted(target, rank, size) for rank in range(size)]
        lengths = [len(part) for part in parts]
        assert [len(lists(part)) for part in parts] == lengths
        assert sum(lengths) == 334
        assert all(part.state_dict()["finished"] for part in parts) == (len(set(lengths)) == 1)
    with pytest.raises(TypeError, match="unknown before its end"):
        len(loader(target))


@pytest.mark.parametrize("sizes", [(2, 3, 1), (3, 4, 2), (1, 4, 4)])
def test_one_state_continues_on_any_trainers(cluster: Start, sizes: tuple[int, ...]) -> None:
    target = cluster(2)
    wanted, found, state = sorted(lists(counted(target))), [], None
    for size, steps in zip(sizes, (7, 11, 0), strict=True):
        states = []
        for rank in range(size):
            part = counted(target, rank, size)
            if state is not None:
                part.load_state_dict(state)
                assert part.state_dict() == state
            found += taken(part, steps)
            states.append(json.loads(json.dumps(part.state_dict())))
        state = states[0]
        assert all(other == state for other in states), "the state is the same on all trainers"
        assert ms.joined_states(states, 5) == state
        assert len(json.dumps(state)) < 1024
    for rank in range(sizes[-1]):
        part = counted(target, rank, sizes[-1])
        part.load_state_dict(state)
        whole, rest = len(part), lists(part)
        assert len(rest) == whole - state["step"]
        found += rest
    assert sorted(found) == wanted


def test_any_trainers_read_one_order(cluster: Start) -> None:
    target = cluster(2)
    dataset = Dataset.range(1000).shuffle(100).map(lambda x: x * 3).batch(8)
    options = {"service": target, "output": "numpy", "seed": 3}
    wanted, found, state = lists(ms.DataLoader(dataset, **options)), [], None
    assert sorted(x for batch in wanted for x in batch) == list(range(0, 3000, 3))
    for size, steps in ((1, 5), (4, 6), (3, 7), (2, 37), (1, 1)):
        parts = [ms.DataLoader(dataset, **options, dp_rank=rank, dp_size=size) for rank in range(size)]
        for part in parts:
            if state is not None:
                part.load_state_dict(state)
        # The trainers whose first batch comes first are not always those with the lowest ranks.
        batches = [taken(part, steps) for part in parts]
        found += [sorted((batch[step] for batch in batches), key=wanted.index) for step in range(steps)]
        state = parts[0].state_dict()
    assert [batch for step in found for batch in step] == wanted


def test_dropping_ends_all_trainers_after_one_step(cluster: Start) -> None:
    target = cluster(2)
    parts = [counted(target, rank, 3, last_batch="DROP") for rank in range(3)]
    epochs = [lists(part) for part in parts]
    assert {len(epoch) for epoch in epochs} == {len(parts[0])} == {len(parts[1])}
    assert min(len(counted(target, rank, 3)) for rank in range(3)) == len(parts[0])
    states = [part.state_dict() for part in parts]
    assert states[0]["finished"] and states == [states[0]] * 3
    for part in parts:
        part.load_state_dict(states[0])
    assert [lists(part) for part in parts] != epochs
    with pytest.raises(InvalidArgumentError, match="needs the number of batches"):
        loader(target, last_batch="DROP")
    with pytest.raises(InvalidArgumentError, match="repeats batches"):
        counted(target, last_batch="FILL")


def test_states_of_different_steps_are_not_joined(cluster: Start) -> None:
    target = cluster(1)
    states = []
    for rank, steps in enumerate((2, 3)):
        part = counted(target, rank, 2)
        taken(part, steps)
        states.append(part.state_dict())
    with pytest.raises(InvalidArgumentError, match=r"different states of the steps \[2, 3\]"):
        ms.joined_states(states, 1)
    with pytest.raises(InvalidArgumentError, match="splits"):
        ms.DataLoader(Dataset.range(999).batch(3), service=target, visitation="exactly_once", seed=3).load_state_dict(states[0])
    later = counted(target, 0, 2)
    later.load_state_dict(states[1])
    taken(later, 2)
    assert later.state_dict(behind=1)["step"] == 4
    with pytest.raises(InvalidArgumentError, match="no longer known"):
        later.state_dict(behind=3)


def test_loaders_say_that_they_are_not_exact(cluster: Start, caplog: pytest.LogCaptureFixture) -> None:
    target = cluster(1)
    two_sources = Dataset.zip((Dataset.range(10), Dataset.range(10)))
    for dataset, reason, is_refused in ((pipeline(), "a filter before a batch", False), (two_sources, "source", True)):
        caplog.clear()
        ms.DataLoader(dataset, service=target, output="numpy", seed=3)
        (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "may lose batches" in message and reason in message and "visitation='upstream'" in message
        assert ("visitation='exactly_once'" in message) != is_refused
    caplog.clear()
    with pytest.raises(InvalidArgumentError, match="max_skips=1"):
        ms.DataLoader(pipeline(), service=target, output="numpy", seed=3, max_skips=1)
    assert not caplog.records
    caplog.clear()
    for visitation in ("exactly_once", "upstream"):
        ms.DataLoader(pipeline(), service=target, output="numpy", seed=3, visitation=visitation)
    ms.DataLoader(pipeline(), output="numpy", seed=3)
    assert not caplog.records


def test_loaders_on_a_service_read_exactly_by_default(cluster: Start) -> None:
    target = cluster(2)
    plain = {"service": target, "output": "numpy", "seed": 3}
    whole = Dataset.range(1000).split_size(30).shuffle(20).batch(3)
    assert lists(ms.DataLoader(whole, **plain)) == lists(counted(target))
    assert ms.DataLoader(whole, **plain).state_dict()["visitation"] == "exactly_once"
    assert ms.DataLoader(whole, in_order=False, **plain).state_dict()["order"] == "any"
    # Each split would end with a smaller batch.
    for dataset, options in ((pipeline(), {}), (whole, {"visitation": "upstream"})):
        loader = ms.DataLoader(dataset, **plain, **options)
        assert "visitation" not in loader.state_dict()
    assert sorted(x for batch in lists(ms.DataLoader(pipeline(), **plain)) for x in batch) == WANTED
    parts = [ms.DataLoader(whole, dp_rank=rank, dp_size=2, **plain) for rank in range(2)]
    assert sorted(x for part in parts for batch in lists(part) for x in batch) == list(range(1000))


def test_dropped_remainders_are_those_of_the_dataset(cluster: Start) -> None:
    target = cluster(1)
    dropping = Dataset.range(100).split_size(10).filter(lambda x: x % 2 == 0).batch(4, drop_remainder=True)
    with pytest.raises(InvalidArgumentError, match="drop_remainder=False"):
        list(dropping.apply(exactly(target)))
    assert sum(len(batch) for batch in lists(Dataset.range(101).batch(4, drop_remainder=True).apply(exactly(target)))) == 100


def test_a_restart_without_a_state_reads_all_again(cluster: Start) -> None:
    target = cluster(2)
    begun = taken(loader(target), 7)
    # The batches before the restart are repeated, because only a state tells the loader that the model has them.
    again = lists(loader(target))
    assert again[:7] == begun
    assert sorted(x for batch in again for x in batch) == WANTED


#: A trainer of rank 1 of 3, which reads four batches, prints its state, and reads on until it is killed.
DOOMED = """
import json, sys
sys.path.append(sys.argv[1])
from test_exactly_once import lists, loader
part = loader(sys.argv[2], dp_rank=1, dp_size=3)
batches = iter(part)
begun = [[int(x) for x in next(batches)] for _ in range(4)]
print(json.dumps([begun, part.state_dict()]), flush=True)
next(batches)
sys.stdin.read()
"""


def test_a_dead_trainer_changes_nothing_for_others(cluster: Start) -> None:
    target = cluster(2)
    undisturbed = [lists(loader(target, dp_rank=rank, dp_size=3)) for rank in range(3)]
    others = [iter(loader(target, dp_rank=rank, dp_size=3)) for rank in (0, 2)]
    begun = [[[int(x) for x in next(part)] for _ in range(4)] for part in others]
    command = [sys.executable, "-c", DOOMED, str(Path(__file__).parent), target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as doomed:
        assert doomed.stdout is not None
        had, state = json.loads(doomed.stdout.readline())
        doomed.kill()
    # The other trainers read on without the dead one, whose splits wait for its return.
    assert [first + lists(part) for first, part in zip(begun, others, strict=True)] == [undisturbed[0], undisturbed[2]]
    returned = loader(target, dp_rank=1, dp_size=3)
    returned.load_state_dict(state)
    assert had + lists(returned) == undisturbed[1]


def test_an_epoch_begins_again_after_a_state(cluster: Start) -> None:
    target = cluster(1)
    earlier = counted(target, 0, 3)
    taken(earlier, 7)
    part = counted(target, 0, 2)
    part.load_state_dict(earlier.state_dict())
    taken(part, 2)
    part.set_epoch(0)
    assert lists(part) == lists(counted(target, 0, 2))


class Late:
    """Computes elements of 1 MiB. The first element is ready long after the others."""

    def __call__(self, x: Any) -> Any:
        if x == 0:
            time.sleep(1.5)
        return np.full(1 << 20, int(x) % 251, np.uint8)


def test_early_elements_beyond_the_window_are_in_order(service: ms.LocalService) -> None:
    spec = ms.TensorSpec((1 << 20,), ms.uint8)
    large = Dataset.range(250).split_size(2).map_python(Late(), element_spec=spec)
    # Two of three workers run ahead of the reader by more than its 64 MiB.
    assert [int(x[-1]) for x in large.apply(exactly(service))] == list(range(250))
