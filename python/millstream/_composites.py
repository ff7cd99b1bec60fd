"""Ragged and sparse tensors, which consist of several arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Ragged", "Sparse"]


class Ragged:
    """A ragged tensor: rows of different lengths. The values of all rows are concatenated, and row splits mark the rows.

    Attributes:
        values: The values of all rows.
        nested_row_splits: The row splits of each ragged dimension, the outermost first. Row splits are the start of each row, and the end of
            the last row.
    """

    __slots__ = ("nested_row_splits", "values")

    def __init__(self, values: npt.ArrayLike, *row_splits: npt.ArrayLike) -> None:
        if not row_splits:
            raise ValueError("expected at least one vector of row splits for a ragged tensor, found none")
        self.values = np.asarray(values)
        self.nested_row_splits = tuple(np.asarray(splits) for splits in row_splits)

    @classmethod
    def from_rows(cls, rows: list[Any], dtype: npt.DTypeLike | None = None) -> Ragged:
        """Creates a ragged tensor with one ragged dimension.

        Args:
            rows: The rows, as sequences or arrays.
            dtype: The dtype of the items; by default the dtype of the first row.

        Returns:
            The ragged tensor.
        """
        arrays = [np.asarray(row, dtype) for row in rows]
        splits = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, dtype), splits)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def row_splits(self) -> npt.NDArray[Any]:
        """The row splits of the outermost dimension."""
        return self.nested_row_splits[0]

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        start, stop = (int(place) for place in self.row_splits[index : index + 2])
        if self.ragged_rank == 1:
            return self.values[start:stop]
        inner = self.nested_row_splits[1]
        first, last = int(inner[start]), int(inner[stop])
        rest = Ragged(self.values, *self.nested_row_splits[1:])
        if self.ragged_rank == 2:
            return Ragged(self.values[first:last], inner[start : stop + 1] - inner[start])
        return [rest[row] for row in range(start, stop)]

    def to_list(self) -> list[Any]:
        """Returns the rows as nested lists of Python values."""
        values = self.values.tolist()
        for splits in reversed(self.nested_row_splits):
            values = [values[start:stop] for start, stop in zip(splits[:-1], splits[1:], strict=True)]
        return list(values)

    def to_dense(self, fill: Any = 0) -> npt.NDArray[Any]:
        """Pads all rows to the length of the longest row. The tensor must have one ragged dimension.

        Args:
            fill: The value of the padding.

        Returns:
            An array with one row for each row of the tensor.
        """
        if self.ragged_rank != 1:
            raise ValueError(f"to_dense: expected one ragged dimension, found {self.ragged_rank}")
        lengths = np.diff(self.row_splits)
        dense = np.full((len(self), int(lengths.max(initial=0)), *self.values.shape[1:]), fill, self.values.dtype)
        for row, length in enumerate(lengths):
            dense[row, :length] = self[row]
        return dense

    def __repr__(self) -> str:
        return f"ms.Ragged({self.to_list()!r})"


class Sparse:
    """A sparse tensor: the coordinates and values of its items, and its dense shape."""

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, indices: npt.ArrayLike, values: npt.ArrayLike, dense_shape: npt.ArrayLike) -> None:
        self.indices = np.asarray(indices)
        self.values = np.asarray(values)
        self.dense_shape = np.asarray(dense_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense tensor."""
        return tuple(int(size) for size in self.dense_shape)

    def to_dense(self) -> npt.NDArray[Any]:
        """Returns the tensor as a dense array. Positions without an item are zero."""
        dense = np.zeros(self.shape, self.values.dtype)
        if len(self.indices):
            dense[tuple(self.indices.T)] = self.values
        return dense

    def __repr__(self) -> str:
        return f"ms.Sparse(shape={self.shape}, values={len(self.values)})"
