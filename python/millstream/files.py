"""Datasets that read files. Paths are names, the elements of ``Dataset.list_files``, or a tensor in a function of a dataset.

The arguments ``buffer_size``, ``num_parallel_reads`` and ``name`` exist as in tf.data, and have no effect: readers prefetch files
automatically, and ``Dataset.interleave`` reads several files at a time.
"""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ._captures import check_innermost
from ._dataset import Dataset
from ._dtypes import as_dtype, bytes_, string
from ._hub import is_of_hub
from ._hub_paths import HubPaths, expanded
from ._millstream import Graph
from ._options import error_policy
from ._peers_array_record import array_record
from ._peers_lance import lance
from ._peers_litdata import litdata
from ._peers_zarr import zarr
from ._spec import plain
from ._tensor import Tensor, applied
from .errors import InvalidArgumentError, UnimplementedError

__all__ = [
    "FixedLengthRecordDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "array_record",
    "arrow",
    "class_names",
    "csv",
    "image_folder",
    "json_lines",
    "lance",
    "litdata",
    "mds",
    "npy",
    "npz",
    "parquet",
    "sqlite",
    "webdataset",
    "zarr",
]


def _resolved(filenames: Any) -> Any:
    """Returns the files of the hub among paths; paths without one, datasets and tensors as they are."""
    if isinstance(filenames, Dataset | Tensor | HubPaths):
        return filenames
    names = _names(filenames)
    return expanded(names) or names


def _paths(filenames: Any, *, in_parts: bool = False) -> Graph:
    """Returns the dataset of paths. ``in_parts`` states that the reader reads parts of files, which workers share."""
    filenames = _resolved(filenames)
    if isinstance(filenames, HubPaths):
        return filenames.graph(in_parts=in_parts)
    if isinstance(filenames, Dataset):
        if getattr(filenames.element_spec, "dtype", None) not in (string, bytes_):
            raise TypeError(f"expected a dataset of paths, found a dataset of {filenames.element_spec!r}")
        return filenames._graph
    if isinstance(filenames, Tensor):
        if filenames._scope is None:
            raise TypeError("expected paths, found a tensor outside of a dataset's function: use a tensor only inside a function of a dataset")
        return applied(check_innermost(filenames._scope), filenames)
    names = _names(filenames)
    # An empty list has no dtype, so the dataset is made from one empty string, which `take(0)` removes.
    paths = Dataset.from_tensor_slices(names or [""])
    return (paths if names else paths.take(0))._graph


def _names(filenames: Any) -> list[str]:
    """Returns paths as text.

    Raises:
        TypeError: A path is neither text nor a path object.
    """
    if isinstance(filenames, str | bytes | os.PathLike):
        return [_name(filenames)]
    if isinstance(filenames, np.ndarray):
        filenames = filenames.reshape(-1).tolist()
    if not isinstance(filenames, Iterable):
        raise TypeError(f"expected a path, or several, found {filenames!r} of type {type(filenames).__name__}")
    return [_name(name) for name in filenames]


def _name(name: Any) -> str:
    if not isinstance(name, str | bytes | os.PathLike):
        raise TypeError(f"expected a path as text, found {name!r} of type {type(name).__name__}")
    return os.fsdecode(name)


def _like(filenames: Any, element_spec: Any) -> str | None:
    """Returns a pattern that matches the file whose columns are looked up; ``None`` if the paths are a dataset or a tensor.

    A file of the hub is not looked up, and thus not downloaded, if ``element_spec`` states its columns.

    Raises:
        InvalidArgumentError: The first name is itself a pattern.
    """
    if isinstance(filenames, Dataset | Tensor):
        return None
    if isinstance(filenames, HubPaths):
        return filenames.first() if element_spec is None else None
    first = next(iter(_names(filenames)), None)
    if first is not None and "*" in first and not os.path.exists(first):
        raise InvalidArgumentError(f"expected the name of a file, found the pattern {first!r}: wrap the pattern in ms.Dataset.list_files")
    return None if first is None else _pattern(first)


def _pattern(path: str) -> str:
    """Returns a pattern that matches one path alone. A URL of a server has no patterns, and a query may follow its ``?``."""
    return path if path.startswith(("http://", "https://")) else glob.escape(path)


class TFRecordDataset(Dataset):
    """Yields the records of TFRecord files, as ``bytes``.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        buffer_size: Accepted as in tf.data; has no effect.
        num_parallel_reads: Accepted as in tf.data; has no effect.
        name: Accepted as in tf.data; has no effect.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     tf.data.experimental.TFRecordWriter(file.name).write(ms.Dataset.from_tensor_slices([b"a", b"b"]))
        ...     print(list(ms.TFRecordDataset(file.name)))
        [b'a', b'b']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(_paths(filenames).then("tfrecord", compression=_compression(compression_type)))


class TextLineDataset(Dataset):
    """Yields the lines of text files, as ``str``.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        compression_type: Must be empty, because Millstream reads no compressed text files.
        buffer_size: Accepted as in tf.data; has no effect.
        num_parallel_reads: Accepted as in tf.data; has no effect.
        name: Accepted as in tf.data; has no effect.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     print("first", "second", sep=chr(10), file=file, flush=True)
        ...     print(list(ms.TextLineDataset(file.name)))
        ['first', 'second']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        if compression_type:
            raise UnimplementedError("Millstream reads no compressed text files: decompress the files, or use TFRecord files")
        super().__init__(_paths(filenames, in_parts=True).then("text_lines"))


class FixedLengthRecordDataset(Dataset):
    """Yields the records of files of fixed-length records, as ``bytes``.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        record_bytes: The number of bytes in a record.
        header_bytes: The number of bytes before the first record.
        footer_bytes: The number of bytes after the last record.
        buffer_size: Accepted as in tf.data; has no effect.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        num_parallel_reads: Accepted as in tf.data; has no effect.
        name: Accepted as in tf.data; has no effect.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     print("aabb", end="", file=file, flush=True)
        ...     print(list(ms.FixedLengthRecordDataset(file.name, 2)))
        [b'aa', b'bb']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            _paths(filenames, in_parts=not compression_type).then(
                "fixed_length",
                record_bytes=record_bytes,
                header_bytes=header_bytes or 0,
                footer_bytes=footer_bytes or 0,
                compression=_compression(compression_type),
            )
        )


def csv(
    filenames: Any,
    columns: dict[str, Any],
    *,
    defaults: dict[str, str] | None = None,
    header: bool = False,
    delimiter: str = ",",
    compression_type: str = "",
    on_error: str = "raise",
) -> Dataset:
    """Yields dicts of the columns of CSV files.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        columns: The dtype of each column, by name.
        defaults: The text that replaces a missing value, by name of the column.
        header: Whether the first row of each file contains the names of the columns. Without a header the files have the columns in the order
            of ``columns``.
        delimiter: The character between two fields.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        on_error: Raises an error for an invalid row (``"raise"``), or skips the row (``"skip"``).

    Returns:
        The new dataset.
    """
    missing = defaults or {}
    if len(delimiter) != 1 or not delimiter.isascii():
        raise ValueError(f"expected one ASCII character as delimiter, found {delimiter!r}")
    wanted = [
        {"name": name, "dtype": as_dtype(dtype).code, "default": missing.get(name)} for name, dtype in columns.items()
    ]
    return Dataset(
        _paths(filenames).then(
            "csv",
            columns=wanted,
            header=header,
            delimiter=ord(delimiter),
            compression=_compression(compression_type),
            on_error=error_policy(on_error),
        )
    )


def json_lines(
    filenames: Any,
    fields: dict[str, Any],
    *,
    defaults: dict[str, str] | None = None,
    compression_type: str = "",
    on_error: str = "raise",
) -> Dataset:
    """Yields one dict for each line of JSON-lines files. Each line contains one JSON document.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        fields: A ``TensorSpec`` for each field, by name.
        defaults: The JSON text that replaces a missing value, by name of the field.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        on_error: Raises an error for an invalid line (``"raise"``), or skips the line (``"skip"``).

    Returns:
        The new dataset.
    """
    missing = defaults or {}
    wanted = [
        {"name": name, "path": [name], "tensor": plain(spec), "default": missing.get(name)} for name, spec in fields.items()
    ]
    return Dataset(
        _paths(filenames).then(
            "json_lines", fields=wanted, compression=_compression(compression_type), on_error=error_policy(on_error)
        )
    )


def npy(filenames: Any, element_spec: Any = None, *, whole: bool = False, on_error: str = "raise") -> Dataset:
    """Yields the rows of ``.npy`` files, or whole arrays.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        element_spec: The spec of an element; by default that of the first file.
        whole: Whether an element is a whole array instead of a row.
        on_error: Raises an error for an unreadable file (``"raise"``), or skips the file (``"skip"``).

    Returns:
        The new dataset.
    """
    return _arrays("npy", filenames, (), element_spec, whole, on_error)


def npz(
    filenames: Any,
    names: Sequence[str] = (),
    element_spec: Any = None,
    *,
    whole: bool = False,
    on_error: str = "raise",
) -> Dataset:
    """Yields dicts of the arrays of ``.npz`` files, row by row or whole.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        names: The names of the arrays to read; all arrays by default.
        element_spec: The specs of the arrays; by default those of the first file.
        whole: Whether an element consists of whole arrays instead of rows.
        on_error: Raises an error for an unreadable file (``"raise"``), or skips the file (``"skip"``).

    Returns:
        The new dataset.
    """
    return _arrays("npz", filenames, names, element_spec, whole, on_error)


def parquet(
    filenames: Any,
    columns: Sequence[str] = (),
    element_spec: Any = None,
    *,
    batch_size: int | None = None,
    nulls_as_default: bool = False,
    on_error: str = "raise",
) -> Dataset:
    """Yields dicts of the columns of Parquet files.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``. Paths and patterns of the Hugging Face hub,
            ``hf://datasets/ORG/NAME[@REVISION]/PATTERN``, are listed here.
        columns: The names of the columns to read; all columns by default.
        element_spec: The specs of the columns; by default those of the first file.
        batch_size: The number of rows in an element; ``None`` yields single rows.
        nulls_as_default: Whether a null is read as 0, false, an empty text or an empty list. Otherwise a null is an error.
        on_error: Raises an error for an unreadable file (``"raise"``), or skips the file (``"skip"``).

    Returns:
        The new dataset.
    """
    return _tables("parquet", filenames, columns, element_spec, batch_size, nulls_as_default, on_error)


def arrow(
    filenames: Any,
    columns: Sequence[str] = (),
    element_spec: Any = None,
    *,
    batch_size: int | None = None,
    nulls_as_default: bool = False,
    on_error: str = "raise",
) -> Dataset:
    """Yields dicts of the columns of Arrow IPC files and streams (Feather).

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        columns: The names of the columns to read; all columns by default.
        element_spec: The specs of the columns; by default those of the first file.
        batch_size: The number of rows in an element; ``None`` yields single rows.
        nulls_as_default: Whether a null is read as 0, false, an empty text or an empty list. Otherwise a null is an error.
        on_error: Raises an error for an unreadable file (``"raise"``), or skips the file (``"skip"``).

    Returns:
        The new dataset.
    """
    return _tables("arrow", filenames, columns, element_spec, batch_size, nulls_as_default, on_error)


def mds(filenames: Any, columns: Sequence[str] = (), element_spec: Any = None) -> Dataset:
    """Yields dicts of the columns of MosaicML shards (MDS).

    Args:
        filenames: Paths of shards, or of ``index.json`` files that list shards.
        columns: The names of the columns to read; all columns by default.
        element_spec: The specs of the columns; by default those of the first shard.

    Returns:
        The new dataset.
    """
    wanted = _columns(columns, element_spec)
    if isinstance(filenames, Dataset | Tensor):
        return Dataset(_paths(filenames).then("mds", columns=wanted))
    found = _resolved(filenames)
    # Each name has its own listing, because the shards of an index take the index's place in the order of names.
    each = [
        Dataset(Graph.source("files", pattern=_pattern(name)).then("mds", columns=wanted))
        for name in (found.urls("mds") if isinstance(found, HubPaths) else found)
    ]
    if not each:
        raise ValueError("mds expected the path of a shard or an index.json, found no path")
    return functools.reduce(lambda before, one: before.concatenate(one), each)


def sqlite(filenames: Any, query: str, columns: dict[str, Any]) -> Dataset:
    """Yields one dict for each row of a query on SQLite databases.

    Args:
        filenames: The paths of the databases.
        query: The query in SQL.
        columns: The dtype of each column, by name.

    Returns:
        The new dataset.
    """
    wanted = [{"name": name, "dtype": as_dtype(dtype).code} for name, dtype in columns.items()]
    return Dataset(_paths(filenames).then("sqlite", query=query, columns=wanted))


def webdataset(filenames: Any, fields: Sequence[str], *, on_error: str = "raise") -> Dataset:
    """Yields one dict for each sample of WebDataset tar shards. The values are the contents of the sample's files, as ``bytes``.

    Args:
        filenames: One or several paths, or a dataset of paths such as ``Dataset.list_files``.
        fields: The extensions of a sample's files, for example ``["jpg", "cls"]``.
        on_error: Raises an error for an unreadable shard or sample (``"raise"``), or skips the shard or sample (``"skip"``).

    Returns:
        The new dataset.
    """
    return Dataset(_paths(filenames).then("webdataset", fields=list(fields), on_error=error_policy(on_error)))


def image_folder(root: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Yields the images of a folder that contains one subfolder for each class.

    Args:
        root: The path of the folder.
        class_names: The names of the classes, in the order of their labels. The default is the sorted names of the subfolders that contain
            files; see ``class_names``. A folder of validation images needs the classes of the training images if it lacks a class.

    Returns:
        A dataset of dicts with ``image`` (the bytes of the file), ``label`` (the index of the class in the names) and ``path``.
    """
    if is_of_hub(root):
        raise UnimplementedError(f"image_folder reads folders of this machine, not {root}: use ms.files.webdataset or ms.files.parquet for files of the hub")
    return Dataset(Graph.source("image_folder", root=os.fspath(root), classes=list(class_names or ())))


def class_names(root: str) -> list[str]:
    """Returns the names of the classes of an ``image_folder``: the sorted names of the subfolders that contain files.

    Lists the folder in this process.

    Args:
        root: The path of the folder.

    Returns:
        The names. The label of an image is the index of the name of its class.

    Raises:
        InvalidArgumentError: No subfolder contains a file.

    Example:
        >>> import pathlib, tempfile
        >>> root = pathlib.Path(tempfile.mkdtemp())
        >>> for name in ["dog", "cat"]:
        ...     (root / name).mkdir()
        ...     _ = (root / name / "1.jpg").write_bytes(b"")
        >>> ms.files.class_names(root)
        ['cat', 'dog']
    """
    pattern = "".join(f"[{letter}]" if letter in "*?[]" else letter for letter in os.fspath(root).rstrip("/")) + "/*/**/*"
    paths = (PurePosixPath(str(path)) for path in Dataset.list_files(pattern, shuffle=False))
    return sorted({path.relative_to(root).parts[0] for path in paths})


def _compression(compression_type: str | None) -> str:
    """Returns the library's word for a compression type of tf.data."""
    words = {"": "none", "GZIP": "gzip", "ZLIB": "zlib"}
    if (compression_type or "") not in words:
        raise ValueError(f"compression_type {compression_type!r}: use \"\", \"GZIP\" or \"ZLIB\"")
    return words[compression_type or ""]


def _columns(names: Sequence[str], element_spec: Any, example: str | None = None) -> dict[str, Any]:
    """Returns the columns to read, their specs if declared, and else a pattern of a file that states them."""
    declared = None if element_spec is None else plain(element_spec)
    return {"names": list(names), "declared": declared, "example": example}


def _arrays(kind: str, filenames: Any, names: Sequence[str], element_spec: Any, whole: bool, on_error: str) -> Dataset:
    return _with_columns(kind, filenames, names, element_spec, False, whole=whole, on_error=error_policy(on_error))


def _tables(
    kind: str,
    filenames: Any,
    columns: Sequence[str],
    element_spec: Any,
    batch_size: int | None,
    nulls_as_default: bool,
    on_error: str,
) -> Dataset:
    in_parts = kind == "parquet" and batch_size is None
    options = {"rows": batch_size, "nulls_as_default": bool(nulls_as_default), "on_error": error_policy(on_error)}
    return _with_columns(kind, filenames, columns, element_spec, in_parts, **options)


def _with_columns(kind: str, filenames: Any, names: Sequence[str], element_spec: Any, in_parts: bool, **options: Any) -> Dataset:
    """Returns the dataset of a reader that looks columns up in a file, unless the specs of the columns are declared."""
    filenames = _resolved(filenames)
    paths = _paths(filenames, in_parts=in_parts)
    wanted = _columns(names, element_spec, _like(filenames, element_spec))
    if isinstance(filenames, HubPaths) and wanted["example"] is not None:
        # Specs are declared here, because a worker may lack the token or the download.
        found = Graph.source("files", pattern=_pattern(wanted["example"])).then(kind, columns=wanted, **options).spec
        wanted = {"names": list(names), "declared": found, "example": None}
    return Dataset(paths.then(kind, columns=wanted, **options))
