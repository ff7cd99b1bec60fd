"""Functions of numbers, named as in ``tf.math``. Owns their signatures; refuses to know how they are executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._tensor import Tensor, convert_to_tensor
from ..errors import InvalidArgumentError, UnimplementedError
from ._functions import constant_value, finished, is_symbolic, operands, traced

__all__ = [
    "abs", "add", "add_n", "argmax", "argmin", "ceil", "count_nonzero", "divide", "divide_no_nan", "equal", "exp", "expm1", "floor", "floordiv",
    "floormod", "greater", "greater_equal", "is_finite", "is_inf", "is_nan", "less", "less_equal", "log", "log1p", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "multiply_no_nan", "negative", "not_equal", "pow", "reciprocal",
    "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min", "reduce_std", "reduce_sum", "reduce_variance", "round", "rsqrt",
    "sigmoid", "sign", "sqrt", "square", "squared_difference", "subtract", "tanh", "truediv", "xdivy",
]  # fmt: skip


def _of(x: Any) -> Tensor:
    return convert_to_tensor(x)


def _one(name: str, compute: Callable[..., Any], meaning: str, example: str) -> Any:
    return traced(f"tf.math.{name}", "x, name=None", compute, meaning, example)


def _two(name: str, compute: Callable[..., Any], meaning: str, example: str) -> Any:
    return traced(f"tf.math.{name}", "x, y, name=None", compute, meaning, example, tensors=("x", "y"))


def _reduction(name: str, compute: Callable[..., Any], meaning: str, example: str) -> Any:
    signature = "input_tensor, axis=None, keepdims=False, name=None"
    return traced(f"tf.math.{name}", signature, compute, meaning, example, tensors=("input_tensor",))


def _binary(operation: str) -> Callable[[Any, Any], Tensor]:
    return lambda x, y: _of(x)._binary(operation, y)


abs = _one("abs", ops.abs, "Computes the absolute value.", ">>> int(tf.math.abs(-3))\n3")
negative = _one("negative", lambda x: -_of(x), "Changes the sign.", ">>> int(tf.math.negative(3))\n-3")
sign = _one("sign", ops.sign, "Computes the sign: -1, 0 or 1.", ">>> int(tf.math.sign(-3))\n-1")
square = _one("square", ops.square, "Multiplies a tensor by itself.", ">>> int(tf.math.square(3))\n9")
sqrt = _one("sqrt", ops.sqrt, "Computes the square root of floats.", ">>> float(tf.math.sqrt(4.0))\n2.0")
rsqrt = _one("rsqrt", lambda x: 1.0 / ops.sqrt(x), "Computes the reciprocal of the square root.", ">>> float(tf.math.rsqrt(4.0))\n0.5")
reciprocal = _one("reciprocal", lambda x: 1.0 / _of(x), "Computes the reciprocal of floats.", ">>> float(tf.math.reciprocal(4.0))\n0.25")
exp = _one("exp", ops.exp, "Raises e to the power.", ">>> float(tf.math.exp(0.0))\n1.0")
expm1 = _one("expm1", lambda x: ops.exp(x) - 1.0, "Computes the exponential, minus 1.", ">>> float(tf.math.expm1(0.0))\n0.0")
log = _one("log", ops.log, "Computes the natural logarithm.", ">>> float(tf.math.log(1.0))\n0.0")
log1p = _one("log1p", lambda x: ops.log(_of(x) + 1.0), "Computes the logarithm of 1 + x.", ">>> float(tf.math.log1p(0.0))\n0.0")
tanh = _one("tanh", ops.tanh, "Computes the hyperbolic tangent.", ">>> float(tf.math.tanh(0.0))\n0.0")
sigmoid = _one(
    "sigmoid", lambda x: 1.0 / (ops.exp(-_of(x)) + 1.0), "Computes the logistic function.", ">>> float(tf.math.sigmoid(0.0))\n0.5"
)
floor = _one("floor", ops.floor, "Rounds down.", ">>> float(tf.math.floor(1.5))\n1.0")
ceil = _one("ceil", ops.ceil, "Rounds up.", ">>> float(tf.math.ceil(1.5))\n2.0")
round = _one("round", ops.round, "Rounds to the nearest integer, and halves to the even one.", ">>> float(tf.math.round(2.5))\n2.0")
is_nan = _one("is_nan", ops.is_nan, "Tells which items are NaN.", '>>> bool(tf.math.is_nan(float("nan")))\nTrue')
is_finite = _one("is_finite", ops.is_finite, "Tells which items are neither infinite nor NaN.", ">>> bool(tf.math.is_finite(1.0))\nTrue")
is_inf = _one(
    "is_inf",
    lambda x: ~(ops.is_finite(x) | ops.is_nan(x)),
    "Tells which items are infinite.",
    '>>> bool(tf.math.is_inf(float("inf")))\nTrue',
)
logical_not = _one("logical_not", lambda x: ~_of(x), "Negates Booleans.", ">>> bool(tf.math.logical_not(True))\nFalse")

add = _two("add", _binary("add"), "Adds two tensors.", ">>> int(tf.math.add(1, 2))\n3")
subtract = _two("subtract", _binary("sub"), "Subtracts the second tensor.", ">>> int(tf.math.subtract(3, 2))\n1")
multiply = _two("multiply", _binary("mul"), "Multiplies two tensors.", ">>> int(tf.math.multiply(3, 2))\n6")
divide = _two("divide", _binary("div"), "Divides as Python does: integers become floats.", ">>> float(tf.math.divide(3, 2))\n1.5")
truediv = _two("truediv", _binary("div"), "Divides as Python does: integers become floats.", ">>> float(tf.math.truediv(3, 2))\n1.5")
floordiv = _two("floordiv", _binary("floor_div"), "Divides and rounds down.", ">>> int(tf.math.floordiv(-3, 2))\n-2")
floormod = _two("floormod", _binary("mod"), "Computes the remainder, with the divisor's sign.", ">>> int(tf.math.floormod(-3, 2))\n1")
mod = _two("mod", _binary("mod"), "Computes the remainder, with the divisor's sign.", ">>> int(tf.math.mod(-3, 2))\n1")
pow = _two("pow", _binary("pow"), "Raises to a power.", ">>> int(tf.math.pow(2, 3))\n8")
maximum = _two("maximum", ops.maximum, "Returns the larger item of both.", ">>> int(tf.math.maximum(1, 2))\n2")
minimum = _two("minimum", ops.minimum, "Returns the smaller item of both.", ">>> int(tf.math.minimum(1, 2))\n1")
equal = _two("equal", _binary("eq"), "Tells where items are equal.", ">>> bool(tf.math.equal(1, 2))\nFalse")
not_equal = _two("not_equal", _binary("ne"), "Tells where items differ.", ">>> bool(tf.math.not_equal(1, 2))\nTrue")
less = _two("less", _binary("lt"), "Tells where the first item is smaller.", ">>> bool(tf.math.less(1, 2))\nTrue")
less_equal = _two("less_equal", _binary("le"), "Tells where the first item is not larger.", ">>> bool(tf.math.less_equal(1, 2))\nTrue")
greater = _two("greater", _binary("gt"), "Tells where the first item is larger.", ">>> bool(tf.math.greater(1, 2))\nFalse")
greater_equal = _two(
    "greater_equal", _binary("ge"), "Tells where the first item is not smaller.", ">>> bool(tf.math.greater_equal(1, 2))\nFalse"
)
logical_and = _two("logical_and", _binary("and"), "Tells where both hold.", ">>> bool(tf.math.logical_and(True, False))\nFalse")
logical_or = _two("logical_or", _binary("or"), "Tells where one of both holds.", ">>> bool(tf.math.logical_or(True, False))\nTrue")
logical_xor = _two("logical_xor", _binary("xor"), "Tells where exactly one holds.", ">>> bool(tf.math.logical_xor(True, True))\nFalse")
squared_difference = _two(
    "squared_difference", lambda x, y: ops.square(_of(x) - y), "Squares the difference.", ">>> int(tf.math.squared_difference(5, 2))\n9"
)
multiply_no_nan = _two(
    "multiply_no_nan",
    lambda x, y: _or_zero(_of(y) == 0, _of(x) * y),
    "Multiplies floats; the result is 0 where the second is 0.",
    ">>> float(tf.math.multiply_no_nan(float('inf'), 0.0))\n0.0",
)
divide_no_nan = _two(
    "divide_no_nan",
    lambda x, y: _or_zero(_of(y) == 0, _of(x) / y),
    "Divides floats; the result is 0 where the divisor is 0.",
    ">>> float(tf.math.divide_no_nan(1.0, 0.0))\n0.0",
)
xdivy = _two(
    "xdivy",
    lambda x, y: _or_zero(_of(x) == 0, _of(x) / y),
    "Divides floats; the result is 0 where the dividend is 0.",
    ">>> float(tf.math.xdivy(0.0, 0.0))\n0.0",
)

reduce_sum = _reduction("reduce_sum", ops.reduce_sum, "Adds the items along axes.", ">>> int(tf.math.reduce_sum([1, 2]))\n3")
reduce_mean = _reduction("reduce_mean", ops.reduce_mean, "Computes the mean of floats along axes.", ">>> float(tf.math.reduce_mean([1.0, 2.0]))\n1.5")
reduce_max = _reduction("reduce_max", ops.reduce_max, "Returns the largest item along axes.", ">>> int(tf.math.reduce_max([1, 2]))\n2")
reduce_min = _reduction("reduce_min", ops.reduce_min, "Returns the smallest item along axes.", ">>> int(tf.math.reduce_min([1, 2]))\n1")
reduce_any = _reduction("reduce_any", ops.reduce_any, "Tells whether any item holds.", ">>> bool(tf.math.reduce_any([False, True]))\nTrue")
reduce_all = _reduction("reduce_all", ops.reduce_all, "Tells whether all items hold.", ">>> bool(tf.math.reduce_all([False, True]))\nFalse")


def _or_zero(is_zero: Tensor, otherwise: Tensor) -> Tensor:
    zero = otherwise._made(convert_to_tensor(0)._expr).cast(otherwise.dtype)
    return ops.where(is_zero, zero, otherwise)


def _variance(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return ops.reduce_mean(ops.square(_of(x) - ops.reduce_mean(x, axis, True)), axis, keepdims)


reduce_variance = _reduction(
    "reduce_variance", _variance, "Computes the variance of floats along axes.", ">>> float(tf.math.reduce_variance([1.0, 3.0]))\n1.0"
)
reduce_std = _reduction(
    "reduce_std",
    lambda x, axis, keepdims: ops.sqrt(_variance(x, axis, keepdims)),
    "Computes the standard deviation of floats along axes.",
    ">>> float(tf.math.reduce_std([1.0, 3.0]))\n1.0",
)
count_nonzero = traced(
    "tf.math.count_nonzero",
    "input, axis=None, keepdims=None, dtype='int64', name=None",
    lambda x, axis, keepdims, dtype: ops.reduce_sum((_of(x) != 0).cast(dtype), axis, bool(keepdims)),
    "Counts the items that are not 0.",
    ">>> int(tf.math.count_nonzero([0, 1, 2]))\n2",
    tensors=("input",),
)


def add_n(inputs: Sequence[Any], name: str | None = None) -> Any:
    """Adds several tensors.

    Args:
        inputs: A sequence of tensors of one dtype.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The sum.

    Raises:
        ValueError: There is no tensor.

    Example:
        >>> int(tf.math.add_n([1, 2, 3]))
        6
    """
    if not inputs:
        raise ValueError("add_n: expected at least one tensor, found none")
    first, *others = operands(*inputs)
    total = _of(first)
    for other in others:
        total = total + other
    return finished(total)


def argmax(input: Any, axis: int | None = None, output_type: Any = "int64", name: str | None = None) -> Any:
    """Returns the index of the largest item along an axis. Among equal items the first one wins.

    Args:
        input: A tensor whose length along the axis is known.
        axis: The axis; 0 by default.
        output_type: The dtype of the indices.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The indices.

    Raises:
        UnimplementedError: The length along the axis is not known.

    Example:
        >>> int(tf.math.argmax([3, 9, 2]))
        1
    """
    return finished(_first_place(input, 0 if axis is None else axis, output_type, ops.reduce_max, "argmax"))


def argmin(input: Any, axis: int | None = None, output_type: Any = "int64", name: str | None = None) -> Any:
    """Returns the index of the smallest item along an axis. Among equal items the first one wins.

    Args:
        input: A tensor whose length along the axis is known.
        axis: The axis; 0 by default.
        output_type: The dtype of the indices.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The indices.

    Raises:
        UnimplementedError: The length along the axis is not known.

    Example:
        >>> int(tf.math.argmin([3, 9, 2]))
        2
    """
    return finished(_first_place(input, 0 if axis is None else axis, output_type, ops.reduce_min, "argmin"))


def _first_place(input: Any, axis: int, output_type: Any, extreme: Callable[..., Tensor], name: str) -> Tensor:
    x = _of(input if is_symbolic(input) else constant_value(input))
    shape = x.shape
    if shape is None or not -len(shape) <= axis < len(shape):
        raise InvalidArgumentError(f"{name}: expected an axis of the tensor's shape {shape}, found {axis}")
    axis %= len(shape)
    length = shape[axis]
    if length is None:
        raise UnimplementedError(f"tf.math.{name}: the length of axis {axis} is known only when there is an element; use map_python")
    places = np.arange(length, dtype=np.int64).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    is_extreme = x == extreme(x, axis, True)
    return ops.reduce_min(ops.where(is_extreme, places, np.int64(length)), axis).cast(output_type)
