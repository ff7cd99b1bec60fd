"""Functions of tensors, for functions of datasets: named as in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._millstream import Expr
from ._dtypes import as_dtype
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
    function.__doc__ = meaning
    return function


abs = _unary("abs", "The absolute value.")
sign = _unary("sign", "-1, 0 or 1.")
floor = _unary("floor", "Rounded down.")
ceil = _unary("ceil", "Rounded up.")
round = _unary("round", "Rounded to the nearest, of two to the even one.")
sqrt = _unary("sqrt", "The square root, of floats.")
exp = _unary("exp", "e to the power.")
log = _unary("log", "The natural logarithm.")
tanh = _unary("tanh", "The hyperbolic tangent.")
is_nan = _unary("is_nan", "Whether items are NaN.")
is_finite = _unary("is_finite", "Whether items are neither infinite nor NaN.")
length = _unary("len", "The size of the leading dimension.")
shape = _unary("shape", "The sizes of all dimensions.")
strings_lower = _unary("lower", "In small letters.")
strings_upper = _unary("upper", "In capitals.")
strings_strip = _unary("strip", "Without white space at its ends.")


def square(x: Any) -> Tensor:
    """The product with itself."""
    tensor = convert_to_tensor(x)
    return tensor._binary("mul", tensor)


def cast(x: Any, dtype: Any) -> Tensor:
    """Of another dtype."""
    return convert_to_tensor(x).cast(dtype)


def saturate_cast(x: Any, dtype: Any) -> Tensor:
    """Of another dtype; what does not fit becomes the nearest that does."""
    return convert_to_tensor(x).cast(dtype, saturate=True)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Items of ``x`` where the condition holds, else of ``y``."""
    truth, yes, no = convert_to_tensor(condition), convert_to_tensor(x), convert_to_tensor(y)
    return truth._made(truth._expr.if_else(yes._expr, no._expr), yes, no)


def minimum(x: Any, y: Any) -> Tensor:
    """The smaller of both, item by item."""
    return convert_to_tensor(x)._binary("minimum", y)


def maximum(x: Any, y: Any) -> Tensor:
    """The larger of both, item by item."""
    return convert_to_tensor(x)._binary("maximum", y)


def clip_by_value(x: Any, low: Any, high: Any) -> Tensor:
    """At least ``low`` and at most ``high``."""
    return convert_to_tensor(x).clip(low, high)


def reduce_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along axes, or of all items."""
    return convert_to_tensor(x).sum(axis, keepdims)


def reduce_mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of floats."""
    return convert_to_tensor(x).mean(axis, keepdims)


def reduce_max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest item."""
    return convert_to_tensor(x).max(axis, keepdims)


def reduce_min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest item."""
    return convert_to_tensor(x).min(axis, keepdims)


def reduce_any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any item holds."""
    return convert_to_tensor(x).any(axis, keepdims)


def reduce_all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all items hold."""
    return convert_to_tensor(x).all(axis, keepdims)


def concat(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors one behind the other along an axis."""
    tensors = [convert_to_tensor(value) for value in values]
    return tensors[0]._made(Expr.concat([tensor._expr for tensor in tensors], axis), *tensors)


def stack(values: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors side by side along a new axis."""
    tensors = [convert_to_tensor(value) for value in values]
    return tensors[0]._made(Expr.stack([tensor._expr for tensor in tensors], axis), *tensors)


def gather(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """The items at places along an axis."""
    return convert_to_tensor(x).gather(indices, axis)


def reshape(x: Any, shape: Sequence[int]) -> Tensor:
    """The same items in another shape, of which one size may be -1."""
    return convert_to_tensor(x).reshape(list(shape))


def expand_dims(x: Any, axis: int) -> Tensor:
    """With a new axis of one item."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.expand_dims(axis))


def squeeze(x: Any, axis: Sequence[int] | int | None = None) -> Tensor:
    """Without axes of one item."""
    tensor = convert_to_tensor(x)
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return tensor._made(tensor._expr.squeeze(axes))


def transpose(x: Any, perm: Sequence[int] | None = None) -> Tensor:
    """The axes in this order, or in the reverse one."""
    return convert_to_tensor(x).transpose(list(perm or []))


def pad(x: Any, paddings: Sequence[tuple[int, int]], constant_values: Any = 0) -> Tensor:
    """So many items before and behind each axis."""
    tensor, value = convert_to_tensor(x), convert_to_tensor(constant_values)
    pads = [(before, behind) for before, behind in paddings]
    return tensor._made(tensor._expr.pad(pads, value._expr), value)


def one_hot(indices: Any, depth: int, dtype: Any = "float32") -> Tensor:
    """Vectors that are 1 at their index and else 0."""
    tensor = convert_to_tensor(indices)
    return tensor._made(tensor._expr.one_hot(depth, as_dtype(dtype).code))


def decode_raw(x: Any, dtype: Any, *, little_endian: bool = True) -> Tensor:
    """Byte strings as vectors of numbers."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.decode_raw(as_dtype(dtype).code, not little_endian))


def strings_to_number(x: Any, dtype: Any = "float32") -> Tensor:
    """Decimal text as numbers."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.to_number(as_dtype(dtype).code))


def strings_length(x: Any, unit: str = "BYTE") -> Tensor:
    """How long text is, in ``BYTE`` or ``UTF8_CHAR``."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.text_len(unit))


def strings_substr(x: Any, pos: int, len: int, unit: str = "BYTE") -> Tensor:
    """A part of text."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.substr(pos, len, unit))


def strings_split(x: Any, sep: str | None = None) -> Tensor:
    """The parts of a text, between separators or white space."""
    return convert_to_tensor(x).split(sep)


def strings_to_hash_bucket(x: Any, num_buckets: int) -> Tensor:
    """A number of a bucket, the same for the same text everywhere."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.hash_bucket(num_buckets))


def regex_full_match(x: Any, pattern: str) -> Tensor:
    """Whether all of a text matches."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("full_match", pattern, None))


def regex_replace(x: Any, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    """What matches replaced."""
    tensor = convert_to_tensor(x)
    return tensor._made(tensor._expr.regex("replace" if replace_global else "replace_first", pattern, rewrite))


def lookup(x: Any, words: Sequence[str | bytes], default: int | None = None) -> Tensor:
    """The places of words in a list; ``default`` for others, without which they are errors."""
    tensor = convert_to_tensor(x)
    known = [word.encode() if isinstance(word, str) else word for word in words]
    return tensor._made(tensor._expr.lookup(known, default))
