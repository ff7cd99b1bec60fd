"""Datasets of comma-separated values: ``CsvDataset`` and ``make_csv_dataset``.

Owns TensorFlow's parameters, and the look into files that finds out names and types of columns. Refuses to know how rows are split.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...._dataset import AUTOTUNE, Dataset
from ...._dtypes import DType, as_dtype, bytes_, float32, float64, int32, int64, string
from ...._structure import leaf
from ....errors import InvalidArgumentError, NotFoundError
from ....files import _compression, _paths
from ._records import shuffled_and_repeated

__all__ = ["CsvDataset", "make_csv_dataset"]

_TYPES = ("f32", "f64", "i32", "i64", "string", "bytes")


class CsvDataset(Dataset):
    r"""Yields tuples of the fields of the rows of CSV files. Text fields are byte strings. Empty lines are no rows.

    Args:
        filenames: Paths, or a dataset of paths.
        record_defaults: For each column that is read, a dtype if rows must have the field, or the value of a missing field.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        buffer_size: Accepted as in TensorFlow; has no effect.
        header: Whether the first row of each file is left out.
        field_delim: The separator of fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: A text that marks a missing field, besides the empty text.
        select_cols: The indices of the columns to read, rising; all by default.
        exclude_cols: The indices of the columns not to read.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write("1,a,2.5\n2,,3.5\n")
        ...     file.flush()
        ...     rows = tf.data.experimental.CsvDataset(file.name, [tf.int32, "none", tf.float32])
        ...     print([(int(i), text, float(x)) for i, text, x in rows])
        [(1, b'a', 2.5), (2, b'none', 3.5)]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ) -> None:
        if len(field_delim) != 1 or not field_delim.isascii():
            raise InvalidArgumentError(f"CsvDataset: expected one ASCII character as field_delim, found {field_delim!r}")
        places = _places(len(record_defaults), select_cols, exclude_cols)
        columns = [{**_column(default), "name": str(number), "index": place} for number, (place, default) in enumerate(zip(places, record_defaults, strict=True))]
        rows = Dataset(
            _paths(filenames).then(
                "csv",
                columns=columns,
                header=bool(header),
                delimiter=ord(field_delim),
                quoting=bool(use_quote_delim),
                missing=na_value or None,
                compression=_compression(compression_type),
            )
        )
        super().__init__(rows.map(lambda row: tuple(row.values()))._graph)


def _places(count: int, selected: Sequence[int] | None, excluded: Sequence[int] | None) -> list[int]:
    """Returns the indices of the columns to read."""
    if selected is not None and excluded is not None:
        raise InvalidArgumentError("CsvDataset: expected select_cols or exclude_cols, found both")
    if not count:
        raise InvalidArgumentError("CsvDataset: expected record_defaults of at least one column, found none")
    given = [int(place) for place in (selected if selected is not None else excluded or ())]
    if any(place < 0 for place in given) or any(one >= other for one, other in itertools.pairwise(given)):
        raise InvalidArgumentError(f"CsvDataset: expected indices that rise from 0 on, found {given}")
    if selected is not None:
        if len(given) != count:
            raise InvalidArgumentError(f"CsvDataset: expected as many record_defaults as select_cols, found {count} and {len(given)}")
        return given
    return list(itertools.islice((place for place in itertools.count() if place not in given), count))


def _column(default: Any) -> dict[str, Any]:
    """Returns the dtype and the default of a column, as the native operation takes them."""
    is_dtype = isinstance(default, DType | type | np.dtype) or type(default).__name__ == "DType"
    if is_dtype:
        dtype, text = as_dtype(default), None
    else:
        code, dims, items = leaf(default)
        size = int(np.prod(dims)) if dims else 1
        if len(dims) > 1 or size > 1:
            raise InvalidArgumentError(f"CsvDataset: expected one default for each column, found {default!r}")
        dtype = as_dtype(code)
        text = None if not size else _written(items, dtype)
    if dtype.code not in _TYPES:
        raise InvalidArgumentError(f"CsvDataset: expected columns of float32, float64, int32, int64 or string, found {dtype!r}")
    return {"dtype": "bytes" if dtype.code == "string" else dtype.code, "default": text}


def _written(items: Any, dtype: DType) -> str:
    if isinstance(items, list):
        return str(items[0].decode())
    return repr(np.frombuffer(items, dtype.as_numpy_dtype)[0].item())


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[int | str] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    r"""Yields batches of the columns of CSV files. Text columns are byte strings.

    Names come from the first row of the files, and types from the first rows, unless they are given. Files are listed, and looked into, when
    the dataset is made.

    Args:
        file_pattern: Paths, or patterns of paths.
        batch_size: Rows of a batch.
        column_names: The names of all columns.
        column_defaults: For each column that is read, a dtype if rows must have the field, or the value of a missing field.
        label_name: The column that becomes the second part of a pair of features and label.
        select_columns: The columns to read, by index or name; all by default.
        field_delim: The separator of fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: A text that marks a missing field, besides the empty text.
        header: Whether the first row of each file has the names.
        num_epochs: Passes over the files; ``None`` for passes without end.
        shuffle: Whether files and rows are shuffled.
        shuffle_buffer_size: Rows in the buffer of the shuffle.
        shuffle_seed: The seed of the shuffle.
        prefetch_buffer_size: Batches that are computed ahead; tuned by default.
        num_parallel_reads: Files that are read at a time; 1 by default.
        sloppy: Whether the order may differ where that is faster.
        num_rows_for_inference: Rows that types are found out of; all with ``None``.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.
        ignore_errors: Whether rows that cannot be read are left out.
        encoding: The encoding of the rows that are looked into.

    Returns:
        The new dataset, of dicts, or of pairs of a dict and a label.

    Raises:
        ValueError: Names are missing, occur twice or differ between files; or a column that is named is not there.
        NotFoundError: A pattern matches no file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write("id,price\n1,2.5\n2,3.5\n")
        ...     file.flush()
        ...     batches = tf.data.experimental.make_csv_dataset(file.name, 2, label_name="price", num_epochs=1, shuffle=False)
        ...     print([(features["id"].tolist(), label.tolist()) for features, label in batches])
        [([1, 2], [2.5, 3.5])]
    """
    paths = _listed(file_pattern)
    look = _Look(field_delim, use_quote_delim, compression_type, encoding)
    if column_names is None:
        if not header:
            raise ValueError("make_csv_dataset: expected column_names or header=True, found neither")
        column_names = look.names(paths)
    names = list(column_names)
    if len(names) != len(set(names)):
        raise ValueError(f"make_csv_dataset: expected column names that differ, found {names}")
    places = list(range(len(names))) if select_columns is None else _selected(select_columns, names)
    if column_defaults is None:
        column_defaults = look.defaults(paths, len(names), places, header, na_value, num_rows_for_inference)
    if len(column_defaults) != len(places):
        raise ValueError(f"make_csv_dataset: expected a default for each of {len(places)} columns, found {len(column_defaults)}")
    read = [names[place] for place in places]
    if label_name is not None and label_name not in read:
        raise ValueError(f"make_csv_dataset: expected label_name among {', '.join(read)}, found {label_name!r}")
    defaults = list(column_defaults)

    def rows_of(path: Any) -> Dataset:
        rows = CsvDataset(
            path, defaults, compression_type, None, header, field_delim, use_quote_delim, na_value, None if select_columns is None else places
        )
        return rows.ignore_errors() if ignore_errors else rows

    def named(*columns: Any) -> Any:
        features = dict(zip(read, columns, strict=True))
        if label_name is None:
            return features
        return {name: column for name, column in features.items() if name != label_name}, features[label_name]

    files = Dataset.from_tensor_slices(paths)
    if shuffle:
        files = files.shuffle(len(paths), shuffle_seed)
    threads = None if num_parallel_reads in (None, 1) else num_parallel_reads
    rows = files.interleave(rows_of, num_parallel_reads or 1, 1, threads, None if threads is None else not sloppy)
    rows = shuffled_and_repeated(rows, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    batches = rows.batch(batch_size, drop_remainder=num_epochs is None).map(named)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _listed(file_pattern: Any) -> list[str]:
    """Returns the paths that patterns match, sorted."""
    patterns = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else list(file_pattern)
    if not patterns:
        raise ValueError("make_csv_dataset: expected at least one pattern of files, found none")
    found: list[str] = []
    for pattern in patterns:
        matched = [str(path) for path in Dataset.list_files(pattern, shuffle=False)] if "://" in str(pattern) else sorted(glob.glob(os.fspath(pattern)))
        if not matched:
            raise NotFoundError(f"make_csv_dataset: expected files that match {os.fspath(pattern)!r}, found none")
        found += matched
    return sorted(found)


def _selected(columns: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Returns the indices of columns, in order."""
    if not columns:
        raise ValueError("make_csv_dataset: expected at least one of select_columns, found none")
    places = []
    for column in columns:
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"make_csv_dataset: expected select_columns among {', '.join(names)}, found {column!r}")
            places.append(names.index(column))
        elif not 0 <= column < len(names):
            raise ValueError(f"make_csv_dataset: expected select_columns below {len(names)}, found {column}")
        else:
            places.append(int(column))
    if len(places) != len(set(places)):
        raise ValueError(f"make_csv_dataset: expected select_columns that differ, found {list(columns)}")
    return sorted(places)


class _Look:
    """A look into files, for the names and the types of columns."""

    def __init__(self, delimiter: str, is_quoted: bool, compression_type: str | None, encoding: str) -> None:
        self._settings: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE}
        self._compression, self._encoding = compression_type, encoding
        if compression_type not in (None, "", "GZIP"):
            raise ValueError(f"make_csv_dataset: expected column_names and column_defaults for compression_type={compression_type!r}")

    def _rows(self, path: str) -> Iterator[list[str]]:
        opened: Any = gzip.open if self._compression == "GZIP" else open
        with opened(path, "rb") as file, io.TextIOWrapper(file, encoding=self._encoding, newline="") as text:
            yield from (row for row in csv.reader(text, **self._settings) if row)

    def names(self, paths: Sequence[str]) -> list[str]:
        """Returns the first row of all files.

        Raises:
            ValueError: A file has none, or another.
        """
        rows = [next(self._rows(path), None) for path in paths]
        first = rows[0]
        for path, row in zip(paths, rows, strict=True):
            if row is None:
                raise ValueError(f"make_csv_dataset: expected a first row with names in {path}, found none")
            if row != first:
                raise ValueError(f"make_csv_dataset: expected the names {first} in {path}, found {row}")
        return list(first or ())

    def defaults(self, paths: Sequence[str], count: int, places: Sequence[int], header: bool, missing: str, rows_max: int | None) -> list[Any]:
        """Returns a default for each column, 0 or empty, of the type that its first fields have.

        Raises:
            ValueError: A row has another number of fields.
        """
        found: list[DType | None] = [None] * len(places)
        rows = (row for path in paths for row in itertools.islice(self._rows(path), int(header), None))
        for row in itertools.islice(rows, rows_max):
            if len(row) != count:
                raise ValueError(f"make_csv_dataset: expected {count} fields in each row, found {len(row)}: {row}")
            found = [_type_of(row[place], missing, dtype) for place, dtype in zip(places, found, strict=True)]
        kinds = [string if dtype is None else dtype for dtype in found]
        return ["" if kind in (string, bytes_) else np.zeros((), kind.as_numpy_dtype)[()] for kind in kinds]


def _type_of(text: str, missing: str, so_far: DType | None) -> DType | None:
    """Returns the narrowest type that a field has, at least as wide as that of the fields before."""
    if text in ("", missing):
        return so_far
    order = [int32, int64, float32, float64, string]
    for dtype in order if so_far is None else order[order.index(so_far) :]:
        if _fits(text, dtype):
            return dtype
    return string


def _fits(text: str, dtype: DType) -> bool:
    if dtype.code == "string":
        return True
    try:
        number = int(text) if dtype.is_integer else float(text)
    except ValueError:
        return False
    if dtype.is_integer:
        return bool(np.iinfo(dtype.as_numpy_dtype).min <= number <= np.iinfo(dtype.as_numpy_dtype).max)
    return bool(abs(number) <= np.finfo(dtype.as_numpy_dtype).max)
