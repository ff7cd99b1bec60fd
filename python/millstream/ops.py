"""Functions of symbolic tensors, for use in the functions of datasets. The functions have the names of TensorFlow's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._dtypes import as_dtype
from ._millstream import Expr
from ._tensor import Tensor, convert_to_tensor, tensors_of

__all__ = [
    "abs",
    "cast",
    "ceil",
    "clip_by_value",
    "concat",
    "decode_raw",
    "exp",
    "expand_dims",
    "floor",
    "gather",
    "is_finite",
    "is_nan",
    "length",
    "log",
    "lookup",
    "maximum",
    "minimum",
    "one_hot",
    "pad",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "regex_full_match",
    "regex_replace",
    "reshape",
    "round",
    "saturate_cast",
    "shape",
    "sign",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "strings_length",
    "strings_lower",
    "strings_split",
    "strings_strip",
    "strings_substr",
    "strings_to_hash_bucket",
    "strings_to_number",
    "strings_upper",
    "tanh",
    "transpose",
    "where",
]


def _unary(name: str, meaning: str) -> Any:
    def function(x: Any) -> Tensor:
        return convert_to_tensor(x)._unary(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning}\n\nArgs:\n    x: A tensor.\n\nReturns:\n    The new tensor."
    return function


abs = _unary("abs", "Computes the absolute value.")
sign = _unary("sign", "Computes the sign: -1, 0 or 1.")
floor = _unary("floor", "Rounds down to an integer.")
ceil = _unary("ceil", "Rounds up to an integer.")
round = _unary("round", "Rounds to the nearest integer. Halves are rounded to the even integer.")
sqrt = _unary("sqrt", "Computes the square root of floats.")
exp = _unary("exp", "Computes e to the power of each item.")
log = _unary("log", "Computes the natural logarithm.")
tanh = _unary("tanh", "Computes the hyperbolic tangent.")
is_nan = _unary("is_nan", "Computes whether each item is NaN.")
is_finite = _unary("is_finite", "Computes whether each item is finite, which means neither infinite nor NaN.")
length = _unary("len", "Counts the items of the leading dimension.")
shape = _unary("shape", "Computes the sizes of all dimensions.")
strings_lower = _unary("lower", "Converts strings to lower case.")
strings_upper = _unary("upper", "Converts strings to upper case.")
strings_strip = _unary("strip", "Removes white space at the start and the end of strings.")


def square(x: Any) -> Tensor:
    """Multiplies a tensor by itself.

    Args:
        x: A tensor.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._binary("mul", tensor)


def cast(x: Any, dtype: Any) -> Tensor:
    """Converts a tensor to another dtype.

    Args:
        x: A tensor.
        dtype: The dtype of the result.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).cast(dtype)


def saturate_cast(x: Any, dtype: Any) -> Tensor:
    """Converts a tensor to another dtype. A value outside of the dtype's range becomes the nearest value in the range.

    Args:
        x: A tensor.
        dtype: The dtype of the result.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).cast(dtype, saturate=True)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Selects items of ``x`` where the condition is true, and items of ``y`` elsewhere.

    Args:
        condition: A tensor of booleans.
        x: A tensor.
        y: A tensor of the same dtype.

    Returns:
        The new tensor.
    """
    truth, (yes, no) = convert_to_tensor(condition), tensors_of(x, y)
    return truth._made(truth._expr.if_else(yes._expr, no._expr), yes, no)


def minimum(x: Any, y: Any) -> Tensor:
    """Returns the smaller item of ``x`` and ``y`` at each position.

    Args:
        x: A tensor.
        y: A tensor of the same dtype.
    """
    first, other = tensors_of(x, y)
    return first._binary("minimum", other)


def maximum(x: Any, y: Any) -> Tensor:
    """Returns the larger item of ``x`` and ``y`` at each position.

    Args:
        x: A tensor.
        y: A tensor of the same dtype.
    """
    first, other = tensors_of(x, y)
    return first._binary("maximum", other)


def clip_by_value(x: Any, low: Any, high: Any) -> Tensor:
    """Limits each item to a range.

    Args:
        x: A tensor.
        low: The smallest value of the range.
        high: The largest value of the range.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).clip(low, high)


def reduce_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Computes the sum of the items along axes.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).sum(axis, keepdims)


def reduce_mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Computes the mean of floats along axes.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).mean(axis, keepdims)


def reduce_max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the largest item along axes.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.
    """
    return convert_to_tensor(x).max(axis, keepdims)


def reduce_min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest item along axes.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.
    """
    return convert_to_tensor(x).min(axis, keepdims)


def reduce_any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether any item along axes is true.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.
    """
    return convert_to_tensor(x).any(axis, keepdims)


def reduce_all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether all items along axes are true.

    Args:
        x: A tensor.
        axis: The axes to reduce; all axes by default.
        keepdims: Whether the result keeps the reduced axes, with a size of 1.
    """
    return convert_to_tensor(x).all(axis, keepdims)


def concat(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Joins tensors along an axis.

    Args:
        values: Tensors whose shapes differ only in the size of this axis.
        axis: The axis along which the tensors are joined.

    Returns:
        The new tensor.
    """
    tensors = tensors_of(*values)
    return tensors[0]._made(Expr.concat([tensor._expr for tensor in tensors], axis), *tensors)


def stack(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Stacks tensors along a new axis.

    Args:
        values: Tensors of the same shape.
        axis: The position of the new axis.

    Returns:
        The new tensor.
    """
    tensors = tensors_of(*values)
    return tensors[0]._made(Expr.stack([tensor._expr for tensor in tensors], axis), *tensors)


def gather(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Selects items by their indices along an axis.

    Args:
        x: A tensor.
        indices: A tensor of integers.
        axis: The axis along which items are selected.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).gather(indices, axis)


def reshape(x: Any, shape: Sequence[int]) -> Tensor:
    """Arranges the items in another shape.

    Args:
        x: A tensor.
        shape: The new sizes. One size may be -1, and is then computed from the number of items.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).reshape(list(shape))


def expand_dims(x: Any, axis: int) -> Tensor:
    """Inserts an axis of size 1.

    Args:
        x: A tensor.
        axis: The position of the new axis.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.expand_dims(axis))


def squeeze(x: Any, axis: Sequence[int] | int | None = None) -> Tensor:
    """Removes axes of size 1.

    Args:
        x: A tensor.
        axis: The axes to remove; all axes of size 1 by default.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return tensor._made(tensor._expr.squeeze(axes))


def transpose(x: Any, perm: Sequence[int] | None = None) -> Tensor:
    """Reorders the axes of a tensor.

    Args:
        x: A tensor.
        perm: The axes in their new order; the reversed order by default.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).transpose(list(perm or []))


def pad(x: Any, paddings: Sequence[tuple[int, int]], constant_values: Any = 0) -> Tensor:
    """Adds constant items before and after each axis.

    Args:
        x: A tensor.
        paddings: For each axis the numbers of items to add before and after the existing items.
        constant_values: The value of the added items.

    Returns:
        The new tensor.
    """
    tensor, value = convert_to_tensor(x), convert_to_tensor(constant_values)
    pads = [(before, behind) for before, behind in paddings]
    return tensor._made(tensor._expr.pad(pads, value._expr), value)


def one_hot(indices: Any, depth: int, dtype: Any = "float32") -> Tensor:
    """Returns vectors that are 1 at the position of their index, and 0 elsewhere.

    Args:
        indices: A tensor of integers.
        depth: The length of the vectors.
        dtype: The dtype of the result.
    """
    tensor = convert_to_tensor(indices)
    return tensor._made(tensor._expr.one_hot(depth, as_dtype(dtype).code))


def decode_raw(x: Any, dtype: Any, *, little_endian: bool = True) -> Tensor:
    """Reinterprets byte strings as vectors of numbers.

    Args:
        x: A tensor of byte strings, all of the same length.
        dtype: The dtype of the resulting numbers.
        little_endian: Whether the bytes are little-endian.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.decode_raw(as_dtype(dtype).code, not little_endian))


def strings_to_number(x: Any, dtype: Any = "float32") -> Tensor:
    """Parses strings as decimal numbers.

    Args:
        x: A tensor of strings.
        dtype: The dtype of the resulting numbers.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.to_number(as_dtype(dtype).code))


def strings_length(x: Any, unit: str = "BYTE") -> Tensor:
    """Returns the length of each string.

    Args:
        x: A tensor of strings.
        unit: The unit of lengths and positions: ``BYTE`` or ``UTF8_CHAR``.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.text_len(unit))


def strings_substr(x: Any, pos: int, len: int, unit: str = "BYTE") -> Tensor:
    """Returns a substring of each string.

    Args:
        x: A tensor of strings.
        pos: The start of the substring; a negative position counts from the end.
        len: The length of the substring.
        unit: The unit of lengths and positions: ``BYTE`` or ``UTF8_CHAR``.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.substr(pos, len, unit))


def strings_split(x: Any, sep: str | None = None) -> Tensor:
    """Splits a string at a separator.

    Args:
        x: A scalar string.
        sep: The separator; white space by default.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).split(sep)


def strings_to_hash_bucket(x: Any, num_buckets: int) -> Tensor:
    """Returns the number of a hash bucket for each string. The number depends only on the string.

    Args:
        x: A tensor of strings.
        num_buckets: The number of buckets.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.hash_bucket(num_buckets))


def regex_full_match(x: Any, pattern: str) -> Tensor:
    """Returns whether each whole string matches a pattern.

    Args:
        x: A tensor of strings.
        pattern: A regular expression.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("full_match", pattern, None))


def regex_replace(x: Any, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    """Replaces matches of a pattern in each string.

    Args:
        x: A tensor of strings.
        pattern: A regular expression.
        rewrite: The replacement of a match.
        replace_global: Whether to replace all matches, instead of only the first match.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("replace" if replace_global else "replace_first", pattern, rewrite))


def lookup(x: Any, words: Sequence[str | bytes], default: int | None = None) -> Tensor:
    """Returns the index of each string in a list of words.

    Args:
        x: A tensor of strings.
        words: The list of words.
        default: The index for strings that are not in the list. Without a default an unknown string is an error.
    """
    tensor = convert_to_tensor(x)
    known = [word.encode() if isinstance(word, str) else word for word in words]
    return tensor._made(tensor._expr.lookup(known, default))
