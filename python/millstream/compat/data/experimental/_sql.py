"""Datasets of the rows of a query: ``SqlDataset``. Owns TensorFlow's parameters; refuses to know how databases are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._dataset import Dataset
from ...._dtypes import as_dtype
from ....errors import InvalidArgumentError
from ....files import _paths

__all__ = ["SqlDataset"]


class SqlDataset(Dataset):
    """Yields tuples of the columns of the rows of a query. Texts are byte strings; nulls are 0 or empty.

    Args:
        driver_name: Must be ``"sqlite"``.
        data_source_name: The path of the database.
        query: The query.
        output_types: The dtype of each column.

    Raises:
        InvalidArgumentError: The driver is another one.

    Example:
        >>> import sqlite3, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with sqlite3.connect(folder + "/people.db") as database:
        ...         _ = database.execute("CREATE TABLE people (name TEXT, age INTEGER)")
        ...         _ = database.execute("INSERT INTO people VALUES ('Ada', 36), ('Alan', 41)")
        ...     database.close()
        ...     query = "SELECT name, age FROM people ORDER BY age"
        ...     people = tf.data.experimental.SqlDataset("sqlite", folder + "/people.db", query, (tf.string, tf.int32))
        ...     print([(name, int(age)) for name, age in people])
        [(b'Ada', 36), (b'Alan', 41)]
    """

    def __init__(self, driver_name: str, data_source_name: Any, query: str, output_types: Sequence[Any]) -> None:
        if driver_name != "sqlite":
            raise InvalidArgumentError(f"SqlDataset: expected driver_name='sqlite', found {driver_name!r}")
        codes = [as_dtype(dtype).code for dtype in output_types]
        columns = [
            {"name": str(number), "dtype": "bytes" if code == "string" else code, "null_as_default": True} for number, code in enumerate(codes)
        ]
        rows = Dataset(_paths(data_source_name).then("sqlite", query=query, columns=columns))
        super().__init__(rows.map(lambda row: tuple(row.values()))._graph)
