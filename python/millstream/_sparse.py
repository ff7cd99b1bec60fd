"""Batches of dense elements as sparse tensors: ``sparse_batch`` of ``Dataset``.

Owns the code that makes coordinates of ragged rows. Refuses to know where the code runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._composites import Ragged, Sparse
from ._dtypes import int64
from ._spec import SparseTensorSpec, TensorSpec
from .errors import DataLossError

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["sparse", "sparse_batches"]


def sparse_batches(dataset: Dataset, batch_size: int, row_shape: Sequence[int | None]) -> Dataset:
    """Returns batches of elements as sparse tensors.

    Args:
        dataset: A dataset of single tensors of a known number of dimensions.
        batch_size: Elements of a batch.
        row_shape: The shape that each element fits in; ``None`` is as long as the longest of a batch.

    Raises:
        TypeError: An element is not one tensor.
        ValueError: The shape has another number of dimensions than the elements.
    """
    spec = dataset.element_spec
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"sparse_batch: expected elements that are one tensor each, found {spec}")
    row = [None if size is None or size < 0 else int(size) for size in row_shape]
    if spec.shape is None or len(spec.shape) != len(row):
        raise ValueError(f"sparse_batch: expected elements of {len(row)} dimensions, as row_shape {row} has, found shape {spec.shape}")
    rank = len(row) + 1
    made = SparseTensorSpec(TensorSpec((None, rank), int64), TensorSpec((None,), spec.dtype), TensorSpec((rank,), int64))
    return dataset.ragged_batch(batch_size).map_python(_Sparse(row), element_spec=made)


class _Sparse:
    """Makes a sparse tensor of a batch whose rows are ragged."""

    def __init__(self, row: list[int | None]) -> None:
        self.row = row

    def __call__(self, batch: Any) -> Sparse:
        return sparse(batch, self.row)


def sparse(batch: Any, row_shape: Sequence[int | None]) -> Sparse:
    """Returns all items of a batch with their coordinates, zeros too.

    Args:
        batch: An array, or rows of different lengths.
        row_shape: The shape that each row fits in; ``None`` is as long as the longest.

    Raises:
        DataLossError: A row is longer than the shape.
    """
    rows = [np.asarray(row) for row in _rows(batch)]
    largest = [max((row.shape[axis] for row in rows), default=0) for axis in range(len(row_shape))]
    for size, most in zip(row_shape, largest, strict=True):
        if size is not None and most > size:
            raise DataLossError(f"sparse_batch: expected elements within row_shape {list(row_shape)}, found one of {most} items along an axis")
    places = [np.argwhere(np.ones(row.shape, bool)).astype(np.int64) for row in rows]
    numbers = [np.full((len(place), 1), number, np.int64) for number, place in enumerate(places)]
    coordinates = [np.hstack(pair) for pair in zip(numbers, places, strict=True)]
    shape = [len(rows), *(most if size is None else size for size, most in zip(row_shape, largest, strict=True))]
    return Sparse(np.concatenate(coordinates), np.concatenate([row.reshape(-1) for row in rows]), np.array(shape, np.int64))


def _rows(batch: Any) -> list[Any]:
    if not isinstance(batch, Ragged):
        return list(batch)
    return [np.asarray(row.to_dense() if isinstance(row, Ragged) else row) for row in (batch[index] for index in range(len(batch)))]
