"""Tests of exactly-once jobs with a sample that ends each worker process that computes it."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_processes import own_worker

import millstream as ms
from millstream import Dataset
from millstream.errors import DataLossWarning, InvalidArgumentError, UserFunctionError
from millstream.service import distribute

#: The sample that ends its worker. It is in split 1 of splits of 20 samples.
POISON = 37


class Kills:
    """Kills the worker of the process that computes the poison sample, as a crash in native code of the worker does."""

    def __init__(self, workers: list[int]) -> None:
        self.workers = workers

    def __call__(self, x: Any) -> Any:
        if x == POISON:
            os.kill(own_worker(self.workers), signal.SIGKILL)
            time.sleep(60)
        return x


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=4) as service:
        yield service


def batches(service: ms.LocalService) -> Dataset:
    """Returns batches of 5 samples, in splits of 4 batches."""
    numbers = Dataset.range(200).split_size(20)
    return numbers.map_python(Kills(service.pids[1:]), element_spec=ms.TensorSpec((), ms.int64)).batch(5)


def exactly(service: ms.LocalService, **options: Any) -> Any:
    return distribute("distributed_epoch", service, visitation="exactly_once", **options)


def test_a_poison_sample_ends_its_job_only(service: ms.LocalService) -> None:
    other = iter(Dataset.range(300).split_size(10).batch(5).apply(exactly(service)))
    found = [int(x) for _ in range(4) for x in next(other)]
    with pytest.raises(UserFunctionError) as raised:
        list(batches(service).apply(exactly(service)))
    for part in ("split 1 of source 0", "3 workers died", "max_skips"):
        assert part in str(raised.value)
    found += [int(x) for batch in other for x in batch]
    assert found == list(range(300))


def test_a_poison_split_can_be_skipped(service: ms.LocalService) -> None:
    with pytest.warns(DataLossWarning, match="split 1 was skipped"):
        found = [int(x) for batch in batches(service).apply(exactly(service, max_skips=1)) for x in batch]
    assert found == sorted(set(found))
    missing = set(range(200)) - set(found)
    assert {POISON} <= missing <= set(range(20, 40))


def test_a_resumed_loader_meets_no_skipped_split(service: ms.LocalService) -> None:
    def loader() -> ms.DataLoader:
        return ms.DataLoader(batches(service), service=service, visitation="exactly_once", output="numpy", max_skips=1)

    first = loader()
    with pytest.raises(TypeError, match="unknown"):
        len(first)
    found, reading = [], iter(first)
    with pytest.warns(DataLossWarning):
        while not found or found[-1] < 60:
            found += [int(x) for x in next(reading)]
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    del reading
    # One worker is left, which a further meeting with the sample would end.
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataLossWarning)
        found += [int(x) for batch in resumed for x in batch]
    assert found == sorted(set(found)) and set(range(200)) - set(found) <= set(range(20, 40))


def test_max_deaths_limits_the_dead_workers(service: ms.LocalService) -> None:
    with pytest.raises(UserFunctionError, match=r"2 workers died .* max_deaths"):
        list(batches(service).apply(exactly(service, max_deaths=2)))


def test_a_loader_gives_its_limit_of_deaths(service: ms.LocalService) -> None:
    loader = ms.DataLoader(batches(service), service=service, visitation="exactly_once", output="numpy", max_deaths=2)
    with pytest.raises(UserFunctionError, match="2 workers died"):
        list(loader)


def test_a_save_gives_its_limit_of_deaths(service: ms.LocalService, tmp_path: Path) -> None:
    with pytest.raises(UserFunctionError, match="2 workers died"):
        ms.service.save(batches(service), tmp_path / "saved", service, max_deaths=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_skips": -1}, "from 0 to 1024"),
        ({"max_skips": 1025}, "from 0 to 1024"),
        ({"max_deaths": 1}, "from 2 to 16"),
        ({"max_deaths": 17}, "from 2 to 16"),
        ({"max_quarantined": -1}, "from 0 to 256"),
        ({"max_quarantined": 257}, "from 0 to 256"),
        ({"max_failures": 0}, "from 1 to 16"),
        ({"max_failures": 17}, "from 1 to 16"),
    ],
)
def test_unfit_limits_are_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        distribute("distributed_epoch", "localhost:1", visitation="exactly_once", **options)
    with pytest.raises(InvalidArgumentError, match=said):
        ms.DataLoader(Dataset.range(8).batch(2), visitation="exactly_once", **options)


def test_limits_need_exactly_once_reading() -> None:
    with pytest.raises(ValueError, match="exactly_once"):
        distribute("distributed_epoch", "localhost:1", max_skips=1)
    with pytest.raises(InvalidArgumentError, match="exactly_once"):
        ms.DataLoader(Dataset.range(8).batch(2), visitation="upstream", max_skips=1)
    with pytest.raises(InvalidArgumentError, match=r"ms\.Dataset"):
        ms.DataLoader([1, 2, 3], max_skips=1)
    with pytest.raises(ValueError, match="exactly_once"):
        distribute("distributed_epoch", "localhost:1", max_deaths=4)
    with pytest.raises(InvalidArgumentError, match="max_deaths=4 needs exactly-once"):
        ms.DataLoader(Dataset.range(8).batch(2), visitation="upstream", max_deaths=4)
    with pytest.raises(InvalidArgumentError, match="max_deaths=4"):
        ms.DataLoader([1, 2, 3], max_deaths=4)
    with pytest.raises(InvalidArgumentError, match="DROP"):
        ms.DataLoader(Dataset.range(8).batch(2), visitation="exactly_once", max_skips=1, last_batch="DROP")


def dies(x: Any) -> Any:
    """Ends its executor, and not the worker."""
    if x == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_killed_executor_fails_its_element(processes: ms.LocalService) -> None:
    numbers = Dataset.range(80).split_size(20).map_python(dies, element_spec=ms.TensorSpec((), ms.int64))
    with pytest.raises(UserFunctionError, match="3 processes") as raised:
        list(numbers.apply(exactly(processes)))
    assert f"element at position {POISON}" in str(raised.value)


def test_ignored_errors_stay_ignored_after_a_resume(processes: ms.LocalService) -> None:
    numbers = Dataset.range(80).split_size(20).map_python(dies, element_spec=ms.TensorSpec((), ms.int64)).ignore_errors().batch(5)

    def loader() -> ms.DataLoader:
        return ms.DataLoader(numbers, service=processes, visitation="exactly_once", output="numpy")

    whole = [[int(x) for x in batch] for batch in loader()]
    assert sorted(x for batch in whole for x in batch) == [x for x in range(80) if x != POISON]
    for taken in (5, 7):
        first = loader()
        reading = iter(first)
        found = [[int(x) for x in next(reading)] for _ in range(taken)]
        resumed = loader()
        resumed.load_state_dict(first.state_dict())
        assert found + [[int(x) for x in batch] for batch in resumed] == whole
