"""Tests of loaders over datasets that ``ms.service.distribute`` reads exactly once."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.errors import FailedPreconditionError, InvalidArgumentError
from millstream.service import distribute

Start = Callable[..., str]


def counted() -> Dataset:
    """Returns a pipeline whose number of batches is known."""
    return Dataset.range(300).shuffle(300).batch(10)


def filtered() -> Dataset:
    """Returns a pipeline in which a filter decides the number of batches."""
    return Dataset.range(300).split_size(20).shuffle(20).filter(lambda x: x % 3 != 0).batch(7)


def exactly(target: Any, **options: Any) -> Callable[[Dataset], Dataset]:
    return distribute("distributed_epoch", target, visitation="exactly_once", **options)


def loader(dataset: Dataset) -> ms.DataLoader:
    return ms.DataLoader(dataset, output="numpy")


def lists(dataset: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in dataset]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("make", [counted, filtered])
def test_any_chain_of_saves_is_one_run(cluster: Start, make: Callable[[], Dataset], in_order: bool, seed: int) -> None:
    chance, targets = random.Random(seed), [cluster(1), cluster(3)]
    wanted = lists(make().apply(exactly(targets[0], seed=5)))
    options = {"seed": 5, "in_order": in_order}
    reading = loader(make().apply(exactly(targets[0], **options)))
    found = list[list[int]]()
    while True:
        found += lists(itertools.islice(reading, chance.choice([0, 1, 2, 9])))
        state = json.loads(json.dumps(reading.state_dict()))
        assert len(json.dumps(state)) < 1024
        if state["finished"]:
            break
        reading = loader(make().apply(exactly(chance.choice(targets), **options)))
        reading.load_state_dict(state)
    assert found == wanted if in_order else sorted(found) == sorted(wanted)


def test_loaders_with_a_service_share_the_states(cluster: Start) -> None:
    target = cluster(2)
    given = ms.DataLoader(counted(), service=target, seed=4, output="numpy")
    wanted = lists(given)
    first = loader(counted().apply(exactly(target, seed=4)))
    found = lists(itertools.islice(first, 8))
    second = ms.DataLoader(counted(), service=target, seed=4, output="numpy")
    second.load_state_dict(first.state_dict())
    found += lists(itertools.islice(second, 9))
    first.load_state_dict(second.state_dict())
    assert found + lists(first) == wanted
    assert len(first) == len(wanted)


def test_distribute_decides_the_part_of_a_trainer(cluster: Start) -> None:
    target = cluster(2)
    wanted = sorted(lists(counted().apply(exactly(target))))
    parts = [loader(counted().apply(exactly(target, dp_rank=rank, dp_size=3))) for rank in range(3)]
    assert [(part.rank.dp_rank, part.rank.dp_size) for part in parts] == [(0, 3), (1, 3), (2, 3)]
    found = [batch for part in parts for batch in lists(itertools.islice(part, 4))]
    later = [loader(counted().apply(exactly(target, dp_rank=rank, dp_size=2))) for rank in range(2)]
    for part in later:
        part.load_state_dict(parts[0].state_dict())
        found += lists(part)
    assert sorted(found) == wanted


def test_operations_with_equal_elements_keep_positions(cluster: Start) -> None:
    target = cluster(1)
    options = ms.Options()
    options.deterministic = True
    first = loader(counted().apply(exactly(target)).prefetch(2))
    found = lists(itertools.islice(first, 7))
    second = loader(counted().apply(exactly(target)).with_options(options).with_output("numpy"))
    second.load_state_dict(first.state_dict())
    assert found + lists(second) == lists(counted().apply(exactly(target)))


def test_operations_that_follow_have_no_position(cluster: Start) -> None:
    dataset = counted().apply(exactly(cluster(1), dp_rank=1, dp_size=2)).map(lambda x: x + 1).prefetch(1)
    wanted = lists(loader(dataset))
    first, second = loader(dataset), loader(dataset)
    found = lists(itertools.islice(first, 4))
    with pytest.raises(FailedPreconditionError, match="operations follow ms.service.distribute"):
        second.load_state_dict(first.state_dict())
    second.load_state_dict(first.state_dict(), strict=False)
    assert found + lists(second) == wanted
    assert (second.rank.dp_rank, second.rank.dp_size) == (1, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"service": "localhost:1"},
        {"seed": 1},
        {"dp_rank": 0, "dp_size": 1},
        {"in_order": False},
        {"max_skips": 2},
        {"visitation": "upstream"},
    ],
)
def test_contradictions_of_distribute_are_refused(cluster: Start, options: dict[str, Any]) -> None:
    dataset = counted().apply(exactly(cluster(1), seed=3, dp_rank=1, dp_size=2, max_skips=1))
    name = next(iter(options))
    for given in (dataset, dataset.map(lambda x: x + 1)):
        with pytest.raises(InvalidArgumentError, match=f"{name}.* to ms.service.distribute alone"):
            ms.DataLoader(given, **options)


def test_the_other_arguments_of_distribute_hold(processes: ms.LocalService) -> None:
    made = loader(counted().apply(exactly(processes, target_workers="LOCAL")))
    with pytest.raises(InvalidArgumentError, match="this process has none"):
        next(iter(made))


def test_equal_arguments_may_be_repeated(cluster: Start) -> None:
    target = cluster(1)
    dataset = counted().apply(exactly(target, seed=3, dp_rank=1, dp_size=2, in_order=False))
    options: dict[str, Any] = {"service": target, "seed": 3, "dp_rank": 1, "dp_size": 2, "visitation": "exactly_once"}
    made = ms.DataLoader(dataset, in_order=False, drop_last=True, **options)
    assert (made.rank.dp_rank, made.rank.dp_size, made.in_order, len(made)) == (1, 2, False, 15)
    with pytest.raises(InvalidArgumentError, match="FILL"):
        ms.DataLoader(dataset, last_batch="FILL")


def test_copies_of_loaders_and_datasets_continue(cluster: Start) -> None:
    dataset = counted().apply(exactly(cluster(1), dp_rank=1, dp_size=2))
    first = loader(dataset)
    wanted = lists(loader(dataset))
    found = lists(itertools.islice(first, 5))
    assert found + lists(pickle.loads(pickle.dumps(first))) == wanted
    other = loader(pickle.loads(pickle.dumps(dataset)))
    other.load_state_dict(first.state_dict())
    assert found + lists(other) == wanted


def test_a_mixture_of_distributed_datasets_resumes(cluster: Start) -> None:
    target = cluster(2)

    def mixture() -> ms.Mixture:
        parts = {name: make().apply(exactly(target)) for name, make in (("counted", counted), ("filtered", filtered))}
        return ms.mix(parts, seed=1, output="numpy")

    wanted = lists(mixture())
    first = mixture()
    found = lists(itertools.islice(first, 11))
    second = mixture()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + lists(second) == wanted
