"""Functions of the shapes and parts of tensors, named as in TensorFlow. Owns their signatures; refuses to know how they are executed."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._dtypes import as_dtype
from .._tensor import Tensor, convert_to_tensor
from ..errors import InvalidArgumentError, UnimplementedError
from ._functions import checked, constant_value, finished, is_symbolic, operands, traced

__all__ = [
    "broadcast_to", "cast", "clip_by_value", "concat", "expand_dims", "gather", "one_hot", "pad", "reshape", "reverse", "saturate_cast", "slice",
    "split", "squeeze", "stack", "tile", "transpose", "unstack",
]  # fmt: skip


def _one(name: str, signature: str, compute: Callable[..., Any], meaning: str, example: str, operand: str, **parameters: str) -> Any:
    return traced(f"tf.{name}", signature, compute, meaning, example, tensors=(operand,), parameters=parameters)


cast = _one("cast", "x, dtype, name=None", lambda x, dtype: _cast(x, dtype), "Converts to another dtype.", ">>> int(tf.cast(1.8, tf.int32))\n1", "x")
saturate_cast = _one(
    "saturate_cast",
    "value, dtype, name=None",
    ops.saturate_cast,
    "Converts to another dtype; a value that does not fit becomes the nearest that does.",
    ">>> int(tf.saturate_cast(300, tf.uint8))\n255",
    "value",
    value="A tensor.",
)
expand_dims = _one(
    "expand_dims",
    "input, axis, name=None",
    ops.expand_dims,
    "Inserts an axis of one item.",
    ">>> tf.expand_dims([1, 2], 0).tolist()\n[[1, 2]]",
    "input",
    axis="The place of the new axis.",
)
squeeze = _one(
    "squeeze",
    "input, axis=None, name=None",
    ops.squeeze,
    "Removes axes of one item.",
    ">>> tf.squeeze([[1, 2]]).tolist()\n[1, 2]",
    "input",
    axis="The axes to remove; all of one item by default.",
)
transpose = _one(
    "transpose",
    "a, perm=None, conjugate=False, name='transpose'",
    lambda a, perm, _: ops.transpose(a, perm),
    "Reorders the axes.",
    ">>> tf.transpose([[1, 2], [3, 4]]).tolist()\n[[1, 3], [2, 4]]",
    "a",
    a="A tensor.",
    perm="The axes in their new order; reversed by default.",
    conjugate="Accepted as in TensorFlow; has no effect.",
)
reshape = _one(
    "reshape",
    "tensor, shape, name=None",
    ops.reshape,
    "Arranges the items in another shape.",
    ">>> tf.reshape([1, 2, 3, 4], [2, -1]).tolist()\n[[1, 2], [3, 4]]",
    "tensor",
    shape="The sizes; one of them may be -1.",
)
pad = _one(
    "pad",
    "tensor, paddings, mode='CONSTANT', constant_values=0, name=None",
    lambda tensor, paddings, mode, value: _padded(tensor, paddings, mode, value),
    "Adds constant items before and after each axis.",
    ">>> tf.pad([1, 2], [[1, 0]]).tolist()\n[0, 1, 2]",
    "tensor",
    paddings="Numbers of items before and after, for each axis.",
    mode="Must be ``CONSTANT``.",
    constant_values="The item to add.",
)
one_hot = _one(
    "one_hot",
    "indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None",
    lambda indices, depth, on, off, axis, dtype: _one_hot(indices, depth, on, off, axis, dtype),
    "Returns vectors that have one value at their index and another elsewhere.",
    ">>> tf.one_hot(1, 3).tolist()\n[0.0, 1.0, 0.0]",
    "indices",
    indices="Integers.",
    depth="The length of the vectors.",
    on_value="The value at the index; 1 by default.",
    off_value="The value elsewhere; 0 by default.",
    axis="Must be -1 or ``None``.",
)
clip_by_value = _one(
    "clip_by_value",
    "t, clip_value_min, clip_value_max, name=None",
    ops.clip_by_value,
    "Limits items to a range.",
    ">>> int(tf.clip_by_value(7, 0, 5))\n5",
    "t",
    t="A tensor.",
)
gather = traced(
    "tf.gather",
    "params, indices, validate_indices=None, axis=None, batch_dims=0, name=None",
    lambda params, indices, _, axis, batch_dims: _gathered(params, indices, axis, batch_dims),
    "Selects items by their indices along an axis.",
    ">>> tf.gather([5, 6, 7], [2, 0]).tolist()\n[7, 5]",
    tensors=("params",),
    parameters={
        "params": "A tensor.",
        "indices": "Integers.",
        "validate_indices": "Accepted as in TensorFlow; has no effect.",
        "axis": "The axis; 0 by default.",
        "batch_dims": "Must be 0.",
    },
)
broadcast_to = _one(
    "broadcast_to",
    "input, shape, name=None",
    lambda x, shape: convert_to_tensor(x)._made(convert_to_tensor(x)._expr.broadcast_to([int(size) for size in shape])),
    "Repeats a tensor until it has a shape.",
    ">>> tf.broadcast_to([1, 2], [2, 2]).tolist()\n[[1, 2], [1, 2]]",
    "input",
    shape="The sizes of the dimensions.",
)
reverse = _one(
    "reverse",
    "tensor, axis, name=None",
    lambda tensor, axis: _reversed(tensor, [axis] if isinstance(axis, int) else axis),
    "Reverses the items along axes.",
    ">>> tf.reverse([1, 2, 3], [0]).tolist()\n[3, 2, 1]",
    "tensor",
    axis="The axes.",
)
slice = _one(
    "slice",
    "input_, begin, size, name=None",
    lambda x, begin, size: _part(x, begin, size),
    "Returns a part of a tensor.",
    ">>> tf.slice([1, 2, 3, 4], [1], [2]).tolist()\n[2, 3]",
    "input_",
    input_="A tensor.",
    begin="The first index along each axis.",
    size="The number of items along each axis; -1 for all that follow.",
)
tile = _one(
    "tile",
    "input, multiples, name=None",
    lambda x, multiples: _tiled(x, multiples),
    "Repeats a tensor along its axes.",
    ">>> tf.tile([1, 2], [2]).tolist()\n[1, 2, 1, 2]",
    "input",
    multiples="How often, for each axis.",
)


def _cast(x: Any, dtype: Any) -> Tensor:
    found, wanted = convert_to_tensor(x).dtype, as_dtype(dtype)
    if (found.code in _TEXTS) != (wanted.code in _TEXTS):
        hint = "tf.strings.to_number" if found.code in _TEXTS else "tf.strings.as_string"
        raise UnimplementedError(f"tf.cast: Cast {found.name} to {wanted.name} is not supported: use {hint}")
    return ops.cast(x, wanted)


def _padded(tensor: Any, paddings: Any, mode: str, value: Any) -> Tensor:
    if mode.upper() != "CONSTANT":
        raise UnimplementedError(f"tf.pad: expected mode='CONSTANT', found {mode!r}: use Dataset.map_python")
    if is_symbolic(paddings):
        raise UnimplementedError("tf.pad: expected numbers as paddings, found a tensor of an element: use Dataset.map_python")
    return ops.pad(tensor, [(int(before), int(after)) for before, after in paddings], value)


def _one_hot(indices: Any, depth: int, on: Any, off: Any, axis: Any, dtype: Any) -> Tensor:
    if axis not in (None, -1):
        raise UnimplementedError(f"tf.one_hot: expected axis=-1, found {axis}: use tf.transpose")
    known = on if on is not None else off
    kind = as_dtype(dtype if dtype is not None else "float32" if known is None else constant_value(known).dtype)
    if on is None and off is None:
        return ops.one_hot(indices, int(depth), kind)
    is_on = ops.one_hot(indices, int(depth), "bool")
    return ops.where(is_on, _item(1 if on is None else on, kind), _item(0 if off is None else off, kind))


def _item(value: Any, kind: Any) -> Any:
    return ops.cast(value, kind) if is_symbolic(value) else constant_value(value).astype(kind.as_numpy_dtype)


def _gathered(params: Any, indices: Any, axis: Any, batch_dims: int) -> Tensor:
    if batch_dims:
        raise UnimplementedError(f"tf.gather: expected batch_dims=0, found {batch_dims}: use Dataset.map_python")
    at = indices if is_symbolic(indices) else constant_value(indices)
    if is_symbolic(at):
        # A negative index counts from the end here, as in Python, and is an error in TensorFlow.
        at = checked(convert_to_tensor(at), ops.reduce_all(convert_to_tensor(at) >= 0), "tf.gather: an index below 0")
    elif np.any(np.asarray(at) < 0):
        raise InvalidArgumentError(f"tf.gather: expected indices of 0 or more, found {np.min(at)}: count from the start")
    return ops.gather(params, at, 0 if axis is None else int(axis))


def _reversed(tensor: Any, axes: Sequence[int]) -> Tensor:
    x = convert_to_tensor(tensor)
    rank = len(x.shape or ())
    places = [_ALL] * rank
    for axis in axes:
        places[axis] = _BACKWARDS
    return x[tuple(places)]


def _part(x: Any, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    if is_symbolic(begin, size):
        raise UnimplementedError("tf.slice: expected numbers as begin and size, found a tensor of an element: use tf.gather, or Dataset.map_python")
    spans = [_span(int(first), None if count < 0 else int(first) + int(count)) for first, count in zip(begin, size, strict=True)]
    return convert_to_tensor(x)[tuple(spans)]


def _tiled(x: Any, multiples: Sequence[int]) -> Tensor:
    made = convert_to_tensor(x)
    for axis, count in enumerate(multiples):
        made = ops.concat([made] * int(count), axis) if count > 1 else made
    return made


_TEXTS = ("string", "bytes")
_span = builtins.slice
_ALL, _BACKWARDS = _span(None), _span(None, None, -1)


def concat(values: Sequence[Any], axis: int, name: str = "concat") -> Any:
    """Joins tensors along an axis.

    Args:
        values: Tensors that differ in this axis alone.
        axis: The axis.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor.

    Example:
        >>> tf.concat([[1, 2], [3]], 0).tolist()
        [1, 2, 3]
    """
    return finished(ops.concat(operands(*values), int(axis)))


def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Any:
    """Stacks tensors along a new axis.

    Args:
        values: Tensors of one shape.
        axis: The place of the new axis.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor.

    Example:
        >>> tf.stack([[1, 2], [3, 4]], axis=1).tolist()
        [[1, 3], [2, 4]]
    """
    return finished(ops.stack(operands(*values), int(axis)))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Any]:
    """Takes a tensor apart along an axis.

    Args:
        value: The tensor.
        num: The length along the axis, where it is not known.
        axis: The axis.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The parts.

    Raises:
        ValueError: The length is not known.

    Example:
        >>> [int(part) for part in tf.unstack([1, 2])]
        [1, 2]
    """
    (given,) = operands(value)
    x = convert_to_tensor(given)
    length = num if num is not None else None if x.shape is None else x.shape[axis]
    if length is None:
        raise ValueError(f"unstack: expected a known length along axis {axis}, found shape {x.shape}: give num")
    places = [_ALL] * (axis % max(len(x.shape or ()), 1))
    return [finished(x[(*places, index)]) for index in range(length)]


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Cuts a tensor into parts along an axis.

    Args:
        value: The tensor.
        num_or_size_splits: The number of equal parts, for a known length; or the length of each part.
        axis: The axis.
        num: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The parts.

    Raises:
        ValueError: The length is not known, or does not divide.

    Example:
        >>> [part.tolist() for part in tf.split([1, 2, 3, 4], 2)]
        [[1, 2], [3, 4]]
    """
    (given,) = operands(value)
    x = convert_to_tensor(given)
    if isinstance(num_or_size_splits, int):
        length = None if x.shape is None else x.shape[axis]
        if length is None or length % num_or_size_splits:
            raise ValueError(f"split: expected a length along axis {axis} that {num_or_size_splits} divides, found shape {x.shape}")
        sizes = [length // num_or_size_splits] * num_or_size_splits
    else:
        sizes = [int(size) for size in num_or_size_splits]
    places = [_ALL] * (axis % max(len(x.shape or ()), 1))
    parts, start = [], 0
    for size in sizes:
        parts.append(finished(x[(*places, _span(start, start + size))]))
        start += size
    return parts
