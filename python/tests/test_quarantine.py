"""Tests of exactly-once jobs with elements that fail: they are computed again, and then left out in all attempts and after a resume."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_processes import own_worker

import millstream as ms
from millstream import Dataset
from millstream._exact_places import Place
from millstream.errors import DataLossWarning, InvalidArgumentError, UserFunctionError
from millstream.service import ExactLimits, ExactTerms, distribute, distribute_exactly

Start = Callable[..., str]
INT = ms.TensorSpec((), ms.int64)


class Refuses:
    """Refuses samples, each of them a number of times; a negative number stands for always."""

    def __init__(self, folder: Path, **times: int) -> None:
        self.folder = folder
        self.times = {int(name[1:]): count for name, count in times.items()}

    def __call__(self, x: Any) -> Any:
        left = self.times.get(int(x), 0)
        if left and (left < 0 or self._calls(int(x)) <= left):
            raise ValueError(f"no {int(x)}, please")
        return x

    def _calls(self, x: int) -> int:
        """Returns the number of calls with a sample so far, in all processes."""
        with open(self.folder / str(x), "ab", buffering=0) as file:
            file.write(b".")
            return file.tell()


@pytest.fixture
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=2) as service:
        yield service


def numbers(refuses: Any) -> Dataset:
    """Returns batches of 5 samples, in splits of 4 batches."""
    return Dataset.range(200).split_size(20).map_python(refuses, element_spec=INT).batch(5)


def loader(service: Any, dataset: Dataset, **options: Any) -> ms.DataLoader:
    options = {"max_quarantined": 4, "visitation": "exactly_once", "output": "numpy", "dp_rank": 0, "dp_size": 1, **options}
    return ms.DataLoader(dataset, service=service, **options)


def rows(batches: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in batches]


def without(*left_out: int) -> list[list[int]]:
    """Returns the batches of ``numbers`` without samples."""
    splits = ([x for x in range(start, start + 20) if x not in left_out] for start in range(0, 200, 20))
    return [split[at : at + 5] for split in splits for at in range(0, len(split), 5)]


def test_a_failure_ends_the_epoch_by_default(service: ms.LocalService, tmp_path: Path) -> None:
    with pytest.raises(UserFunctionError, match="no 37, please"):
        list(loader(service, numbers(Refuses(tmp_path, _37=-1)), max_quarantined=0))


def test_failed_elements_are_left_out(service: ms.LocalService, tmp_path: Path) -> None:
    refuses = Refuses(tmp_path, _37=-1, _39=-1, _120=-1)
    reading = loader(service, numbers(refuses))
    with pytest.warns(DataLossWarning, match=r"element of split (1|6) .*no (37|39|120), please") as warned:
        found = rows(reading)
    assert found == without(37, 39, 120)
    assert len([one for one in warned if issubclass(one.category, DataLossWarning)]) == 3
    stats = reading.stats()
    assert stats["quarantined_elements"] == 3, stats
    with pytest.raises(TypeError, match="unknown"):
        len(reading)


def test_an_element_that_recovers_is_kept(service: ms.LocalService, tmp_path: Path) -> None:
    reading = loader(service, numbers(Refuses(tmp_path, _37=1, _90=2)), max_failures=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataLossWarning)
        assert rows(reading) == without()
    assert reading.stats()["quarantined_elements"] == 0


def test_a_resume_leaves_out_the_same_elements(service: ms.LocalService, tmp_path: Path) -> None:
    # The element fails as often as needed to be left out, and would succeed after a resume.
    whole = without(25)
    for taken in range(4, 9):
        folder = tmp_path / str(taken)
        folder.mkdir()
        dataset = numbers(Refuses(folder, _25=2))
        first = loader(service, dataset)
        reading = iter(first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataLossWarning)
            found = rows(next(reading) for _ in range(taken))
        state = first.state_dict()
        reading.close()
        resumed = loader(service, dataset)
        resumed.load_state_dict(state)
        rest = rows(resumed)
        # The batch after the element shows whether it was left out, and the state names it from then on.
        is_left_out = taken > 5 or "quarantined" in state
        assert found + rest in ([whole] if is_left_out else [whole, without()]), taken


def test_the_limit_ends_the_epoch(service: ms.LocalService, tmp_path: Path) -> None:
    refuses = Refuses(tmp_path, _3=-1, _50=-1, _90=-1)
    with pytest.warns(DataLossWarning), pytest.raises(UserFunctionError, match=r"(?s)no (3|50|90), please.*raise max_quarantined"):
        list(loader(service, numbers(refuses), max_quarantined=2))


def test_a_delivered_element_is_not_left_out(service: ms.LocalService, tmp_path: Path) -> None:
    """A sample that succeeds at first, and fails when its split is read again, would change the batches that the trainer has."""

    class Tires(Refuses):
        def __call__(self, x: Any) -> Any:
            if int(x) == 2 and self._calls(2) > 1:
                raise ValueError("no 2 any more")
            return super().__call__(x)

    dataset = numbers(Tires(tmp_path, _12=-1))
    reading = iter(loader(service, dataset))
    found = []
    with pytest.raises(UserFunctionError, match=r"(?s)no 2 any more.*cannot be left out any more"):
        for batch in reading:
            found += rows([batch])
    assert found == without()[: len(found)]


@pytest.mark.parametrize("in_order", [True, False])
def test_trainers_of_other_numbers_continue(service: ms.LocalService, tmp_path: Path, in_order: bool) -> None:
    dataset = numbers(Refuses(tmp_path, _25=-1, _130=-1, _171=-1))
    warnings.simplefilter("ignore", DataLossWarning)
    first = [loader(service, dataset, dp_rank=rank, dp_size=2, in_order=in_order) for rank in range(2)]
    reading = [iter(one) for one in first]
    # The second trainer finishes splits that the joined position reads again.
    found = [batch for count, one in zip((4, 14), reading, strict=True) for _ in range(count) for batch in rows([next(one)])]
    state = ms.joined_states([one.state_dict() for one in first], 3)
    for one in reading:
        one.close()
    for rank in range(3):
        resumed = loader(service, dataset, dp_rank=rank, dp_size=3, in_order=in_order)
        resumed.load_state_dict(state)
        found += rows(resumed)
    assert sorted(found) == without(25, 130, 171)


def test_a_state_with_a_quarantine_needs_the_limit(service: ms.LocalService, tmp_path: Path) -> None:
    warnings.simplefilter("ignore", DataLossWarning)
    dataset = numbers(Refuses(tmp_path, _25=-1))
    first = loader(service, dataset)
    reading = iter(first)
    for _ in range(6):
        next(reading)
    state = first.state_dict()
    assert len(state["quarantined"]) == 1 and state["quarantined"][0][0] == 1
    with pytest.raises(InvalidArgumentError, match="max_quarantined"):
        loader(service, dataset, max_quarantined=0, max_skips=1).load_state_dict(state)


def test_a_crash_of_an_executor_is_a_failure(service: ms.LocalService) -> None:
    def dies(x: Any) -> Any:
        if x == 37:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with pytest.warns(DataLossWarning, match="split 1"):
        assert rows(loader(service, numbers(dies), max_failures=1)) == without(37)


def fails_at(limit: int) -> Callable[[Any], Any]:
    def check(x: Any) -> Any:
        if int(x) % 50 == limit:
            raise ValueError("refused")
        return x

    return check


def rows_of(x: Any) -> Iterator[Any]:
    for row in range(3):
        if x == 41 and row == 1:
            raise ValueError("refused")
        yield x * 10 + row


def grown(x: Any) -> Any:
    return np.zeros(2 if x == 13 else 1, np.int64)


def uneven(x: Any) -> Any:
    return np.full(2 if x % 30 == 13 else 1, x)


def left_out(service: Any, dataset: Dataset, ignoring: Dataset) -> tuple[list[Any], list[Any]]:
    """Returns the elements with quarantined ones left out, and those with errors ignored."""
    target: dict[str, Any] = {"visitation": "exactly_once"}
    with pytest.warns(DataLossWarning):
        found = list(dataset.apply(distribute("distributed_epoch", service, max_quarantined=8, max_failures=1, **target)))
    return found, list(ignoring.apply(distribute("distributed_epoch", service, **target)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.range(100).split_size(10).map_python(fails_at(7), element_spec=INT),
        lambda: Dataset.range(100).split_size(10).map_python(fails_at(7), element_spec=INT, num_parallel_calls=4).prefetch(4),
        lambda: Dataset.range(100).split_size(50).map_python(fails_at(7), element_spec=INT).shuffle(10, seed=3),
        lambda: Dataset.range(100).split_size(10).batch(5).map_python(lambda x: fails_at(7)(x[2]), element_spec=INT),
        lambda: Dataset.range(100).split_size(10).flat_map_python(rows_of, element_spec=INT),
        lambda: Dataset.range(100).split_size(10).map(lambda x: 100 // (x % 30)),
        lambda: Dataset.range(100).split_size(10).flat_map(lambda x: Dataset.range(3).map(lambda y: 100 // (x % 30 + y))),
        lambda: Dataset.range(100).split_size(10).map_python(grown, element_spec=ms.TensorSpec((None,), ms.int64)).batch(5),
        lambda: Dataset.range(100).split_size(10).filter(lambda x: 100 // (x % 30) > 3),
        # Keys fail at 0, 30, 60 and 90. Batches with 13, 43 and 73 fail, because their rows have other lengths.
        lambda: (
            Dataset.range(100)
            .split_size(10)
            .map_python(uneven, element_spec=ms.TensorSpec((None,), ms.int64))
            .bucket_by_sequence_length(lambda row: 100 // (row[0] % 30), [10], [2, 2], no_padding=True)
        ),
    ],
)
def test_every_operation_leaves_out_what_failed(service: ms.LocalService, make: Callable[[], Dataset]) -> None:
    found, ignored = left_out(service, make(), make().ignore_errors())
    assert [x.tolist() for x in found] == [x.tolist() for x in ignored]


@pytest.mark.parametrize("options", [{"max_quarantined": 1}, {"max_failures": 3}])
def test_limits_need_exactly_once_reading(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="exactly_once"):
        distribute("distributed_epoch", "localhost:1", **options)
    with pytest.raises(InvalidArgumentError, match="needs exactly-once reading"):
        ms.DataLoader(Dataset.range(8).batch(2), visitation="upstream", **options)
    with pytest.raises(InvalidArgumentError, match=r"ms\.Dataset"):
        ms.DataLoader([1, 2, 3], **options)


def test_the_lineage_of_a_reduced_split_is_unknown(service: ms.LocalService, tmp_path: Path) -> None:
    reading = loader(service, numbers(Refuses(tmp_path, _37=-1)))
    with pytest.warns(DataLossWarning):
        assert rows(reading) == without(37)
    for step in range(4, 8):
        part = reading.lineage(step).parts[0]
        assert (part.split, part.first, part.count) == (1, 20, 20)
        # The first batches may have arrived before the failure.
        assert part.records is None or (step < 7 and part.records == tuple(range(5 * step, 5 * step + 5)))
    assert "left out" in reading.lineage(7).parts[0].note
    assert reading.lineage(3).parts[0].records == (15, 16, 17, 18, 19)
    assert reading.lineage(8).parts[0].records == (40, 41, 42, 43, 44)


def test_a_repaired_record_stays_left_out(service: ms.LocalService, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"

    def write(broken: int | None) -> None:
        path.write_text("".join(f'{{"id": {"??" if number == broken else number}}}\n' for number in range(10, 50)))

    def opened() -> ms.DataLoader:
        return loader(service, ms.files.json_lines(str(path), {"id": INT}).batch(5), max_failures=1)

    write(27)
    first = opened()
    reading = iter(first)
    with pytest.warns(DataLossWarning, match=r"records\.jsonl"):
        found = rows(next(reading)["id"] for _ in range(5))
    state = first.state_dict()
    reading.close()
    write(None)
    resumed = opened()
    resumed.load_state_dict(state)
    found += rows(batch["id"] for batch in resumed)
    left = [number for number in range(10, 50) if number != 27]
    assert found == [left[at : at + 5] for at in range(0, len(left), 5)]


def test_every_pass_has_its_own_list(service: ms.LocalService, tmp_path: Path) -> None:
    # The element fails as often as needed to be left out, and then succeeds.
    dataset = numbers(Refuses(tmp_path, _37=2))
    first = loader(service, dataset)
    reading = iter(first)
    with pytest.warns(DataLossWarning):
        assert rows(next(reading) for _ in range(8)) == without(37)[:8]
    reading.close()
    # The position after the split no longer names the element.
    elements = Place.from_bytes(first._loading._places[(0, 8)]).quarantined
    terms = ExactTerms(0, 0, 1, limits=ExactLimits(max_quarantined=4), quarantined=elements)
    assert rows(dataset.apply(distribute_exactly(service, terms)).repeat(2)) == without(37) + without()


def test_a_failure_outlives_its_worker(service: ms.LocalService, tmp_path: Path) -> None:
    """The dispatcher reports which element failed, if the worker dies before it reports the failure to the trainer."""
    workers, failed = service.pids[1:], tmp_path / "failed"

    def refuses(x: Any) -> Any:
        if x == 20:
            (tmp_path / "new").write_text(str(own_worker(workers)))
            (tmp_path / "new").rename(failed)
            raise ValueError("no 20, please")
        return x

    # With one credit, the worker reports the failure only after the trainer has taken the elements before it.
    exactly: dict[str, Any] = {"visitation": "exactly_once", "max_outstanding_requests": 1}
    terms = distribute("distributed_epoch", service, max_quarantined=1, max_failures=1, **exactly)
    reading = iter(Dataset.range(200).split_size(40).map_python(refuses, element_spec=INT).apply(terms))
    found = [int(next(reading))]
    deadline = time.monotonic() + 60
    while not failed.exists():
        assert time.monotonic() < deadline, "no worker has computed the element that fails"
        time.sleep(0.01)
    # The dispatcher receives the report meanwhile. If it is late, the other worker has the same failure.
    time.sleep(0.5)
    os.kill(int(failed.read_text()), signal.SIGKILL)
    with pytest.warns(DataLossWarning, match="element of split 0 .*no 20, please"):
        found += [int(x) for x in reading]
    assert found == [x for x in range(200) if x != 20]
