"""ArrayRecord files, the format of grain, read through the package ``array_record``.

Owns the arithmetic of positions over several files. Refuses to know what records hold.
"""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._code import Limits
from ._dataset import AUTOTUNE
from ._peers import Positions, RecordDataset, Records, library, local_path, rows_of_block
from .errors import DataLossError, FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = ["array_record"]

_MODULE = "array_record.python.array_record_module"
#: The library reads single records fastest without read-ahead, as grain does.
_OPTIONS = "readahead_buffer_size:0"
_BUFFER_BYTES = 32 << 10
#: The records that an estimate of the size of records reads.
_SAMPLED = 16


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _ArrayRecords(Records):
    """The records of several files, one file after the other."""

    paths: tuple[str, ...]
    counts: tuple[int, ...]

    def opened(self) -> _Files:
        files = _Files(_reader_module(), self.paths)
        for path, expected, found in zip(self.paths, self.counts, files.counts, strict=True):
            if found != expected:
                raise FailedPreconditionError(
                    f"{path}: expected {expected} records, as when the dataset was built, found {found}: give all workers the same files, and "
                    "build the dataset again after a change"
                )
        return files

    def length(self, handle: _Files) -> int:
        return sum(handle.counts)

    def read(self, handle: _Files, positions: Positions) -> list[bytes]:
        return handle.read(positions)


class _Files:
    """Opened files, and the position of the first record of each."""

    def __init__(self, module: Any, paths: Sequence[str]) -> None:
        self._paths = paths
        self._readers = [_opened(module, path) for path in paths]
        self.counts = [int(reader.num_records()) for reader in self._readers]
        self._starts = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    def read(self, positions: Positions) -> list[bytes]:
        """Returns the records at these positions, in the order of the positions."""
        files = np.searchsorted(self._starts, positions, side="right") - 1
        found: list[bytes] = [b""] * len(positions)
        for file in np.unique(files):
            places = np.flatnonzero(files == file)
            within = positions[places] - self._starts[file]
            for place, record in zip(places, self._of(int(file), within), strict=True):
                found[place] = record
        return found

    def _of(self, file: int, within: Positions) -> list[bytes]:
        reader, first, count = self._readers[file], int(within[0]), len(within)
        try:
            if np.array_equal(within, np.arange(first, first + count)):
                records = reader.read(first, first + count)
            else:
                records = reader.read(within.tolist())
        except Exception as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataLossError(f"{self._paths[file]}: reading records {within.min()} to {within.max()} failed: {text}") from error
        if len(records) != count:
            raise DataLossError(f"{self._paths[file]}: expected {count} records from record {first} on, found {len(records)}: the file is corrupt")
        return list(records)


def array_record(
    filenames: Any,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    on_error: str = "raise",
) -> RecordDataset:
    """Yields the records of ArrayRecord files, the format of grain, as ``bytes``.

    Workers share the records by position and read them through the package ``array_record``, in Python processes. The attribute ``records`` of the
    result is a dataset with indices, which ``ms.DataLoader`` reads with exact resume.

    Args:
        filenames: A path, a pattern such as ``"train-*.array_record"``, or several. Matches of a pattern are sorted.
        shuffle: Whether every pass reads the records in another order, over all files. Suits files that were written with ``group_size:1``.
        seed: The seed of the order.
        num_parallel_calls: The Python processes of each worker; by default as many as help.
        limits: Limits of the processes.
        on_error: Raises an error for records that cannot be read (``"raise"``), or skips their block of up to 1024 records (``"skip"``).

    Returns:
        The new dataset.

    Raises:
        FailedPreconditionError: The package ``array_record`` is not installed.
        NotFoundError: A file does not exist, or a pattern matches no file.
        DataLossError: A file is not an ArrayRecord file, or is corrupt.
    """
    paths = _paths(filenames)
    files = _Files(_reader_module(), paths)
    count = sum(files.counts)
    records = _ArrayRecords(
        name=paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files",
        count=count,
        described=("tensor", "bytes", ()),
        module=_MODULE,
        paths=tuple(paths),
        counts=tuple(files.counts),
    )
    sampled = files.read(np.unique(np.linspace(0, count - 1, _SAMPLED).astype(np.int64))) if count else [b""]
    size = sum(map(len, sampled)) // len(sampled)
    rows = rows_of_block(size, count)
    return RecordDataset(records, rows=rows, shuffle=shuffle, seed=seed, num_parallel_calls=num_parallel_calls, limits=limits, on_error=on_error)


def _reader_module() -> Any:
    return library(_MODULE, "array_record", "array-record", "array_record")


def _opened(module: Any, path: str) -> Any:
    """Opens a file. The library opens missing and broken files without an error, and finds no records."""
    if "://" not in path and not os.path.isfile(path):
        raise NotFoundError(f"{path}: no such file")
    try:
        reader = module.ArrayRecordReader(path, options=_OPTIONS, file_reader_buffer_size=_BUFFER_BYTES)
        is_good = reader.ok()
    except Exception as error:
        raise DataLossError(f"{path}: opening failed: {error}") from error
    if not is_good:
        raise DataLossError(f"{path}: not an ArrayRecord file, or cut short: write the file again with array_record's ArrayRecordWriter")
    return reader


def _paths(filenames: Any) -> list[str]:
    named = [filenames] if isinstance(filenames, str | os.PathLike) else list(filenames)
    found: list[str] = []
    for name in [os.fspath(path) for path in named]:
        is_pattern = "://" not in name and any(sign in name for sign in "*?[") and not os.path.exists(name)
        matches = sorted(glob.glob(name, recursive=True)) if is_pattern else [name]
        if not matches:
            raise NotFoundError(f"{name}: matches no file")
        found += [local_path(match) for match in matches]
    if not found:
        raise InvalidArgumentError("expected at least one ArrayRecord file, found none")
    return found
