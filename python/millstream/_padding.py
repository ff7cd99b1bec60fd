"""Converts the padding arguments of callers: one padded shape and one padding value for each component."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["shapes_of", "values_of"]


def shapes_of(padded_shapes: Any, spec: Any) -> list[list[int | None]]:
    """Returns the padded shape of each component of ``spec``; an empty list without ``padded_shapes``. ``None`` and -1 pad to the longest.

    Raises:
        TypeError: The shapes are not nested as the elements are.
        ValueError: The shapes are not as many as the components, or have other names.
    """
    return [] if padded_shapes is None else [_shape(shape) for shape in _nested(padded_shapes, spec, "padded_shapes")]


def values_of(padding_values: Any, spec: Any) -> list[bytes]:
    """Returns the padding value of each component of ``spec``, as bytes; an empty list without ``padding_values``.

    Raises:
        TypeError: A padding value does not fit the dtype of its component, or the values are not nested as the elements are.
        ValueError: The values are not as many as the components, or have other names.
    """
    if padding_values is None:
        return []
    leaves = _nested(spec, spec, "element_spec")
    # A single value applies to all components.
    is_single = not isinstance(padding_values, dict) and type(padding_values) not in (tuple, list)
    values = [padding_values] * len(leaves) if is_single else _nested(padding_values, spec, "padding_values")
    return [_item(value, component.dtype) for value, component in zip(values, leaves, strict=True)]


def _nested(value: Any, spec: Any, name: str) -> list[Any]:
    """Returns the part of ``value`` for each leaf of ``spec``."""
    if isinstance(spec, dict):
        if not isinstance(value, dict):
            raise TypeError(f"{name}: expected a dict with the names {list(spec)}, found {value!r}")
        if value.keys() != spec.keys():
            raise ValueError(f"{name}: expected a dict with the names {list(spec)}, found the names {list(value)}")
        return [leaf for key, item in spec.items() for leaf in _nested(value[key], item, name)]
    if type(spec) not in (tuple, list):
        return [value]
    # A list of shapes would be a shape, as in tf.data.
    if type(value) is not tuple and (type(value) is not list or (name == "padded_shapes" and type(spec) is tuple)):
        raise TypeError(f"{name}: expected a tuple of {len(spec)}, as elements are tuples, found {value!r}")
    if len(value) != len(spec):
        raise ValueError(f"{name}: expected a tuple of {len(spec)}, as elements are tuples, found {len(value)}")
    return [leaf for part, item in zip(value, spec, strict=True) for leaf in _nested(part, item, name)]


def _shape(shape: Iterable[int | None] | int) -> list[int | None]:
    return [None if size is None or size < 0 else size for size in ([shape] if isinstance(shape, int) else shape)]


def _item(value: Any, dtype: Any) -> bytes:
    if dtype.code in ("string", "bytes"):
        return value.encode() if isinstance(value, str) else bytes(value or b"")
    given = np.asarray(0 if value is None else value)
    # Floats of 8 and 16 bits have a kind of their own.
    if given.dtype.kind not in "biufcV":
        raise TypeError(f"padding_values: expected a value of {dtype!r}, found {value!r}")
    item = given.astype(dtype.as_numpy_dtype)
    if not dtype.is_floating and dtype.code[0] != "c" and item != given:
        raise TypeError(f"padding_values: {value!r} is not a value of {dtype!r}")
    return item.tobytes()
