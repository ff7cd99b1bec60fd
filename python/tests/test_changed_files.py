"""Tests of exactly-once jobs whose files change: a changed file is an error, and a position never stands for other files."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.errors import FailedPreconditionError, InvalidArgumentError

Start = Callable[..., str]

#: Enough files that a slow worker has not opened all of them when the first batch arrives.
FILES, LINES = 24, 4


def write(folder: Path, files: int = FILES) -> Path:
    """Writes files of four lines each, which are one batch."""
    folder.mkdir(exist_ok=True)
    for file in range(files):
        (folder / f"{file:02}.txt").write_text("".join(f"{file * LINES + line}\n" for line in range(LINES)))
    return folder


def lines(folder: Path) -> Dataset:
    """Returns the batches of all files, of which each split has one."""
    return Dataset.list_files(f"{folder}/*.txt", seed=4).flat_map(ms.TextLineDataset).batch(LINES)


class Slow:
    """Computes a batch in a tenth of a second, so that files are left when the test changes them."""

    def __call__(self, batch: Any) -> Any:
        time.sleep(0.1)
        return batch


def loader(dataset: Dataset, target: Any, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(dataset, service=target, visitation="exactly_once", output="numpy", seed=3, **options)


def numbers(batch: Any) -> list[int]:
    return [int(text) for text in batch]


def every(loader: ms.DataLoader) -> list[list[int]]:
    return [numbers(batch) for batch in loader]


@pytest.mark.parametrize("in_order", [True, False], ids=["in-order", "any-order"])
def test_a_changed_file_ends_the_epoch(cluster: Start, tmp_path: Path, in_order: bool) -> None:
    folder = write(tmp_path / "data")
    slow = lines(folder).map_python(Slow(), element_spec=lines(folder).element_spec)
    batches = iter(loader(slow, cluster(1), in_order=in_order))
    found = numbers(next(batches))
    for file in folder.iterdir():
        with file.open("a") as opened:
            opened.write("1000\n")
    with pytest.raises(FailedPreconditionError, match=r"data/\d\d\.txt: the file was changed: expected \d+ bytes"):
        for batch in batches:
            found += numbers(batch)
    assert 1000 not in found and len(found) < FILES * LINES


def test_files_of_functions_are_checked(cluster: Start, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")

    def load(path: Any) -> Any:
        time.sleep(0.1)
        return Path(path).read_text().count("\n")

    counts = Dataset.list_files(f"{folder}/*.txt").map_python(load, element_spec=ms.TensorSpec((), ms.int64))
    elements = iter(loader(counts, cluster(1)))
    assert int(next(elements)) == LINES
    for file in folder.iterdir():
        file.write_text(file.read_text() + "1000\n")
    with pytest.raises(FailedPreconditionError, match="the file was changed"):
        list(elements)


def test_a_state_continues_in_another_folder(cluster: Start, tmp_path: Path) -> None:
    folder, target = write(tmp_path / "data"), cluster(2)
    wanted = every(loader(lines(folder), target))
    saved = loader(lines(folder), target)
    batches = iter(saved)
    found = [numbers(next(batches)) for _ in range(5)]
    state = json.loads(json.dumps(saved.state_dict()))
    batches.close()
    assert len(state["files"]) == 16
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy)
    other = loader(lines(copy), target)
    other.load_state_dict(state)
    assert found + every(other) == wanted


@pytest.mark.parametrize("change", ["added", "removed", "renamed", "longer"])
@pytest.mark.parametrize("in_order", [True, False], ids=["in-order", "any-order"])
def test_a_state_of_other_files_is_refused(cluster: Start, tmp_path: Path, change: str, in_order: bool) -> None:
    folder, target = write(tmp_path / "data"), cluster(1)
    saved = loader(lines(folder), target, in_order=in_order)
    batches = iter(saved)
    next(batches)
    state = saved.state_dict()
    batches.close()
    if change == "added":
        (folder / "003.txt").write_text("1000\n" * LINES)
    elif change == "removed":
        (folder / "03.txt").unlink()
    elif change == "renamed":
        (folder / "03.txt").rename(folder / "55.txt")
    else:
        (folder / "03.txt").write_text("1000\n" * LINES)
    other = loader(lines(folder), target, in_order=in_order)
    other.load_state_dict(state)
    with pytest.raises(FailedPreconditionError, match="not those of the saved position: files were added"):
        next(iter(other))


def test_the_next_epoch_may_have_other_files(cluster: Start, tmp_path: Path) -> None:
    folder, target = write(tmp_path / "data"), cluster(1)
    saved = loader(lines(folder), target)
    every(saved)
    state = saved.state_dict()
    (folder / "90.txt").write_text("1000\n" * LINES)
    for continued in (saved, loader(lines(folder), target)):
        if continued is not saved:
            continued.load_state_dict(state)
        assert sorted(number for batch in every(continued) for number in batch)[-LINES:] == [1000] * LINES


def test_trainers_with_other_files_are_not_joined(cluster: Start, tmp_path: Path) -> None:
    target, states = cluster(1), []
    for rank in range(2):
        folder = write(tmp_path / f"data-{rank}", FILES + rank)
        own = loader(lines(folder), target, dp_rank=rank, dp_size=2)
        batches = iter(own)
        next(batches)
        states.append(own.state_dict())
        batches.close()
    with pytest.raises(InvalidArgumentError, match="the trainers read different files"):
        ms.joined_states(states, 1)


def test_an_interrupted_save_of_other_files_is_refused(cluster: Start, tmp_path: Path) -> None:
    folder, target = write(tmp_path / "data"), cluster(1)
    slow = lines(folder).map_python(Slow(), element_spec=lines(folder).element_spec)
    saving = ms.service.save(slow, tmp_path / "saved", target, wait=False)
    deadline = time.monotonic() + 30
    while not saving.progress().chunks:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    saving.cancel()
    (folder / "03.txt").unlink()
    with pytest.raises(FailedPreconditionError, match="not those of the saved position"):
        ms.service.save(slow, tmp_path / "saved", target)


def test_a_save_without_known_files_begins_again(cluster: Start, tmp_path: Path) -> None:
    folder, place, target = write(tmp_path / "data"), tmp_path / "saved", cluster(2)
    blocked = tmp_path / "blocked"
    blocked.touch()

    def waits_at_first(batch: Any) -> Any:
        while int(batch[0]) == 0 and blocked.exists():
            time.sleep(0.05)
        return batch

    batches = Dataset.list_files(f"{folder}/*.txt", shuffle=False).flat_map(ms.TextLineDataset).batch(LINES)
    saved = batches.map_python(waits_at_first, element_spec=batches.element_spec)
    saving = ms.service.save(saved, place, target, wait=False)
    deadline = time.monotonic() + 30
    while not any((place / "chunks").glob("chunk_*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not saving.progress().chunks
    saving.cancel()
    blocked.unlink()
    # The chunks of the first save would stand for other files now.
    (folder / "0.txt").write_text("1000\n" * LINES)
    ms.service.save(saved, place, target)
    found = [number for batch in ms.service.load(place) for number in numbers(batch)]
    assert sorted(found) == sorted([*range(FILES * LINES), *[1000] * LINES])
