"""Tests of records by position: blocks, rows as they travel, and processes that open a source. No other library is needed."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import _peers, errors
from millstream._peers import Positions, RecordDataset, Records, rows_of_block
from millstream.service import distribute

ROWS = 1000


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Made(Records):
    """Records that are computed from their positions. A line in a file counts each opening."""

    log: str = os.devnull
    broken: int = -1
    found: int = ROWS

    def opened(self) -> list[int]:
        with open(self.log, "a") as log:
            log.write(f"{os.getpid()}\n")
        return []

    def length(self, handle: list[int]) -> int:
        return self.found

    def read(self, handle: list[int], positions: Positions) -> Any:
        if self.broken in positions:
            raise OSError("the disk is broken\nand more")
        return self._rows(self.described, positions)

    def _rows(self, described: Any, positions: Positions) -> Any:
        if described[0] == "dict":
            return {name: self._rows(item, positions) for name, item in described[1]}
        if described[0] == "tuple":
            return tuple(self._rows(item, positions) for item in described[1])
        _, code, dims = described
        if code in ("string", "bytes"):
            texts = [f"row {position}" for position in positions]
            return texts if code == "string" else [text.encode() for text in texts]
        dtype = _peers.numpy_dtype(code)
        if None not in dims:
            return np.stack([np.full(dims, position % 100).astype(dtype) for position in positions])
        return [np.full([position % 4 if size is None else size for size in dims], position % 100).astype(dtype) for position in positions]


def made(described: Any, **more: Any) -> Made:
    return Made(**{"name": "made", "count": ROWS, "described": described, "module": "json", **more})


NUMBER = ("tensor", "i64", ())
INNER = ("dict", [("raw", ("tensor", "bytes", ())), ("grid", ("tensor", "f32", (2, 3)))])
NESTED = ("dict", [("number", NUMBER), ("both", ("tuple", [("tensor", "string", ()), INNER]))])
#: The ways of reading, and the names of them.
WAYS = {"in order": {}, "shuffled": {"shuffle": True, "seed": 1}, "in blocks": {"shuffle": True, "shuffles_blocks": True, "seed": 1}}


def plain(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: plain(value) for name, value in part.items()}
    if isinstance(part, tuple | list):
        return [plain(value) for value in part]
    return part.tolist() if isinstance(part, np.ndarray | np.generic) else part


@pytest.mark.parametrize(
    ("record_bytes", "count", "expected"),
    [(8, 10**6, 1024), (1 << 10, 10**6, 1024), (1 << 16, 10**6, 16), (1 << 24, 10**6, 1), (8, 640, 10), (8, 3, 1), (0, 0, 1)],
)
def test_a_block_suits_the_records(record_bytes: int, count: int, expected: int) -> None:
    assert rows_of_block(record_bytes, count) == expected


CODES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "c64", "c128"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("dims", [(), (2,), (None,), (None, 2), (None, None), (2, None)])
def test_every_tensor_arrives(code: str, dims: tuple[int | None, ...]) -> None:
    records = made(("tensor", code, dims))
    dataset = RecordDataset(records)
    assert dataset.element_spec == ms.TensorSpec(dims, ms.as_dtype(code))
    for position, element in enumerate(dataset.take(7)):
        expected = records[position]
        assert np.asarray(element).dtype == expected.dtype and np.asarray(element).shape == expected.shape
        assert np.array_equal(np.asarray(element), expected)


def test_nested_records_arrive() -> None:
    records = made(NESTED)
    dataset = RecordDataset(records)
    assert dataset.element_spec["both"][1] == {"raw": ms.TensorSpec((), ms.bytes), "grid": ms.TensorSpec((2, 3), ms.float32)}
    assert [plain(element) for element in dataset] == [plain(records[position]) for position in range(ROWS)]


def test_tuples_with_vectors_arrive() -> None:
    records = made(("tuple", [NUMBER, ("tensor", "i32", (None,))]))
    assert [plain(element) for element in RecordDataset(records)] == [plain(records[position]) for position in range(ROWS)]


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("described", [NESTED, ("dict", [("number", NUMBER), ("grid", ("tensor", "u8", (None, None)))])], ids=["blocks", "single"])
def test_two_workers_deliver_each_record_once(options: dict[str, Any], described: Any, processes: ms.LocalService) -> None:
    records = made(described)
    dataset = RecordDataset(records, **options).apply(distribute("distributed_epoch", processes.target))
    expected = sorted(repr(plain(records[position])) for position in range(ROWS))
    for _ in range(2):
        assert sorted(repr(plain(element)) for element in dataset) == expected


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("taken", [0, 1, 16, 17, 555, ROWS])
def test_a_saved_state_resumes_exactly(options: dict[str, Any], taken: int) -> None:
    dataset = RecordDataset(made(("tuple", [NUMBER, ("tensor", "string", ())])), **options)
    iterator = dataset.as_numpy_iterator()
    first = [next(iterator)[1] for _ in range(taken)]
    resumed = dataset.as_numpy_iterator()
    resumed.restore(iterator.save())
    rest = [text for _, text in resumed]
    assert sorted(first + rest) == sorted(f"row {position}" for position in range(ROWS))
    assert first + rest == [text for _, text in dataset.as_numpy_iterator()] or options


def test_blocks_stay_together_in_a_shuffle() -> None:
    dataset = RecordDataset(made(("tensor", "string", ())), rows=100, shuffle=True, shuffles_blocks=True, seed=1)
    found = [int(text.removeprefix("row ")) for text in dataset]
    assert [number - at % 100 for at, number in enumerate(found)] == [start for start in found[::100] for _ in range(100)]
    assert found[::100] != list(range(0, ROWS, 100))


def test_a_block_is_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(Made, "read", lambda self, handle, positions: calls.append(len(positions)) or np.asarray(positions))
    assert [int(x) for x in RecordDataset(made(NUMBER))] == list(range(ROWS))
    # Several threads read blocks, so the calls have no order.
    assert sorted(calls) == [8] + [16] * 62


def test_a_process_opens_a_source_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    records = made(NUMBER, log=str(log), name="opened once")
    for _ in range(2):
        assert len(list(RecordDataset(records))) == ROWS
    assert log.read_text().split() == [str(os.getpid())]
    # A forked child opens its own.
    child = os.fork()
    if child == 0:
        os._exit(0 if len(records.__getitems__([1, 2])) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert log.read_text().split() == [str(os.getpid()), str(child)]


def test_sources_that_rest_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers, "_OPEN_MAX", 2)
    for number in range(5):
        assert records_of(number)[0] == 0
    assert len(_peers._HERE._handles) == 2


def records_of(number: int) -> Made:
    return made(NUMBER, name=f"source {number}")


def test_a_failure_names_source_and_records() -> None:
    dataset = RecordDataset(made(NUMBER, name="the source", broken=20))
    with pytest.raises(errors.UserFunctionError, match="the source: reading records 16 to 31 failed: OSError: the disk is broken") as raised:
        list(dataset)
    assert "and more" not in raised.value.message.splitlines()[0]
    skipping = RecordDataset(made(NUMBER, name="the source", broken=20), on_error="skip")
    assert [int(x) for x in skipping] == [x % 100 for x in range(ROWS) if not 16 <= x < 32]
    with pytest.raises(ValueError, match="on_error"):
        RecordDataset(made(NUMBER), on_error="ignore")


def test_other_data_on_a_worker_is_named(processes: ms.LocalService) -> None:
    dataset = RecordDataset(made(NUMBER, name="the source", found=ROWS - 1))
    with pytest.raises(errors.UserFunctionError, match="the source: expected 1000 records, as when the dataset was built, found 999"):
        list(dataset.apply(distribute("distributed_epoch", processes.target)))


def test_a_loader_reads_the_records(processes: ms.LocalService) -> None:
    records = RecordDataset(made(NUMBER)).records
    loader = ms.DataLoader(records, 32, shuffle=True, seed=3, service=processes.target, output="numpy")
    batches = iter(loader)
    first = [next(batches).tolist() for _ in range(5)]
    resumed = ms.DataLoader(records, 32, shuffle=True, seed=3, output="numpy")
    resumed.load_state_dict(loader.state_dict())
    rest = [batch.tolist() for batch in resumed]
    whole = [batch.tolist() for batch in ms.DataLoader(records, 32, shuffle=True, seed=3, output="numpy")]
    assert first + rest == whole and sum(map(len, whole)) == ROWS


def test_no_records_are_no_elements() -> None:
    dataset = RecordDataset(made(NUMBER, count=0, found=0))
    assert list(dataset) == [] and len(dataset) == 0
