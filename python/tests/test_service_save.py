"""Tests of ``ms.service.save`` and ``load``: a dataset is saved exactly once, whatever happens to workers and to the process that saves it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, _service_saving
from millstream.errors import (
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    MillstreamError,
    NotFoundError,
    UnimplementedError,
)
from millstream.service import distribute, load, save

Start = Callable[..., str]

#: The number of elements of a slow dataset, which is saved in a second or more.
COUNT = 1200

#: A limit for waits that end much earlier, unless the test fails.
LONG_S = 120.0


def pipeline(count: int = 1000) -> Dataset:
    """Returns a pipeline whose batches depend on draws and on a filter. Some splits have no batch."""
    kept = Dataset.range(count).split_size(50).shuffle(20).map(lambda x: x * 3).filter(lambda x: (x % 2 == 0) & (x % 300 < 200))
    return kept.batch(7)


def exactly(target: Any, **options: Any) -> Callable[[Dataset], Dataset]:
    return distribute("distributed_epoch", target, visitation="exactly_once", **options)


def lists(dataset: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in dataset]


def numbers(dataset: Any) -> list[int]:
    return [int(x) for x in dataset]


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def chunks(place: Path) -> dict[str, tuple[int, int]]:
    """Returns the inode and the time of each chunk."""
    found = {entry.name: entry.stat() for entry in (place / "chunks").iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_save_has_the_exactly_once_order(cluster: Start, tmp_path: Path, workers: int) -> None:
    target = cluster(workers)
    wanted = lists(pipeline().apply(exactly(target, seed=5)))
    saved = save(pipeline(), tmp_path / "saved", target, seed=5)
    loaded = load(tmp_path / "saved")
    assert (lists(loaded), lists(loaded)) == (wanted, wanted)
    assert saved.is_done
    progress = saved.progress()
    assert (progress.chunks, progress.elements, progress.total) == (20, len(wanted), 20)
    assert progress.bytes == sum(entry.stat().st_size for entry in (tmp_path / "saved" / "chunks").iterdir())
    assert len(loaded) == len(wanted)
    assert lists(Dataset.load(tmp_path / "saved")) == wanted
    assert not (tmp_path / "saved" / "uncommitted").exists()


class Slow:
    """Computes an element in a few milliseconds, so that processes are killed in the middle of a save."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.004)
        return x


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=3) as service:
        yield service


def slow(count: int = COUNT, make: Callable[[Any], Any] | None = None) -> Dataset:
    spec = ms.TensorSpec((), ms.int64)
    return Dataset.range(count).split_size(25).shuffle(10).map_python(make or Slow(), element_spec=spec)


def test_a_killed_worker_loses_no_element(service: ms.LocalService, tmp_path: Path) -> None:
    wanted = numbers(slow().apply(exactly(service)))
    saving = save(slow(), tmp_path / "saved", service, wait=False)
    until(lambda: saving.progress().chunks >= 5)
    assert not saving.is_done
    os.kill(service.pids[1], signal.SIGKILL)
    assert saving.wait(LONG_S).elements == COUNT
    found = numbers(load(tmp_path / "saved"))
    assert found == wanted
    assert sorted(found) == list(range(COUNT))


SAVER = """
import sys, time
import millstream as ms

class Slow:  # pickled with a random number
    def __call__(self, x):
        time.sleep(0.004)
        return x

numbers = ms.Dataset.range(600).split_size(10).map_python(Slow(), element_spec=ms.TensorSpec((), ms.int64))
print(ms.service.save(numbers, sys.argv[1], sys.argv[2]).progress().elements)
"""


def test_a_killed_saver_continues(service: ms.LocalService, tmp_path: Path) -> None:
    (tmp_path / "saver.py").write_text(SAVER)
    place = tmp_path / "saved"
    command = [sys.executable, str(tmp_path / "saver.py"), str(place), service.target]
    first = subprocess.Popen(command)
    try:
        # The progress is stored, so the second save does not begin at the first chunk.
        until(lambda: (place / "progress.json").exists())
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    kept = chunks(place)
    assert 0 < len(kept) < 60
    assert not (place / "DONE").exists()
    second = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONG_S)
    assert second.stdout.strip() == "600"
    after = chunks(place)
    assert len(after) == 60
    assert {name: after[name] for name in kept} == kept
    assert numbers(load(place)) == list(range(600))


def test_a_cancelled_save_continues(service: ms.LocalService, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    first = save(slow(), place, service, wait=False)
    until(lambda: first.progress().chunks >= 3)
    first.cancel()
    with pytest.raises(CancelledError, match="start it again"):
        first.wait()
    assert not first.is_done
    kept = chunks(place)
    with pytest.raises(FailedPreconditionError, match="wait=True"):
        load(place)
    with pytest.raises(AlreadyExistsError, match="another dataset, seed"):
        save(slow(), place, service, seed=1)
    save(slow(), place, service)
    after = chunks(place)
    assert {name: after[name] for name in kept} == kept
    assert sorted(numbers(load(place))) == list(range(COUNT))


def test_a_finished_save_without_a_mark_ends(cluster: Start, tmp_path: Path) -> None:
    target, place = cluster(), tmp_path / "saved"
    save(pipeline(), place, target)
    wanted, kept = lists(load(place)), chunks(place)
    (place / "DONE").unlink()
    assert save(pipeline(), place, target).progress().elements == len(wanted)
    assert (lists(load(place)), chunks(place)) == (wanted, kept)


def test_a_load_reads_while_the_save_runs(service: ms.LocalService, tmp_path: Path) -> None:
    place, found = tmp_path / "saved", []
    reader = threading.Thread(target=lambda: found.extend(numbers(load(place, wait=True, wait_s=LONG_S))))
    reader.start()
    saving = save(slow(), place, service, wait=False)
    elements = iter(load(place, wait=True))
    first = [int(next(elements)) for _ in range(30)]
    assert not saving.is_done
    whole = first + numbers(elements)
    saving.wait(LONG_S)
    reader.join()
    assert found == whole == numbers(load(place))


def test_files_are_read_while_they_are_saved(service: ms.LocalService, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"{number}\n{number + 100}\n")
    spec = ms.TensorSpec((), ms.string)
    lines = Dataset.list_files(f"{tmp_path}/*.txt", shuffle=False).interleave(ms.TextLineDataset).map_python(Slow(), element_spec=spec)
    saving = save(lines, tmp_path / "saved", service, wait=False)
    assert saving.progress().total is None
    wanted = [str(number + add) for number in range(20) for add in (0, 100)]
    growing = load(tmp_path / "saved", wait=True)
    if not saving.is_done:
        with pytest.raises(InvalidArgumentError, match="load it after the save"):
            list(growing.apply(exactly(service)))
    assert list(growing) == wanted
    assert saving.wait(LONG_S).total == 20
    assert list(load(tmp_path / "saved").apply(exactly(service))) == wanted


@pytest.mark.parametrize("compression", [None, "AUTO", "SNAPPY", "GZIP"])
def test_compressed_chunks_are_read(cluster: Start, tmp_path: Path, compression: str | None) -> None:
    place, target = tmp_path / "saved", cluster()
    texts = Dataset.range(100).map(lambda x: {"number": x, "text": "the same text"})
    save(texts, place, target, compression=compression)
    found = list(load(place, compression=compression))
    assert [int(one["number"]) for one in found] == list(range(100))
    assert {str(one["text"]) for one in found} == {"the same text"}
    other = "GZIP" if compression != "GZIP" else "SNAPPY"
    with pytest.raises(ValueError, match="expected the compression"):
        load(place, compression=other)
    with pytest.raises(InvalidArgumentError, match="expected elements"):
        load(place, element_spec=ms.TensorSpec((), ms.int32))
    assert len(load(place, element_spec=texts.element_spec)) == 100


def test_empty_datasets_are_saved(cluster: Start, tmp_path: Path) -> None:
    target = cluster(2)
    for name, empty in (("none", Dataset.range(0)), ("filtered", Dataset.range(40).filter(lambda x: x > 50))):
        assert save(empty, tmp_path / name, target).progress().elements == 0
        loaded = load(tmp_path / name)
        assert numbers(loaded) == numbers(loaded.repeat()) == numbers(loaded.apply(exactly(target))) == []
        assert len(loaded) == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_loaded_datasets_are_distributed(cluster: Start, tmp_path: Path, workers: int) -> None:
    target, place = cluster(workers), tmp_path / "saved"
    save(pipeline(), place, target)
    wanted = lists(load(place))
    assert lists(load(place).apply(exactly(target))) == wanted
    assert sorted(lists(load(place).repeat(2).apply(distribute("distributed_epoch", target)))) == sorted(2 * wanted)
    parts = [lists(load(place).apply(exactly(target, dp_rank=rank, dp_size=2))) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(wanted)
    resumed = ms.DataLoader(load(place), service=target, visitation="exactly_once", output="numpy")
    batches = iter(resumed)
    first = [[int(x) for x in next(batches)] for _ in range(9)]
    second = ms.DataLoader(load(place), service=target, visitation="exactly_once", output="numpy")
    second.load_state_dict(resumed.state_dict())
    assert first + lists(second) == wanted


def test_a_running_save_is_distributed(service: ms.LocalService, tmp_path: Path) -> None:
    saving = save(slow(), tmp_path / "saved", service, wait=False)
    found = numbers(load(tmp_path / "saved", wait=True).apply(exactly(service)))
    saving.wait(LONG_S)
    assert found == numbers(load(tmp_path / "saved"))


def test_positions_in_a_load_are_restored(cluster: Start, tmp_path: Path) -> None:
    save(pipeline(), tmp_path / "saved", cluster())
    iterator = load(tmp_path / "saved").as_numpy_iterator()
    first = [[int(x) for x in iterator.next()] for _ in range(11)]
    other = load(tmp_path / "saved").as_numpy_iterator()
    other.restore(iterator.save())
    assert first + lists(other) == lists(load(tmp_path / "saved"))


def test_a_reader_function_orders_the_chunks(cluster: Start, tmp_path: Path) -> None:
    save(Dataset.range(40).split_size(10), tmp_path / "saved", cluster())
    mixed = load(tmp_path / "saved", reader_func=lambda files: files.interleave(lambda file: file, cycle_length=4))
    assert numbers(mixed)[:8] == [0, 10, 20, 30, 1, 11, 21, 31]
    assert sorted(numbers(mixed)) == list(range(40))


class Guarded:
    """Computes elements while a file exists, and fails otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self, x: Any) -> Any:
        time.sleep(0.002)
        if int(x) >= 300 and not os.path.exists(self.path):
            raise ValueError("the table is missing")
        return x


def test_a_failed_dataset_fails_its_readers(service: ms.LocalService, tmp_path: Path) -> None:
    place, table = tmp_path / "saved", tmp_path / "table"
    saving = save(slow(make=Guarded(table)), place, service, wait=False)
    reading = load(place, wait=True)
    with pytest.raises(MillstreamError, match="table is missing"):
        saving.wait(LONG_S)
    assert not saving.is_done
    with pytest.raises(DataLossError, match=r"save of .* failed.*table is missing"):
        list(reading)
    with pytest.raises(ValueError, match="save of"):
        load(place)
    kept = chunks(place)
    table.touch()
    assert save(slow(make=Guarded(table)), place, service).progress().elements == COUNT
    after = chunks(place)
    assert {name: after[name] for name in kept} == kept
    assert sorted(numbers(load(place))) == list(range(COUNT))


def test_taken_directories_are_refused(service: ms.LocalService, tmp_path: Path) -> None:
    place = tmp_path / "saved"
    saving = save(slow(), place, service, wait=False)
    with pytest.raises(AlreadyExistsError, match="a running save"):
        save(slow(), place, service)
    saving.wait(LONG_S)
    kept = chunks(place)
    for dataset in (slow(), Dataset.range(3)):
        with pytest.raises(AlreadyExistsError, match="found a saved dataset"):
            save(dataset, place, service)
    assert chunks(place) == kept
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(FailedPreconditionError, match=r"mine\.txt"):
        save(Dataset.range(3), tmp_path / "other", service)
    assert os.listdir(tmp_path / "other") == ["mine.txt"]


def test_several_saves_run_at_once(cluster: Start, tmp_path: Path) -> None:
    target = cluster(2)
    places = [tmp_path / str(number) for number in range(4)]
    running = [save(Dataset.range(500 + number), place, target, wait=False) for number, place in enumerate(places)]
    assert [saving.wait(LONG_S).elements for saving in running] == [500, 501, 502, 503]
    assert [numbers(load(place)) for place in places] == [list(range(500 + number)) for number in range(4)]


def test_missing_datasets_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="found none"):
        load(tmp_path / "missing")
    with pytest.raises(DeadlineExceededError, match="within 0 s"):
        load(tmp_path / "missing", wait=True, wait_s=0)
    with pytest.raises(UnimplementedError, match="all processes share"):
        load("s3://bucket/saved")


def test_unsuitable_datasets_leave_no_directory(cluster: Start, tmp_path: Path) -> None:
    target, place = cluster(), tmp_path / "saved"
    for dataset, message in ((Dataset.range(3).repeat(), "an end"), (Dataset.range(9).take(3), "take")):
        with pytest.raises(InvalidArgumentError, match=message):
            save(dataset, place, target)
    with pytest.raises(ValueError, match="compression"):
        save(Dataset.range(3), place, target, compression="ZIP")
    with pytest.raises(ValueError, match="service"):
        save(Dataset.range(3), place, "")
    with pytest.raises(TypeError, match="a dataset of Millstream, found list"):
        save([1, 2], place, target)  # type: ignore[arg-type]
    assert not place.exists()


def test_a_wait_ends_before_its_save(service: ms.LocalService, tmp_path: Path) -> None:
    saving = save(slow(), tmp_path / "saved", service, wait=False)
    with pytest.raises(DeadlineExceededError, match="wait longer"):
        saving.wait(0)
    assert saving.wait(LONG_S).elements == COUNT


def test_chunks_on_other_storage_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_service_saving, "_VISIBLE_S", 0.0)
    with pytest.raises(FailedPreconditionError, match="all workers share"):
        _service_saving._await_chunk(tmp_path, 0, threading.Event())


def test_large_elements_are_saved(cluster: Start, tmp_path: Path) -> None:
    rows = np.arange(12 * 300_000, dtype=np.int32).reshape(12, 300_000)
    save(Dataset.from_tensor_slices(rows), tmp_path / "saved", cluster(2), compression=None)
    assert np.array_equal(np.stack(list(load(tmp_path / "saved"))), rows)
