"""Ranges whose bounds are tensors of a function's element. Refuses to know ranges of numbers, which are a native source."""

from __future__ import annotations

from typing import Any

from ._dataset import Dataset
from ._tensor import Tensor, convert_to_tensor
from .errors import InvalidDtypeError

__all__ = ["counted"]


def counted(start: Any, stop: Any, step: Any) -> Dataset:
    """Returns the integers from ``start`` to ``stop``, of which at least one is a tensor of a function's element.

    Raises:
        InvalidDtypeError: A tensor is no integer.
    """
    start, stop, step = (_integer(bound) for bound in (start, stop, step))
    # The quotient is rounded up.
    count = -((start - stop) // step)
    return Dataset.counter().take_while(lambda at: at < count).map(lambda at: start + at * step)


def _integer(bound: Any) -> Tensor:
    tensor = convert_to_tensor(bound)
    if not tensor.dtype.is_integer:
        raise InvalidDtypeError(f"range: expected integers, found a tensor of {tensor.dtype!r}: cast it to int64")
    return tensor.cast("int64")
