"""Tests of workers that are killed during an epoch: all other elements are delivered, and the loss is reported at the end."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.errors import DataLossError, LostSplits
from millstream.service import distribute

#: The positions of a split, which are so many that both workers still compute their first split when one worker is killed.
SPLIT = 4096
SPLITS = 5


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=2) as service:
        yield service


def bereft(dataset: Dataset, service: ms.LocalService) -> tuple[Any, set[int]]:
    """Kills the first worker after both workers have delivered elements. Returns the iterator and the delivered elements."""
    elements, seen = iter(dataset), set[int]()
    while not (any(number < SPLIT for number in seen) and any(number >= SPLIT for number in seen)):
        seen.add(int(next(elements)))
    os.kill(service.pids[1], signal.SIGKILL)
    return elements, seen


def numbers(service: ms.LocalService, **options: Any) -> Dataset:
    source = Dataset.range(SPLITS * SPLIT).split_size(SPLIT)
    return source.apply(distribute("distributed_epoch", service, max_outstanding_requests=16, **options))


@pytest.mark.parametrize("has_operations", [False, True])
def test_an_epoch_with_losses_ends_in_an_error(service: ms.LocalService, has_operations: bool) -> None:
    dataset = numbers(service, on_lost="raise")
    # Operations after `distribute` run in a separate pipeline in this process.
    elements, seen = bereft(dataset.map(lambda x: x + 0) if has_operations else dataset, service)
    with pytest.raises(DataLossError, match="lost.*worker 127.0.0.1:.*stopped answering") as raised:
        for element in elements:
            seen.add(int(element))
    lost = raised.value.lost
    assert lost and all(splits.worker.startswith("127.0.0.1:") and splits.cause for splits in lost)
    missing = set(range(SPLITS * SPLIT)) - seen
    named = {split for splits in lost for split in range(splits.first, splits.first + splits.count)}
    assert {number // SPLIT for number in missing} <= named
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.lost, str(copy)) == (lost, str(raised.value))
    with pytest.raises(DataLossError):
        next(elements)


@pytest.mark.parametrize("has_operations", [False, True])
def test_a_loss_is_a_warning_for_upstream(
    service: ms.LocalService, has_operations: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = numbers(service)
    elements, seen = bereft(dataset.map(lambda x: x + 0) if has_operations else dataset, service)
    with caplog.at_level(logging.WARNING, "millstream"), pytest.warns(ms.DataLossWarning, match="lost"):
        seen.update(int(element) for element in elements)
    assert len(seen) < SPLITS * SPLIT
    assert any("was given up" in line for line in caplog.messages), caplog.messages


@pytest.mark.filterwarnings("error::millstream.DataLossWarning")
def test_a_loss_can_be_ignored(service: ms.LocalService) -> None:
    elements, seen = bereft(numbers(service, on_lost="ignore"), service)
    seen.update(int(element) for element in elements)
    assert elements.stats()["lost_splits"] > 0


@pytest.mark.filterwarnings("error::millstream.DataLossWarning")
def test_losses_add_up_over_passes(service: ms.LocalService) -> None:
    # Each pass has a reader of its own, and the second pass loses nothing.
    elements, _ = bereft(numbers(service, on_lost="ignore").repeat(2).map(lambda x: x + 0), service)
    lost = [elements.glance()["lost_splits"] for number, _ in enumerate(elements) if number % 64 == 0]
    assert lost == sorted(lost) and lost[-1] > 0
    assert elements.glance()["lost_splits"] == lost[-1]


class Slow:
    """A dataset whose samples contain the id of the process that computed them."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> dict[str, int]:
        time.sleep(0.002)
        return {"index": index, "foreman": os.getppid()}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_distribute_ends_whole_or_raises() -> None:
    with ms.local(workers=2) as service:
        batches = iter(ms.distribute(Slow(), service, batch_size=8, shuffle=True))
        seen: list[int] = []
        is_named = False
        try:
            for count, batch in enumerate(batches):
                seen.extend(batch["index"].tolist())
                if count == 5:
                    os.kill(parent(int(batch["foreman"][0])), signal.SIGKILL)
        except DataLossError as error:
            is_named = bool(error.lost)
        assert len(set(seen)) == len(seen)
        # A split is also reported if only the message about its end was lost.
        assert is_named or len(seen) == len(Slow())


def test_a_setting_that_is_none_is_refused() -> None:
    for make in (
        lambda: distribute("distributed_epoch", "127.0.0.1:1", on_lost="fail"),
        lambda: ms.DataLoader(Slow(), service="127.0.0.1:1", on_lost="fail"),
    ):
        with pytest.raises(ValueError, match="on_lost 'fail': use 'raise', 'warn', 'ignore'"):
            make()


def test_lost_splits_are_plain_records() -> None:
    splits = LostSplits(0, 1, 7, 2, "127.0.0.1:1", "the worker restarted")
    error = DataLossError.of_splits("lost", [((0, 1, 7, 2), "127.0.0.1:1", "the worker restarted")])
    assert error.lost == (splits,) and isinstance(error, ValueError)
    assert DataLossError("truncated").lost == ()
