"""Converts the padding arguments of callers: one padded shape and one padding value for each component."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["shapes_of", "values_of"]


def shapes_of(padded_shapes: Any, spec: Any) -> list[list[int | None]]:
    """Returns the padded shape of each component of ``spec``; an empty list without ``padded_shapes``. ``None`` and -1 pad to the longest."""
    return [] if padded_shapes is None else [_shape(shape) for shape in _flat(padded_shapes, spec)]


def values_of(padding_values: Any, spec: Any) -> list[bytes]:
    """Returns the padding value of each component of ``spec``, as bytes; an empty list without ``padding_values``.

    Raises:
        TypeError: A padding value does not fit the dtype of its component.
    """
    if padding_values is None:
        return []
    pairs = zip(_flat(padding_values, spec), _flat(spec, spec), strict=True)
    return [_item(value, component.dtype) for value, component in pairs]


def _flat(value: Any, spec: Any) -> list[Any]:
    """Returns the part of ``value`` for each leaf of ``spec``. A single value applies to all leaves below it."""
    if isinstance(spec, dict):
        parts = [(value[name] if isinstance(value, dict) else value, item) for name, item in spec.items()]
    elif type(spec) in (tuple, list):
        nested = type(value) in (tuple, list) and len(value) == len(spec)
        parts = [(value[index] if nested else value, item) for index, item in enumerate(spec)]
    else:
        return [value]
    return [leaf for part, item in parts for leaf in _flat(part, item)]


def _shape(shape: Iterable[int | None] | int) -> list[int | None]:
    return [None if size is None or size < 0 else size for size in ([shape] if isinstance(shape, int) else shape)]


def _item(value: Any, dtype: Any) -> bytes:
    if dtype.code in ("string", "bytes"):
        return value.encode() if isinstance(value, str) else bytes(value or b"")
    given = np.asarray(0 if value is None else value)
    item = given.astype(dtype.as_numpy_dtype)
    if not dtype.is_floating and dtype.code[0] != "c" and item != given:
        raise TypeError(f"padding_values: {value!r} is not a value of {dtype!r}")
    return item.tobytes()
