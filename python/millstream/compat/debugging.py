"""Checks of tensors, named as in ``tf.debugging``. A check within a function of a dataset fails the element.

Owns the texts of failures. Refuses to know the treatment of elements that fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from .._tensor import convert_to_tensor
from ..errors import InvalidArgumentError
from ._functions import checked, finished, is_symbolic, operands
from ._refusal import refusal

__all__ = ["Assert", "assert_equal", "assert_greater", "assert_less", "assert_non_negative", "assert_positive", "check_numerics"]


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """Returns the tensor, and fails the element if it has NaN or an infinite item.

    Args:
        tensor: A tensor of floats.
        message: The text of the error.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The tensor.

    Raises:
        InvalidArgumentError: An item is NaN or infinite. Raised when the element is read.

    Example:
        >>> ratios = tf.data.Dataset.from_tensor_slices([1.0, 0.0]).map(lambda x: tf.debugging.check_numerics(1.0 / x, "ratio"))
        >>> [float(x) for x in ratios.ignore_errors()]
        [1.0]
    """
    (given,) = operands(tensor)
    return finished(checked(convert_to_tensor(given), ops.reduce_all(ops.is_finite(given)), f"{message} : NaN or Inf"))


def _compare(x: Any, y: Any, operation: str, message: str | None, name: str) -> None:
    if is_symbolic(x, y):
        raise refusal(
            f"tf.debugging.{name}",
            "within a function of a dataset nothing depends on its result, so that it would never run: use Dataset.filter, or "
            "tf.debugging.check_numerics, whose result is used",
        )
    one, other = operands(x, y)
    if not bool(np.all(finished(convert_to_tensor(one)._binary(operation, other)))):
        raise InvalidArgumentError(f"{message or name}: the condition does not hold for {x!r} and {y!r}")


def assert_equal(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that two arrays are equal.

    Args:
        x: An array.
        y: An array.
        message: The text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: The arrays differ.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.assert_equal([1, 2], [1, 2])
    """
    _compare(x, y, "eq", message, "assert_equal")


def assert_less(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that the items of one array are smaller.

    Args:
        x: An array.
        y: An array.
        message: The text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: An item is not smaller.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.assert_less([1, 2], 3)
    """
    _compare(x, y, "lt", message, "assert_less")


def assert_greater(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that the items of one array are larger.

    Args:
        x: An array.
        y: An array.
        message: The text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: An item is not larger.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.assert_greater([4, 5], 3)
    """
    _compare(x, y, "gt", message, "assert_greater")


def assert_positive(x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that all items are larger than 0.

    Args:
        x: An array.
        message: The text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: An item is not larger than 0.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.assert_positive([1, 2])
    """
    _compare(x, 0, "gt", message, "assert_positive")


def assert_non_negative(x: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that no item is smaller than 0.

    Args:
        x: An array.
        message: The text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: An item is smaller than 0.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.assert_non_negative([0, 1])
    """
    _compare(x, 0, "ge", message, "assert_non_negative")


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> None:
    """Checks that a condition holds.

    Args:
        condition: A Boolean.
        data: Values for the text of the error.
        summarize: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Raises:
        InvalidArgumentError: The condition does not hold.
        UnimplementedError: A tensor of a function of a dataset is given.

    Example:
        >>> tf.debugging.Assert(True, ["never shown"])
    """
    _compare(condition, True, "eq", f"assertion failed: {data!r}", "Assert")
