"""Functions of tensors, for functions of datasets: named as in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._dtypes import as_dtype
from ._millstream import Expr
from ._tensor import Tensor, convert_to_tensor

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
floor = _unary("floor", "Rounds down.")
ceil = _unary("ceil", "Rounds up.")
round = _unary("round", "Rounds to the nearest integer, and halves to the even one.")
sqrt = _unary("sqrt", "Computes the square root of floats.")
exp = _unary("exp", "Raises e to the power.")
log = _unary("log", "Computes the natural logarithm.")
tanh = _unary("tanh", "Computes the hyperbolic tangent.")
is_nan = _unary("is_nan", "Tells which items are NaN.")
is_finite = _unary("is_finite", "Tells which items are neither infinite nor NaN.")
length = _unary("len", "Counts the items of the leading dimension.")
shape = _unary("shape", "Lists the sizes of all dimensions.")
strings_lower = _unary("lower", "Converts text to small letters.")
strings_upper = _unary("upper", "Converts text to capitals.")
strings_strip = _unary("strip", "Removes white space at the ends of text.")


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
    """Converts to another dtype.

    Args:
        x: A tensor.
        dtype: The dtype of the result.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).cast(dtype)


def saturate_cast(x: Any, dtype: Any) -> Tensor:
    """Converts to another dtype; a value that does not fit becomes the nearest that does.

    Args:
        x: A tensor.
        dtype: The dtype of the result.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).cast(dtype, saturate=True)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Selects items of ``x`` where the condition holds, else of ``y``.

    Args:
        condition: Booleans.
        x: A tensor.
        y: A tensor of the same dtype.

    Returns:
        The new tensor.
    """
    truth, yes, no = convert_to_tensor(condition), convert_to_tensor(x), convert_to_tensor(y)
    return truth._made(truth._expr.if_else(yes._expr, no._expr), yes, no)


def minimum(x: Any, y: Any) -> Tensor:
    """Returns the smaller of both, item by item.

    Args:
        x: A tensor.
        y: A tensor of the same dtype.
    """
    return convert_to_tensor(x)._binary("minimum", y)


def maximum(x: Any, y: Any) -> Tensor:
    """Returns the larger of both, item by item.

    Args:
        x: A tensor.
        y: A tensor of the same dtype.
    """
    return convert_to_tensor(x)._binary("maximum", y)


def clip_by_value(x: Any, low: Any, high: Any) -> Tensor:
    """Limits items to a range.

    Args:
        x: A tensor.
        low: The least value.
        high: The largest value.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).clip(low, high)


def reduce_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Adds the items along axes.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).sum(axis, keepdims)


def reduce_mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Computes the mean of floats along axes.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).mean(axis, keepdims)


def reduce_max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the largest item along axes.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.
    """
    return convert_to_tensor(x).max(axis, keepdims)


def reduce_min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest item along axes.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.
    """
    return convert_to_tensor(x).min(axis, keepdims)


def reduce_any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether any item along axes is true.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.
    """
    return convert_to_tensor(x).any(axis, keepdims)


def reduce_all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether all items along axes are true.

    Args:
        x: A tensor.
        axis: The axes; all by default.
        keepdims: Whether the axes stay, with one item.
    """
    return convert_to_tensor(x).all(axis, keepdims)


def concat(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Joins tensors along an axis.

    Args:
        values: Tensors that differ in this axis alone.
        axis: The axis.

    Returns:
        The new tensor.
    """
    tensors = [convert_to_tensor(value) for value in values]
    return tensors[0]._made(Expr.concat([tensor._expr for tensor in tensors], axis), *tensors)


def stack(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Stacks tensors along a new axis.

    Args:
        values: Tensors of one shape.
        axis: The place of the new axis.

    Returns:
        The new tensor.
    """
    tensors = [convert_to_tensor(value) for value in values]
    return tensors[0]._made(Expr.stack([tensor._expr for tensor in tensors], axis), *tensors)


def gather(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Selects items by their indices along an axis.

    Args:
        x: A tensor.
        indices: Integers.
        axis: The axis.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).gather(indices, axis)


def reshape(x: Any, shape: Sequence[int]) -> Tensor:
    """Arranges the items in another shape.

    Args:
        x: A tensor.
        shape: The sizes; one of them may be -1.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).reshape(list(shape))


def expand_dims(x: Any, axis: int) -> Tensor:
    """Inserts an axis of one item.

    Args:
        x: A tensor.
        axis: The place of the new axis.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.expand_dims(axis))


def squeeze(x: Any, axis: Sequence[int] | int | None = None) -> Tensor:
    """Removes axes of one item.

    Args:
        x: A tensor.
        axis: The axes to remove; all of one item by default.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return tensor._made(tensor._expr.squeeze(axes))


def transpose(x: Any, perm: Sequence[int] | None = None) -> Tensor:
    """Reorders the axes.

    Args:
        x: A tensor.
        perm: The axes in their new order; reversed by default.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).transpose(list(perm or []))


def pad(x: Any, paddings: Sequence[tuple[int, int]], constant_values: Any = 0) -> Tensor:
    """Adds constant items before and after each axis.

    Args:
        x: A tensor.
        paddings: Numbers of items before and after, for each axis.
        constant_values: The item to add.

    Returns:
        The new tensor.
    """
    tensor, value = convert_to_tensor(x), convert_to_tensor(constant_values)
    pads = [(before, behind) for before, behind in paddings]
    return tensor._made(tensor._expr.pad(pads, value._expr), value)


def one_hot(indices: Any, depth: int, dtype: Any = "float32") -> Tensor:
    """Returns vectors that are 1 at their index and 0 elsewhere.

    Args:
        indices: Integers.
        depth: The length of the vectors.
        dtype: The dtype of the result.
    """
    tensor = convert_to_tensor(indices)
    return tensor._made(tensor._expr.one_hot(depth, as_dtype(dtype).code))


def decode_raw(x: Any, dtype: Any, *, little_endian: bool = True) -> Tensor:
    """Reinterprets byte strings as vectors of numbers.

    Args:
        x: Byte strings of one length.
        dtype: The dtype of the numbers.
        little_endian: Whether the bytes are little-endian.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.decode_raw(as_dtype(dtype).code, not little_endian))


def strings_to_number(x: Any, dtype: Any = "float32") -> Tensor:
    """Parses decimal texts.

    Args:
        x: Texts.
        dtype: The dtype of the numbers.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.to_number(as_dtype(dtype).code))


def strings_length(x: Any, unit: str = "BYTE") -> Tensor:
    """Returns the lengths of texts.

    Args:
        x: Texts.
        unit: ``BYTE`` or ``UTF8_CHAR``.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.text_len(unit))


def strings_substr(x: Any, pos: int, len: int, unit: str = "BYTE") -> Tensor:
    """Returns a part of each text.

    Args:
        x: Texts.
        pos: The start, from the end if negative.
        len: The length.
        unit: ``BYTE`` or ``UTF8_CHAR``.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.substr(pos, len, unit))


def strings_split(x: Any, sep: str | None = None) -> Tensor:
    """Splits a text.

    Args:
        x: A text.
        sep: The separator; white space by default.

    Returns:
        The new tensor.
    """
    return convert_to_tensor(x).split(sep)


def strings_to_hash_bucket(x: Any, num_buckets: int) -> Tensor:
    """Returns the number of a bucket, which depends on the text alone.

    Args:
        x: Texts.
        num_buckets: The number of buckets.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.hash_bucket(num_buckets))


def regex_full_match(x: Any, pattern: str) -> Tensor:
    """Returns whether a whole text matches a pattern.

    Args:
        x: Texts.
        pattern: A regular expression.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("full_match", pattern, None))


def regex_replace(x: Any, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    """Replaces the matches of a pattern.

    Args:
        x: Texts.
        pattern: A regular expression.
        rewrite: The replacement.
        replace_global: Whether all matches are replaced, or the first.

    Returns:
        The new tensor.
    """
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("replace" if replace_global else "replace_first", pattern, rewrite))


def lookup(x: Any, words: Sequence[str | bytes], default: int | None = None) -> Tensor:
    """Returns the index of each text in a list.

    Args:
        x: Texts.
        words: The list.
        default: The index of other texts; without it they are errors.
    """
    tensor = convert_to_tensor(x)
    known = [word.encode() if isinstance(word, str) else word for word in words]
    return tensor._made(tensor._expr.lookup(known, default))
