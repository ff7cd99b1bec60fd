"""Ragged tensors, named as in ``tf.ragged``. Owns the conversion of rows; refuses to know about datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._composites import Ragged
from .._dtypes import as_dtype
from ..errors import UnimplementedError

__all__ = ["constant", "stack"]


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = "int64",
) -> Ragged:
    """Makes a ragged tensor of rows.

    Args:
        pylist: The rows, nested lists.
        dtype: The dtype of the items.
        ragged_rank: Must be 1 or ``None``.
        inner_shape: Must be ``None``.
        name: Accepted as in TensorFlow; has no effect.
        row_splits_dtype: The dtype of the row splits, ``int64`` or ``int32``.

    Returns:
        The ragged tensor.

    Raises:
        UnimplementedError: Several dimensions are ragged.

    Example:
        >>> tf.ragged.constant([[1, 2], [3]]).to_list()
        [[1, 2], [3]]
    """
    if ragged_rank not in (None, 1) or inner_shape is not None:
        raise UnimplementedError(f"tf.ragged.constant: expected one ragged dimension, found ragged_rank={ragged_rank}, inner_shape={inner_shape}")
    made = Ragged.from_rows(pylist, None if dtype is None else as_dtype(dtype).as_numpy_dtype)
    return Ragged(made.values, made.row_splits.astype(as_dtype(row_splits_dtype).as_numpy_dtype))


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Ragged:
    """Stacks vectors of different lengths.

    Args:
        values: The vectors.
        axis: Must be 0.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The ragged tensor.

    Raises:
        UnimplementedError: The axis is not 0.

    Example:
        >>> tf.ragged.stack([[1, 2], [3]]).to_list()
        [[1, 2], [3]]
    """
    if axis:
        raise UnimplementedError(f"tf.ragged.stack: expected axis=0, found {axis}")
    return Ragged.from_rows([np.asarray(value) for value in values])
