"""Constants and the shapes of tensors, named as in TensorFlow. Owns the dtypes of constants; refuses to know about computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from .._dtypes import as_dtype, int32
from .._spec import TensorShape
from .._structure import leaf
from .._tensor import Tensor, convert_to_tensor
from ..errors import InvalidArgumentError, UnimplementedError
from ._functions import constant_value, finished, is_symbolic

__all__ = [
    "constant", "convert_to_tensor", "ensure_shape", "eye", "fill", "identity", "linspace", "ones", "ones_like", "range", "rank", "shape",
    "size", "tensor_of", "zeros", "zeros_like",
]  # fmt: skip


def constant(value: Any, dtype: Any = None, shape: Sequence[int] | None = None, name: str | None = None) -> Any:
    """Makes an array; Python's own numbers become 32 bits wide.

    Args:
        value: A value, or nested sequences of them.
        dtype: The dtype of the array.
        shape: The shape of the array. One value fills all of it.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Example:
        >>> tf.constant([1, 2])
        array([1, 2], dtype=int32)
    """
    code, dims, items = leaf(value)
    if isinstance(items, list):
        made = np.array(np.asarray(value), object)
    else:
        made = np.frombuffer(items, as_dtype(code).as_numpy_dtype).reshape(dims)
    if dtype is not None and as_dtype(dtype).code not in ("string", "bytes"):
        made = made.astype(as_dtype(dtype).as_numpy_dtype)
    if shape is not None:
        made = np.full(tuple(shape), made.reshape(())[()], made.dtype) if made.size == 1 else made.reshape(tuple(shape))
    return made[()] if made.shape == () else made


def tensor_of(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """Converts a value as ``tf.convert_to_tensor`` does.

    Args:
        value: A value, nested sequences of them, or a tensor of a function.
        dtype: The dtype of the result. A tensor of another dtype is an error.
        dtype_hint: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        An array, or a tensor of the function.

    Raises:
        ValueError: A tensor has another dtype.

    Example:
        >>> tf.convert_to_tensor([1.0, 2.0])
        array([1., 2.], dtype=float32)
    """
    if not is_symbolic(value):
        return constant(value, dtype)
    tensor = convert_to_tensor(value)
    if dtype is not None and tensor.dtype != as_dtype(dtype):
        raise ValueError(f"convert_to_tensor: expected dtype {as_dtype(dtype)!r}, found a tensor of {tensor.dtype!r}: use tf.cast")
    return tensor


def _sizes(shape: Any, function: str) -> tuple[int, ...]:
    if is_symbolic(shape):
        raise UnimplementedError(
            f"tf.{function}: the shape is computed from an element, and native functions make no shapes of values: use Dataset.map_python"
        )
    return tuple(int(size) for size in np.asarray(shape, np.int64).reshape(-1))


def _full(shape: tuple[int, ...], item: Any, dtype: Any) -> Any:
    kind = as_dtype(dtype)
    if kind.code in ("string", "bytes"):
        text = "" if kind.code == "string" else b""
        return np.full(shape, text, object) if shape else text
    made = np.full(shape, item, kind.as_numpy_dtype)
    return made if shape else made[()]


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None, layout: Any = None) -> Any:
    """Makes an array of zeros, or of empty texts.

    Args:
        shape: The sizes of the dimensions, which are numbers and no tensors of a function.
        dtype: The dtype of the array.
        name: Accepted as in TensorFlow; has no effect.
        layout: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: The shape is computed from an element.

    Example:
        >>> tf.zeros([2])
        array([0., 0.], dtype=float32)
    """
    return _full(_sizes(shape, "zeros"), 0, dtype)


def ones(shape: Any, dtype: Any = "float32", name: str | None = None, layout: Any = None) -> Any:
    """Makes an array of ones.

    Args:
        shape: The sizes of the dimensions, which are numbers and no tensors of a function.
        dtype: The dtype of the array.
        name: Accepted as in TensorFlow; has no effect.
        layout: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: The shape is computed from an element.

    Example:
        >>> tf.ones([2], tf.int32)
        array([1, 1], dtype=int32)
    """
    return _full(_sizes(shape, "ones"), 1, dtype)


def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Any:
    """Fills a shape with one value.

    Args:
        dims: The sizes of the dimensions, which are numbers and no tensors of a function.
        value: The value, which may be a tensor of a function.
        name: Accepted as in TensorFlow; has no effect.
        layout: Accepted as in TensorFlow; has no effect.

    Returns:
        The array, or the tensor of the function.

    Raises:
        UnimplementedError: The shape is computed from an element.

    Example:
        >>> [x.tolist() for x in tf.data.Dataset.range(2).map(lambda x: tf.fill([2], x))]
        [[0, 0], [1, 1]]
    """
    sizes = _sizes(dims, "fill")
    if not is_symbolic(value):
        item = np.asarray(constant_value(value))
        return np.full(sizes, item[()], item.dtype)
    tensor = convert_to_tensor(value)
    return tensor._made(tensor._expr.broadcast_to(list(sizes)))


def _like(input: Any, dtype: Any, item: int, function: str) -> Any:
    if not is_symbolic(input):
        array = np.asarray(constant_value(input))
        return _full(array.shape, item, array.dtype if dtype is None else dtype)
    tensor = convert_to_tensor(input)
    kind = tensor.dtype if dtype is None else as_dtype(dtype)
    if kind.code in ("string", "bytes"):
        raise UnimplementedError(f"tf.{function} of text is refused: no native function makes empty texts of a shape")
    # True and false at every item, whatever the items are.
    is_same = tensor._binary("eq", tensor)
    truth = is_same | ~is_same
    return (truth if item else ~truth).cast(kind)


def zeros_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Any:
    """Makes zeros of the shape of a tensor.

    Args:
        input: A tensor.
        dtype: The dtype of the result; that of the tensor by default.
        name: Accepted as in TensorFlow; has no effect.
        layout: Accepted as in TensorFlow; has no effect.

    Returns:
        The zeros.

    Example:
        >>> [x.tolist() for x in tf.data.Dataset.range(2).batch(2).map(tf.zeros_like)]
        [[0, 0]]
    """
    return _like(input, dtype, 0, "zeros_like")


def ones_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Any:
    """Makes ones of the shape of a tensor.

    Args:
        input: A tensor.
        dtype: The dtype of the result; that of the tensor by default.
        name: Accepted as in TensorFlow; has no effect.
        layout: Accepted as in TensorFlow; has no effect.

    Returns:
        The ones.

    Example:
        >>> [x.tolist() for x in tf.data.Dataset.range(2).batch(2).map(tf.ones_like)]
        [[1, 1]]
    """
    return _like(input, dtype, 1, "ones_like")


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """Makes a vector of numbers at equal distances.

    Args:
        start: The first number; the limit, if no limit is given.
        limit: The number before which the vector ends.
        delta: The distance.
        dtype: The dtype of the numbers; ``int32``, or ``float32`` for floats, by default.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The vector.

    Raises:
        UnimplementedError: A bound is computed from an element.

    Example:
        >>> tf.range(3)
        array([0, 1, 2], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    if is_symbolic(start, limit, delta):
        raise UnimplementedError(
            "tf.range: a bound is computed from an element, and native functions make no shapes of values: use Dataset.map_python"
        )
    numbers: list[Any] = [np.asarray(constant_value(value)) for value in (start, limit, delta)]
    if dtype is None:
        dtype = np.result_type(*numbers)
        if all(isinstance(value, int | float) for value in (start, limit, delta)):
            dtype = np.dtype(np.int32 if dtype.kind == "i" else np.float32)
    first, last, step = (number[()] for number in numbers)
    return np.arange(first, last, step).astype(as_dtype(dtype).as_numpy_dtype)


def linspace(start: Any, stop: Any, num: int, name: str | None = None, axis: int = 0) -> Any:
    """Makes numbers at equal distances between two constants.

    Args:
        start: The first number.
        stop: The last number.
        num: The count of numbers.
        name: Accepted as in TensorFlow; has no effect.
        axis: The axis along which the numbers are.

    Returns:
        The numbers.

    Example:
        >>> tf.linspace(0.0, 1.0, 3)
        array([0. , 0.5, 1. ], dtype=float32)
    """
    first, last = np.asarray(constant_value(start)), np.asarray(constant_value(stop))
    return np.linspace(first, last, num, axis=axis).astype(np.result_type(first, last))


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = "float32", name: str | None = None) -> Any:
    """Makes an identity matrix.

    Args:
        num_rows: The number of rows.
        num_columns: The number of columns; that of rows by default.
        batch_shape: Leading dimensions.
        dtype: The dtype of the matrix.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The matrix.

    Example:
        >>> tf.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    matrix = np.eye(num_rows, num_columns, dtype=as_dtype(dtype).as_numpy_dtype)
    return matrix if batch_shape is None else np.broadcast_to(matrix, (*batch_shape, *matrix.shape)).copy()


def identity(input: Any, name: str | None = None) -> Any:
    """Returns its argument.

    Args:
        input: Any value.
        name: Accepted as in TensorFlow; has no effect.

    Example:
        >>> tf.identity(3)
        3
    """
    return input


def shape(input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    """Returns the sizes of a tensor.

    Args:
        input: The tensor.
        out_type: The dtype of the sizes.
        name: Accepted as in TensorFlow; has no effect.

    Example:
        >>> tf.shape([[1, 2, 3]]).tolist()
        [1, 3]
    """
    return finished(ops.cast(ops.shape(_given(input)), out_type))


def size(input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    """Returns the number of items of a tensor.

    Args:
        input: The tensor.
        out_type: The dtype of the number.
        name: Accepted as in TensorFlow; has no effect.

    Example:
        >>> int(tf.size([[1, 2, 3]]))
        3
    """
    return finished(ops.cast(ops.shape(ops.reshape(_given(input), [-1]))[0], out_type))


def rank(input: Any, name: str | None = None) -> Any:
    """Returns the number of dimensions of a tensor.

    Args:
        input: The tensor, of a known number of dimensions.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The number, as ``int32``.

    Raises:
        UnimplementedError: The number of dimensions is known only when there is an element.

    Example:
        >>> int(tf.rank([[1, 2, 3]]))
        2
    """
    found = convert_to_tensor(_given(input)).shape
    if found is None:
        raise UnimplementedError("tf.rank: the number of dimensions is known only when there is an element: use Dataset.map_python")
    return np.int32(len(found))


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """Checks a shape, and states it where it was not known.

    Args:
        x: The tensor.
        shape: The shape; ``None`` for sizes that vary.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The tensor.

    Raises:
        InvalidArgumentError: The tensor has another shape.
        UnimplementedError: Several sizes are not known.

    Example:
        >>> tf.ensure_shape([[1, 2]], [None, 2]).tolist()
        [[1, 2]]
    """
    wanted = None if shape is None else TensorShape(shape)
    tensor = convert_to_tensor(_given(x))
    found = tensor.shape
    fits = wanted is None or found is None or (len(found) == len(wanted) and all(_agree(*pair) for pair in zip(found, wanted, strict=True)))
    if not fits:
        raise InvalidArgumentError(f"ensure_shape: expected shape {tuple(wanted or ())}, found {tuple(found or ())}")
    is_known = wanted is None or (found is not None and all(size is not None or one is None for size, one in zip(found, wanted, strict=True)))
    if is_known:
        return finished(tensor)
    return finished(_stated(tensor, wanted or TensorShape(())))


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _stated(tensor: Tensor, wanted: TensorShape) -> Tensor:
    varying = [axis for axis, size in enumerate(wanted) if size is None]
    if len(varying) > 1:
        raise UnimplementedError(f"tf.ensure_shape: expected at most one size that varies, found {tuple(wanted)}")
    # One size varies, so that the others and the number of items state it: reshape checks them.
    return ops.reshape(tensor, [-1 if size is None else size for size in wanted])


def _given(value: Any) -> Any:
    return value if is_symbolic(value) else np.asarray(constant_value(value))
