"""Tests of a loader's epochs over datasets with other readers, and over iterables with a state."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import DataLoader, Dataset, _code

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def distributed(service: Any, **options: Any) -> Dataset:
    return Dataset.range(100).batch(10).apply(ms.service.distribute("distributed_epoch", service, **options))


def elements(batches: Any) -> list[int]:
    return sorted(int(value) for batch in batches for value in np.ravel(batch))


WHOLE = list(range(100))


def test_a_loader_reads_passes_that_others_have_not(processes: ms.LocalService) -> None:
    read = distributed(processes)
    assert [elements(read), elements(read)] == [WHOLE] * 2
    assert elements(DataLoader(read, output="numpy")) == WHOLE
    loader = DataLoader(read, output="numpy")
    assert [elements(loader) for _ in range(3)] == [WHOLE] * 3


def test_a_peek_takes_nothing_from_a_loader(processes: ms.LocalService) -> None:
    peeked = distributed(processes)
    next(iter(peeked))
    loader = DataLoader(peeked, output="numpy")
    assert [elements(loader) for _ in range(2)] == [WHOLE] * 2


def test_two_loaders_of_a_dataset_each_read_all(processes: ms.LocalService) -> None:
    shared = distributed(processes)
    one, two = DataLoader(shared, output="numpy"), DataLoader(shared, output="numpy")
    first = next(iter(one))
    assert elements(two) == elements(two) == WHOLE
    assert len(first) == 10


def test_an_epoch_set_again_is_read_again(processes: ms.LocalService) -> None:
    for loader in (
        DataLoader(distributed(processes), output="numpy"),
        DataLoader(Dataset.range(100).batch(10), service=processes, output="numpy"),
    ):
        for _ in range(3):
            loader.set_epoch(0)
            assert elements(loader) == WHOLE


def test_a_named_jobs_pass_is_read_once(processes: ms.LocalService) -> None:
    named = distributed(processes, job_name="read-once")
    assert elements(named) == WHOLE
    loader = DataLoader(named, output="numpy")
    with pytest.raises(ms.errors.FailedPreconditionError, match="pass 0 of the job 'read-once' was opened"):
        list(loader)
    loader.set_epoch(1)
    assert elements(loader) == WHOLE


class Counting:
    """An iterable that continues at its last position, like a stream."""

    def __init__(self, count: int = 40) -> None:
        self.count, self.at = count, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while self.at < self.count:
            self.at += 1
            yield {"x": np.int64(self.at - 1)}


class Stated(Counting):
    """An iterable with ``state_dict`` and ``load_state_dict``."""

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


class Iterated:
    """An iterable whose iterators have ``state_dict`` and ``load_state_dict``."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(StatedIterator())


class StatedIterator(Stated):
    """The iterator of ``Iterated``, which has a state."""

    def __iter__(self) -> StatedIterator:  # type: ignore[override]
        return self

    def __next__(self) -> dict[str, Any]:
        if self.at == self.count:
            raise StopIteration
        self.at += 1
        return {"x": np.int64(self.at - 1)}


def numbers(batches: Any) -> list[int]:
    return [int(value) for batch in batches for value in batch["x"]]


def of(dataset: Any, **arguments: Any) -> DataLoader:
    return DataLoader(dataset, **{"batch_size": 4, "output": "numpy", **arguments})


def test_finding_the_spec_takes_no_batch() -> None:
    assert numbers(of(Counting())) == list(range(40))
    asked = of(Counting())
    assert asked.element_spec["x"].dtype == ms.int64
    assert numbers(asked) == list(range(40))
    with of(Counting(), num_workers=1) as loader:
        assert loader.element_spec["x"].dtype == ms.int64
        assert numbers(loader) == list(range(40))


def test_finding_the_spec_takes_no_batch_from_workers(processes: ms.LocalService) -> None:
    found = ms.distribute(Counting(), processes, batch_size=4)
    assert sorted(numbers(found)) == sorted(2 * list(range(40))), "each worker yields all"


@pytest.mark.parametrize("make", [Stated, Iterated])
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_an_iterable_goes_on_by_its_own_state(make: type, steps: int) -> None:
    loader = of(make())
    batches = iter(loader)
    for _ in range(steps):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["iterable"] == {"iterator" if make is Iterated else "dataset": {"at": 4 * steps}}
    resumed = of(make())
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    assert numbers(resumed) == list(range(4 * steps, 40))


def test_a_state_some_batches_behind_is_exact() -> None:
    loader = of(Stated())
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    resumed = of(Stated())
    resumed.load_state_dict(loader.state_dict(behind=2))
    assert numbers(resumed) == list(range(12, 40))


def test_an_iterables_state_on_workers_is_refused() -> None:
    loader = of(Stated())
    next(iter(loader))
    with of(Stated(), num_workers=1) as served, pytest.raises(ms.errors.FailedPreconditionError, match="order"):
        served.load_state_dict(loader.state_dict())


class Indexed:
    """A dataset with indices."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.int64(index)}


@pytest.mark.parametrize(("arguments", "steps"), [({"batch_size": 32}, 4), ({"batch_size": 32, "drop_last": True}, 3), ({}, 100)])
def test_a_distributed_dataset_of_indices_has_a_length(
    processes: ms.LocalService, arguments: dict[str, Any], steps: int
) -> None:
    found = ms.distribute(Indexed(100), processes, **arguments)
    assert len(found) == len(list(found)) == steps


def test_a_length_that_workers_decide_is_unknown(processes: ms.LocalService) -> None:
    everywhere = ms.distribute(Indexed(100), processes, batch_size=32, processing_mode="parallel_epochs")
    with pytest.raises(TypeError, match="unknown number of elements"):
        len(everywhere)


def test_pinned_memory_without_a_device_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="pin_memory has no effect"):
        assert numbers(of(Counting(), pin_memory=True)) == list(range(40))
