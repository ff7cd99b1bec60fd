"""Zarr arrays and groups of versions 2 and 3, read through the package ``zarr``.

Owns the blocks of records, which begin and end where chunks do, so that a chunk is decoded once. Refuses to know how arrays are encoded.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._code import Limits
from ._dataset import AUTOTUNE
from ._dtypes import as_dtype
from ._peers import Positions, RecordDataset, Records, bytes_per_record, library, local_path, rows_of_block
from ._spec import Described
from .errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError

__all__ = ["zarr"]

#: The maximum number of records in a block, which is the largest split.
_ROWS_MAX = 4096
#: The maximum size of a block, and of a decoded chunk that a process keeps for the next block.
_BLOCK_BYTES_MAX, _KEPT_BYTES_MAX = 64 << 20, 256 << 20


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _ZarrRecords(Records):
    """The rows of arrays of one length."""

    path: str
    #: The path of each array in its group by the component's name, or the one array that records are rows of.
    arrays: tuple[tuple[str, str], ...]
    is_group: bool

    def opened(self) -> dict[str, _Array]:
        node = _opened(self.path)
        return {name: _Array(node[path] if self.is_group else node) for name, path in self.arrays}

    def length(self, handle: dict[str, _Array]) -> int:
        counts = {array.rows for array in handle.values()}
        return counts.pop() if len(counts) == 1 else -1

    def read(self, handle: dict[str, _Array], positions: Positions) -> Any:
        rows = {name: array.read(positions) for name, array in handle.items()}
        return rows if self.is_group else next(iter(rows.values()))


class _Array:
    """An opened array, and its decoded rows of one chunk, where blocks are smaller than chunks."""

    def __init__(self, array: Any) -> None:
        self.rows = int(array.shape[0])
        self._array = array
        self._chunk = int(array.chunks[0])
        self._row_bytes = max(1, array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)))
        self._kept: tuple[int, Any] | None = None

    def read(self, positions: Positions) -> Any:
        """Returns the rows at these positions."""
        first, count = int(positions[0]), len(positions)
        if not np.array_equal(positions, np.arange(first, first + count)):
            return _plain(self._array.get_orthogonal_selection((positions, *[slice(None)] * (self._array.ndim - 1))))
        number = first // self._chunk
        is_part = count < self._chunk and first + count <= (number + 1) * self._chunk
        if not is_part or self._chunk * self._row_bytes > _KEPT_BYTES_MAX:
            return _plain(self._array[first : first + count])
        start = number * self._chunk
        kept = self._kept
        if kept is None or kept[0] != start:
            kept = self._kept = start, _plain(self._array[start : start + self._chunk])
        return kept[1][first - start : first - start + count]


def zarr(
    path: str | os.PathLike[str],
    arrays: Sequence[str] | Mapping[str, str] = (),
    *,
    shuffle: bool = False,
    seed: int | None = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    on_error: str = "raise",
) -> RecordDataset:
    """Yields the rows of a Zarr array, or dicts of the rows of a group's arrays, along their first dimension.

    Reads versions 2 and 3 of the format. Workers share the rows by position and read them through the package ``zarr``, in Python processes, in
    blocks that begin and end where chunks do. The attribute ``records`` of the result is a dataset with indices, which ``ms.DataLoader`` reads
    with exact resume.

    Args:
        path: The folder of an array or group, or its URL in a store that the package knows.
        arrays: The paths of the arrays in the group, which have one length; or a path for each component's name. By default all arrays.
        shuffle: Whether every pass reads blocks of rows in another order. The rows of a block stay together; follow with ``Dataset.shuffle``.
        seed: The seed of the order.
        num_parallel_calls: The Python processes of each worker; by default as many as help.
        limits: Limits of the processes.
        on_error: Raises an error for rows that cannot be read (``"raise"``), or skips their block, which is a chunk or more (``"skip"``).

    Returns:
        The new dataset.

    Raises:
        FailedPreconditionError: The package ``zarr`` is not installed.
        NotFoundError: The path, or an array, does not exist.
        InvalidArgumentError: The arrays have different lengths, or an array has no dimension.
        UnimplementedError: An array has a dtype that elements cannot hold.
    """
    library("zarr", "zarr", "zarr", "zarr")
    where = local_path(path)
    node = _opened(where)
    is_group = not hasattr(node, "shape")
    named = _named(node, arrays, where) if is_group else {"": ""}
    if not is_group and arrays:
        raise InvalidArgumentError(f"{where} is an array, not a group: leave out arrays, found {list(arrays)!r}")
    found = {name: _found(node, inner, where) if is_group else node for name, inner in named.items()}
    specs = [(name, _described(array, f"{where}/{named[name]}".rstrip("/"))) for name, array in found.items()]
    lengths = {named[name]: int(array.shape[0]) for name, array in found.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} of {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"{where}: expected arrays of one length, found {told}: name arrays of one length in arrays")
    records = _ZarrRecords(
        name=where,
        count=next(iter(lengths.values())),
        described=("dict", specs) if is_group else specs[0][1],
        module="zarr",
        path=where,
        arrays=tuple(named.items()),
        is_group=is_group,
    )
    # The array with the largest rows costs most if its chunks are decoded twice.
    _, heaviest = max(((bytes_per_record(spec), name) for name, spec in specs), key=lambda pair: pair[0])
    rows = _rows(records, int(found[heaviest].chunks[0]))
    return RecordDataset(
        records, rows=rows, shuffle=shuffle, shuffles_blocks=True, seed=seed, num_parallel_calls=num_parallel_calls, limits=limits, on_error=on_error
    )


def _rows(records: _ZarrRecords, chunk: int) -> int:
    """Returns the number of rows of a block: whole chunks of ``chunk`` rows if they are not too large, and otherwise equal parts of a chunk."""
    size = bytes_per_record(records.described)
    rows, chunk = rows_of_block(size, records.count), max(1, min(chunk, records.count))
    if chunk <= rows:
        return rows // chunk * chunk
    largest = max(1, min(_ROWS_MAX, _BLOCK_BYTES_MAX // max(size, 1)))
    return -(-chunk // -(-chunk // largest))


def _opened(path: str) -> Any:
    module = library("zarr", "zarr", "zarr", "zarr")
    try:
        return module.open(path, mode="r")
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no Zarr array or group: {error}") from error
    except Exception as error:
        raise DataLossError(f"{path}: not a Zarr array or group, or corrupt: {type(error).__name__}: {error}") from error


def _named(group: Any, arrays: Sequence[str] | Mapping[str, str], where: str) -> dict[str, str]:
    if isinstance(arrays, str):
        raise InvalidArgumentError(f"expected a list of arrays, found the text {arrays!r}: write [{arrays!r}]")
    if arrays:
        return dict(arrays) if isinstance(arrays, Mapping) else {name: name for name in arrays}
    members = sorted(name for name, member in group.members(max_depth=None) if hasattr(member, "shape"))
    if not members:
        raise NotFoundError(f"{where}: the group has no arrays")
    return {name: name for name in members}


def _found(group: Any, name: str, where: str) -> Any:
    try:
        array = group[name]
    except KeyError:
        members = sorted(name for name, member in group.members(max_depth=None) if hasattr(member, "shape"))
        raise NotFoundError(f"{where}: no array {name!r}; the arrays are {', '.join(members)}") from None
    if not hasattr(array, "shape"):
        raise InvalidArgumentError(f"{where}: {name!r} is a group, not an array: name its arrays, for example {name}/...")
    return array


def _described(array: Any, where: str) -> Described:
    if not array.shape:
        raise InvalidArgumentError(f"{where}: expected an array with at least one dimension, found a single value: name other arrays in arrays")
    dtype = array.dtype
    if dtype.kind in "UT":
        code = "string"
    elif dtype.kind == "S":
        code = "bytes"
    elif dtype.kind in "mM":
        code = "i64"
    else:
        try:
            code = as_dtype(dtype).code
        except TypeError:
            code = ""
        if not code or dtype.kind in "OV" and code in ("string", "bytes"):
            raise UnimplementedError(f"{where}: the array has the dtype {dtype}, which elements cannot hold: name other arrays in arrays")
    return ("tensor", code, tuple(int(size) for size in array.shape[1:]))


def _plain(rows: Any) -> Any:
    """Returns rows as elements hold them: text as Python's own, and times as integers."""
    array = np.asarray(rows)
    if array.dtype.kind in "mM":
        return array.view(np.int64)
    return array.astype(object) if array.dtype.kind in "UST" else array
