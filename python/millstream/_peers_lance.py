"""Lance datasets, read through the package ``pylance``.

Owns the choice of the version and of the columns, and the way of reading a block. Refuses to know Arrow's types, which ``_peers_arrow`` translates.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._code import Limits
from ._dataset import AUTOTUNE
from ._peers import Positions, RecordDataset, Records, library, local_path
from ._peers_arrow import described_type, rows_of
from .errors import DataLossError, InvalidArgumentError, NotFoundError

__all__ = ["lance"]


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _LanceRecords(Records):
    """The rows of one version of a dataset."""

    uri: str
    version: int
    columns: tuple[str, ...]

    def opened(self) -> Any:
        return _opened(self.uri, self.version)

    def length(self, handle: Any) -> int:
        return int(handle.count_rows())

    def read(self, handle: Any, positions: Positions) -> dict[str, Any]:
        first, count = int(positions[0]), len(positions)
        if np.array_equal(positions, np.arange(first, first + count)):
            # A scan reads a run of rows many times faster than row by row.
            table = handle.scanner(columns=list(self.columns), offset=first, limit=count).to_table()
        else:
            table = handle.take(positions.tolist(), columns=list(self.columns))
        if table.num_rows != count:
            raise DataLossError(f"{self.name}: expected {count} rows from row {first} on, found {table.num_rows}: the dataset is corrupt")
        return {name: rows_of(table.column(name), item, f"{name!r} of {self.name}") for name, item in self.described[1]}


def lance(
    uri: str | os.PathLike[str],
    columns: Sequence[str] = (),
    *,
    version: int | str | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    on_error: str = "raise",
) -> RecordDataset:
    """Yields dicts of the columns of a Lance dataset.

    Workers share the rows by position and read them through the package ``pylance``, in Python processes. Types become components as those of
    ``ms.files.parquet`` do; a null is an error. The attribute ``records`` of the result is a dataset with indices, which ``ms.DataLoader`` reads
    with exact resume.

    Args:
        uri: The folder of the dataset, or its URL in a store that the package knows.
        columns: The columns to read; all by default.
        version: The version, or its tag; by default the latest. The dataset keeps to the version that it finds when it is built.
        shuffle: Whether every pass reads the rows in another order.
        seed: The seed of the order.
        num_parallel_calls: The Python processes of each worker; by default as many as help.
        limits: Limits of the processes.
        on_error: Raises an error for rows that cannot be read (``"raise"``), or skips their block of up to 1024 rows (``"skip"``).

    Returns:
        The new dataset.

    Raises:
        FailedPreconditionError: The package ``pylance`` is not installed.
        NotFoundError: The path, or a column, does not exist.
        DataLossError: The library cannot open the dataset.
        UnimplementedError: A column has a type that elements cannot hold.
    """
    library("lance", "pylance", "lance", "lance")
    where = local_path(uri)
    dataset = _opened(where, version)
    schema = dataset.schema
    wanted = tuple(columns) or tuple(schema.names)
    if isinstance(columns, str):
        raise InvalidArgumentError(f"expected a list of columns, found the text {columns!r}: write [{columns!r}]")
    for name in wanted:
        if name not in schema.names:
            raise NotFoundError(f"{where}: no column {name!r}; the columns are {', '.join(schema.names)}")
    records = _LanceRecords(
        name=where,
        count=int(dataset.count_rows()),
        described=("dict", [(name, described_type(schema.field(name).type, repr(name))) for name in wanted]),
        module="lance",
        uri=where,
        version=int(dataset.version),
        columns=wanted,
    )
    return RecordDataset(records, shuffle=shuffle, seed=seed, num_parallel_calls=num_parallel_calls, limits=limits, on_error=on_error)


def _opened(uri: str, version: int | str | None) -> Any:
    try:
        return library("lance", "pylance", "lance", "lance").dataset(uri, version=version)
    except (ValueError, OSError) as error:
        text = (str(error).splitlines() or [""])[0]
        if "not found" in text.lower():
            of = "" if version is None else f", or no version {version} of it"
            raise NotFoundError(f"{uri}: no Lance dataset{of}: {text}") from error
        raise DataLossError(f"{uri}: not a Lance dataset, or corrupt: {text}") from error
