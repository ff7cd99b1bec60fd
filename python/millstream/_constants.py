"""Constants beside tensors: arrays of numpy and lists, which take the tensor's dtype, as in TensorFlow.

Owns the rule that a constant keeps its value: one that does not fit keeps its own dtype, and the operation then refuses the two dtypes.
Refuses to know operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._dtypes import DType

__all__ = ["fitted", "is_constant"]

_NUMBERS = "iuf"


def is_constant(value: Any) -> bool:
    """Returns whether a value is a constant that may take another dtype. Numbers of Python take one by themselves."""
    return isinstance(value, np.ndarray | np.generic | list | tuple)


def fitted(value: Any, dtype: DType) -> Any:
    """Converts a constant to the dtype of a tensor, if its items stay what they are. Floats may be rounded.

    Args:
        value: An array, a scalar of numpy, or a list of numbers.
        dtype: The dtype of the tensor.

    Returns:
        The constant with that dtype; the value itself if its items do not fit, or are no numbers.
    """
    if not (dtype.is_integer or dtype.is_floating) or dtype.code.startswith(("bf", "f8")):
        return value
    try:
        given = np.asarray(value)
    except ValueError:
        return value
    if given.dtype.kind not in _NUMBERS or given.dtype == dtype.as_numpy_dtype:
        return value
    with np.errstate(all="ignore"):
        made = given.astype(dtype.as_numpy_dtype)
        is_same = np.array_equal(np.isfinite(made), np.isfinite(given)) if dtype.is_floating else np.array_equal(made, given)
    if not is_same:
        return value
    # A scalar of Python's is the cheapest constant.
    return made.item() if made.ndim == 0 else made
