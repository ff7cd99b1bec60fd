"""Folders of optimised chunks, as LitData writes them, read through the package ``litdata``.

Owns the translation of LitData's index into specs, and of its values into rows. Refuses to know how chunks are laid out.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._code import Limits
from ._dataset import AUTOTUNE
from ._dtypes import as_dtype
from ._peers import Positions, RecordDataset, Records, library, local_path, rows_of_block
from ._spec import Described, plain
from ._worker import array_of_torch
from .errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError

__all__ = ["litdata"]

#: The dtypes of LitData's formats of Python's own values.
_SCALARS = {"bool": "bool", "int": "i64", "float": "f64", "str": "string", "bytes": "bytes", "file": "bytes", "json": "string"}
#: LitData's formats of arrays, tensors and pictures.
_ARRAYS = ("numpy", "tensor", "no_header_numpy", "no_header_tensor", "pil", "jpeg", "image", "tiff")

#: The keys that lead to a value inside a record.
_Path = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """A value inside a record, and LitData's format of the value."""

    path: _Path
    kind: str

    def of(self, record: Any) -> Any:
        """Returns the value of a record."""
        for key in self.path:
            record = record[key]
        return record

    def __str__(self) -> str:
        return ".".join(map(str, self.path)) or "the record"


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _LitRecords(Records):
    """The records of a folder."""

    # The library's reader keeps one chunk open, so that threads exclude each other.
    is_shared = False

    path: str
    #: The values that are read, in the order of the spec.
    leaves: tuple[_Leaf, ...]
    block_size: int | None

    def opened(self) -> Any:
        return _opened(self.path, self.block_size)

    def length(self, handle: Any) -> int:
        return len(handle)

    def read(self, handle: Any, positions: Positions) -> Any:
        records = [handle[int(position)] for position in positions]
        return self._nested(records, self.described, iter(self.leaves), positions)

    def _nested(self, records: list[Any], described: Described, leaves: Iterator[_Leaf], positions: Positions) -> Any:
        if described[0] == "dict":
            return {name: self._nested(records, item, leaves, positions) for name, item in described[1]}
        if described[0] == "tuple":
            return tuple(self._nested(records, item, leaves, positions) for item in described[1])
        leaf = next(leaves)
        values = [leaf.of(record) for record in records]
        _, code, dims = described
        if code in ("string", "bytes"):
            return [_text(value, leaf.kind) for value in values]
        arrays = [np.asarray(array_of_torch(value), "i8" if leaf.kind == "int" else None) for value in values]
        for array, position in zip(arrays, positions, strict=True):
            if as_dtype(array.dtype).code != code or not _is_of_shape(array.shape, dims):
                raise InvalidArgumentError(
                    f"{self.name}: expected {leaf} of dtype {code} and shape {dims}, found dtype {array.dtype} and shape {array.shape} in record "
                    f"{position}: pass element_spec with None for dimensions that differ"
                )
        return arrays if None in dims else np.stack(arrays)


def litdata(
    path: str | os.PathLike[str],
    columns: Sequence[str] = (),
    element_spec: Any = None,
    *,
    block_size: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    on_error: str = "raise",
) -> RecordDataset:
    """Yields the records of a folder that ``litdata.optimize`` wrote.

    Workers share the records by position and read them through the package ``litdata``, in Python processes. Records nest dicts and tuples as they
    were written. The folder's index states formats, and not shapes: arrays have dimensions of any size, unless ``element_spec`` states the
    sizes. JSON comes as text. The attribute ``records`` of the result is a dataset with indices, which ``ms.DataLoader`` reads with exact resume.

    Args:
        path: The folder with ``index.json``, on this machine or mounted.
        columns: The parts of a record to keep, for records that are dicts; all by default.
        element_spec: The spec of a record. Fixed shapes make arrays of two or more dimensions faster, because they travel in blocks.
        block_size: The tokens of a record, for folders that were written with ``TokensLoader``.
        shuffle: Whether every pass reads the records in another order.
        seed: The seed of the order.
        num_parallel_calls: The Python processes of each worker; by default as many as help.
        limits: Limits of the processes.
        on_error: Raises an error for records that cannot be read (``"raise"``), or skips their block of up to 1024 records (``"skip"``).

    Returns:
        The new dataset.

    Raises:
        FailedPreconditionError: The package ``litdata`` is not installed.
        NotFoundError: The folder, its index or a column does not exist.
        InvalidArgumentError: ``element_spec`` does not suit the first record, or ``block_size`` does not suit the folder.
        UnimplementedError: The folder is compressed chunk by chunk, encrypted, in a store, or holds pickled objects.
        DataLossError: The index or the first record cannot be read.
    """
    library("litdata", "litdata", "litdata", "litdata")
    where, index = _index(path)
    config = index["config"]
    _check(where, config, block_size)
    try:
        handle = _opened(where, block_size)
        count = len(handle)
        first: Any = handle[0] if count else None
    except Exception as error:
        raise DataLossError(f"{where}: the first record cannot be read: {type(error).__name__}: {error}") from error
    if not count:
        raise InvalidArgumentError(f"{where}: expected at least one record, found none")
    if block_size is None:
        formats = iter(config["data_format"])
        described, leaves = _described(json.loads(config["data_spec"])[1], first, formats, (), where)
    else:
        described, leaves = ("tensor", as_dtype(first.dtype).code, (block_size,)), (_Leaf((), "tensor"),)
    described, leaves = _selected(described, leaves, columns, where)
    if element_spec is not None:
        described = _declared(described, plain(element_spec), where)
    records = _LitRecords(name=where, count=count, described=described, module="litdata", path=where, leaves=leaves, block_size=block_size)
    # A spec that does not suit the first record is found here, and not on a worker.
    records.rows(np.zeros(1, np.int64))
    rows = rows_of_block(sum(int(chunk.get("chunk_bytes") or 0) for chunk in index["chunks"]) // count, count)
    return RecordDataset(records, rows=rows, shuffle=shuffle, seed=seed, num_parallel_calls=num_parallel_calls, limits=limits, on_error=on_error)


def _index(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Returns the folder and the contents of its index."""
    if "://" in os.fspath(path) or os.fspath(path).startswith("local:"):
        raise UnimplementedError(
            f"expected a folder of this machine, found {os.fspath(path)}: mount or copy the folder, because the library requests records from stores "
            "one by one"
        )
    where = local_path(path)
    file = Path(where) / "index.json"
    try:
        index: dict[str, Any] = json.loads(file.read_bytes())
        if not isinstance(index["chunks"], list) or not isinstance(index["config"], dict):
            raise ValueError("expected a list of chunks and an object config")
        return where, index
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"{where}: no index.json: expected a folder that litdata.optimize wrote") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataLossError(f"{file}: invalid index of LitData: {error}") from error


def _check(where: str, config: dict[str, Any], block_size: int | None) -> None:
    """Refuses folders that cannot be read by several processes, or that hold values which elements cannot hold."""
    if config.get("encryption"):
        raise UnimplementedError(f"{where} is encrypted, which is not supported, because the dataset's definition would carry the key")
    if config.get("compression") and config.get("compression_level") in (None, "", "chunk"):
        raise UnimplementedError(
            f"{where} is compressed chunk by chunk: the library would replace files of the folder while workers read them. Write the folder again "
            "with compression_level='batch', or without compression"
        )
    is_tokens = config.get("item_loader") == "TokensLoader"
    if is_tokens != (block_size is not None):
        wrong = "pass block_size, the number of tokens of a record" if is_tokens else "leave out block_size"
        raise InvalidArgumentError(f"{where} was written with {config.get('item_loader') or 'no loader of tokens'}: {wrong}")
    try:
        is_known = json.loads(config["data_spec"])[0] == 1 and isinstance(config["data_format"], list)
    except (KeyError, IndexError, TypeError, ValueError):
        is_known = False
    if not is_known and not is_tokens:
        raise UnimplementedError(f"{where}/index.json: expected data_spec of version 1 and data_format, as litdata 0.2 writes them")
    for name in config.get("data_format") or ():
        kind = str(name).partition(":")[0]
        if kind not in _SCALARS and kind not in _ARRAYS:
            reason = "pickled objects run code when they are read" if kind == "pickle" else "elements cannot hold them"
            raise UnimplementedError(f"{where} has values of the data format {name!r}, which is refused: {reason}. Write numbers, arrays or text")


def _opened(path: str, block_size: int | None) -> Any:
    module = library("litdata", "litdata", "litdata", "litdata")
    loader = None if block_size is None else module.TokensLoader(block_size=block_size)
    return module.StreamingDataset(path, item_loader=loader, shuffle=False, drop_last=False)


def _described(node: dict[str, Any], value: Any, formats: Iterator[str], path: _Path, where: str) -> tuple[Described, tuple[_Leaf, ...]]:
    """Returns the spec and the values of a node of the index's tree. ``value`` is the node's value in the first record."""
    kind, children = node["type"], node["children_spec"]
    if kind is None:
        leaf = _Leaf(path, next(formats).partition(":")[0])
        return _of_leaf(leaf, value, where), (leaf,)
    if kind == "builtins.dict":
        keys: list[Any] = list(value)
    elif kind in ("builtins.list", "builtins.tuple"):
        keys = list(range(len(value)))
    else:
        raise UnimplementedError(f"{where}: expected records of dicts, lists and tuples, found {kind}: write plain dicts")
    parts = [_described(child, value[key], formats, (*path, key), where) for key, child in zip(keys, children, strict=True)]
    leaves = tuple(leaf for _, below in parts for leaf in below)
    if kind == "builtins.dict":
        return ("dict", [(str(key), item) for key, (item, _) in zip(keys, parts, strict=True)]), leaves
    return ("tuple", [item for item, _ in parts]), leaves


def _of_leaf(leaf: _Leaf, value: Any, where: str) -> Described:
    if leaf.kind in _SCALARS:
        return ("tensor", _SCALARS[leaf.kind], ())
    array = np.asarray(array_of_torch(value))
    try:
        return ("tensor", as_dtype(array.dtype).code, (None,) * array.ndim)
    except TypeError:
        raise UnimplementedError(f"{where}: {leaf} has the dtype {array.dtype}, which elements cannot hold: leave it out by columns") from None


def _selected(
    described: Described, leaves: tuple[_Leaf, ...], columns: Sequence[str], where: str
) -> tuple[Described, tuple[_Leaf, ...]]:
    """Keeps the named parts of a record, in the order of the names."""
    if isinstance(columns, str):
        raise InvalidArgumentError(f"expected a list of columns, found the text {columns!r}: write [{columns!r}]")
    if not columns:
        return described, leaves
    if described[0] != "dict":
        raise InvalidArgumentError(f"{where}: columns {list(columns)!r} need records that are dicts, found records that are not: leave out columns")
    parts = dict(described[1])
    for name in columns:
        if name not in parts:
            raise NotFoundError(f"{where}: no column {name!r}; the columns are {', '.join(parts)}")
    kept = tuple(leaf for name in columns for leaf in leaves if str(leaf.path[0]) == name)
    return ("dict", [(name, parts[name]) for name in columns]), kept


def _declared(found: Described, declared: Described, where: str) -> Described:
    """Returns the declared spec, which may state sizes that the index does not state.

    Raises:
        InvalidArgumentError: The declared spec is nested otherwise, or has other dtypes or numbers of dimensions.
    """
    if found[0] == "dict" and declared[0] == "dict" and [name for name, _ in found[1]] == [name for name, _ in declared[1]]:
        pairs = zip(found[1], declared[1], strict=True)
        return ("dict", [(name, _declared(item, other, where)) for (name, item), (_, other) in pairs])
    if found[0] == "tuple" and declared[0] in ("tuple", "list") and len(found[1]) == len(declared[1]):
        return ("tuple", [_declared(item, other, where) for item, other in zip(found[1], declared[1], strict=True)])
    is_fit = found[0] == declared[0] == "tensor" and found[1] == declared[1] and declared[2] is not None and len(found[2]) == len(declared[2])
    if not is_fit:
        raise InvalidArgumentError(f"{where}: expected an element_spec like that of the first record, {found!r}, found {declared!r}")
    return declared


def _is_of_shape(shape: tuple[int, ...], dims: tuple[int | None, ...]) -> bool:
    return len(shape) == len(dims) and all(size in (None, found) for size, found in zip(dims, shape, strict=True))


def _text(value: Any, kind: str) -> str | bytes:
    if kind == "json":
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else bytes(value)
