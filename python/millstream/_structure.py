"""Converts Python values to tensors: splits nested structures into leaves with their bytes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._composites import Ragged, Sparse
from ._dtypes import as_dtype
from .errors import InvalidArgumentError

__all__ = ["Stack", "constants", "leaf", "tensor"]


def constants(value: Any) -> tuple[tuple[Any, ...], list[bytes | list[bytes]]]:
    """Returns the spec of a structure of arrays, as plain tuples, and the data of its leaves in order.

    A list is an array with 32-bit numbers, as in TensorFlow. Tuples and dicts are structures.
    """
    data: list[bytes | list[bytes]] = []
    return _described(value, data), data


def _described(value: Any, data: list[bytes | list[bytes]]) -> tuple[Any, ...]:
    if value is None:
        return ("none",)
    if isinstance(value, Mapping):
        return ("dict", [(str(name), _described(item, data)) for name, item in value.items()])
    if isinstance(value, tuple):
        return ("tuple", [_described(item, data) for item in value])
    if isinstance(value, Ragged):
        return ("ragged", [_described(part, data) for part in (value.values, *value.nested_row_splits)])
    if isinstance(value, Sparse):
        return ("sparse", [_described(part, data) for part in (value.indices, value.values, value.dense_shape)])
    try:
        code, dims, items = leaf(value)
    except TypeError as error:
        # Upstream calls a value that is not a tensor a wrong value, not a wrong type.
        raise InvalidArgumentError(str(error)) from error
    data.append(items)
    return ("tensor", code, dims)


class Stack:
    """Arrays of equal shapes, which are stacked along a new leading dimension later, directly in the destination."""

    __slots__ = ("_arrays", "dtype", "nbytes", "shape")

    def __init__(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        first = arrays[0]
        for array in arrays:
            if array.shape != first.shape:
                raise ValueError(f"expected arrays of equal shapes, found the shapes {first.shape} and {array.shape}: pad the arrays in collate_fn")
        self._arrays = arrays
        self.shape = (len(arrays), *first.shape)
        dtypes = {array.dtype for array in arrays}
        found = first.dtype if len(dtypes) == 1 else np.result_type(*dtypes)
        # All elements are little-endian.
        self.dtype = found.newbyteorder("<") if found.byteorder == ">" else found
        self.nbytes = self.dtype.itemsize * len(arrays) * first.size

    def write_to(self, into: np.ndarray[Any, Any]) -> None:
        """Stacks the arrays into ``into``, which must have the shape of the stack."""
        np.stack(self._arrays, out=into)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.stack(self._arrays).astype(dtype or self.dtype, copy=False)


def leaf(value: Any) -> tuple[str, tuple[int, ...], bytes | list[bytes]]:
    """Returns the dtype's code, the shape and the data of one array, in row-major order.

    Raises:
        TypeError: The array has items of a type that elements cannot have.
    """
    code, shape, data = tensor(value)
    return code, shape, data if isinstance(data, list) else np.asarray(data).tobytes()


def tensor(value: Any) -> tuple[str, tuple[int, ...], Any]:
    """Returns the dtype's code, the shape, and the data: a little-endian array, a stack of arrays, or a list of strings.

    Raises:
        TypeError: The array has items of a type that elements cannot have.
    """
    if isinstance(value, Stack) and value.dtype.kind not in "USO":
        return _code(value.dtype), value.shape, value
    array = _plain(value)
    if array.dtype.kind in "US" and not isinstance(value, np.ndarray):
        # Byte strings of numpy lose trailing zero bytes, so the value is converted as objects.
        array = np.array(value, object)
    if array.dtype.kind in "US" or array.dtype == object:
        return _text(array)
    # All elements are little-endian.
    native = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return _code(array.dtype), array.shape, native


@functools.cache
def _code(dtype: np.dtype[Any]) -> str:
    return as_dtype(dtype).code


def _plain(value: Any) -> np.ndarray[Any, Any]:
    """Converts a value to an array. Python's own numbers become 32-bit numbers if they fit, as in TensorFlow."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"expected a tensor, found {value!r:.200}: pad the rows, or pass ms.Ragged.from_rows to from_tensors. {error}") from error
    if isinstance(value, np.ndarray | np.generic) or array.dtype not in (np.int64, np.float64):
        return array
    first = value
    while isinstance(first, list | tuple | range) and first:
        first = first[0]
    if type(first) is float or (array.size == 0 and isinstance(first, list | tuple)):
        return array.astype(np.float32)
    if type(first) is int:
        # Numbers that do not fit in 32 bits, and mixtures of types, keep numpy's dtype.
        narrow = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
        return narrow if array.dtype == np.float64 or np.array_equal(narrow, array) else array
    return array


def _text(array: np.ndarray[Any, Any]) -> tuple[str, tuple[int, ...], list[bytes]]:
    items = array.ravel().tolist()
    if all(isinstance(item, bytes) for item in items) and items:
        return "bytes", array.shape, items
    for item in items:
        if not isinstance(item, str):
            raise TypeError(
                f"{item!r:.200} (of type {type(item).__qualname__}) is not a valid item of a tensor, or rows have different lengths: elements are "
                "arrays, tensors, numbers and text, in dicts, tuples and lists; convert the value in the dataset, or in collate_fn"
            )
    return "string", array.shape, [item.encode() for item in items]
