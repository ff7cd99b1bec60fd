"""The translation of Arrow's types and arrays into specs and rows of records, for libraries that return Arrow tables.

Owns the rules for types and nulls, which are those of ``ms.files.parquet``. Refuses to know where tables come from. Imports no Arrow by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._spec import Described
from .errors import DataLossError, UnimplementedError

__all__ = ["described_type", "rows_of"]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = {"halffloat": "f16", "float": "f32", "double": "f64"}


def described_type(kind: Any, where: str) -> Described:
    """Returns the spec of a value of an Arrow type.

    Args:
        kind: The type.
        where: The column, for messages.

    Raises:
        UnimplementedError: Elements cannot hold values of the type.
    """
    import pyarrow.types as types

    name = str(kind)
    if name in _INTEGERS:
        return ("tensor", name.replace("uint", "u").replace("int", "i"), ())
    if name in _FLOATS:
        return ("tensor", _FLOATS[name], ())
    if types.is_boolean(kind):
        return ("tensor", "bool", ())
    if types.is_temporal(kind) and not types.is_interval(kind):
        return ("tensor", f"i{kind.bit_width}", ())
    if _is_text(kind):
        return ("tensor", "string", ())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or name == "binary_view":
        return ("tensor", "bytes", ())
    if types.is_dictionary(kind):
        return described_type(kind.value_type, where)
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return ("dict", [(field.name, described_type(field.type, f"{where}.{field.name}")) for field in fields])
    if name.startswith("extension<arrow.fixed_shape_tensor"):
        return ("tensor", described_type(kind.value_type, where)[1], tuple(kind.shape))
    if types.is_fixed_size_list(kind):
        return _listed(kind, where, kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return _listed(kind, where, None)
    raise UnimplementedError(f"the column {where} has the type {name}, which elements cannot hold: name the other columns in columns")


def _listed(kind: Any, where: str, size: int | None) -> Described:
    inner = described_type(kind.value_type, where)
    is_text = inner[1] in ("string", "bytes")
    if inner[0] != "tensor" or None in inner[2] or (is_text and (inner[2] or size is None and inner[1] == "bytes")):
        raise UnimplementedError(f"the column {where} has the type {kind}, which elements cannot hold: name the other columns in columns")
    return ("tensor", inner[1], (size, *inner[2]))


def rows_of(array: Any, described: Described, where: str) -> Any:
    """Returns the rows of an Arrow array: an array with a leading dimension, a list of text, or a list of vectors.

    Args:
        array: The array.
        described: The spec of a row, by ``described_type``.
        where: The column, for messages.

    Raises:
        DataLossError: A row has a null.
    """
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
        # Some versions return chunks again where there is no chunk, or several.
        array = array.chunk(0) if hasattr(array, "num_chunks") else array
    import pyarrow.types as types

    if array.null_count:
        raise DataLossError(
            f"the column {where} has {array.null_count} nulls among the records that are read: fill the nulls, or name the other columns in columns"
        )
    kind = array.type
    if types.is_dictionary(kind):
        return rows_of(array.dictionary_decode(), described, where)
    if described[0] == "dict":
        return {name: rows_of(part, item, f"{where}.{name}") for (name, item), part in zip(described[1], array.flatten(), strict=True)}
    if hasattr(array, "storage"):
        return rows_of(array.storage, described, where)
    _, code, dims = described
    if types.is_fixed_size_list(kind):
        flat = _flat(array, where)
        return np.array(flat, object).reshape(-1, *dims) if code in ("string", "bytes") else np.asarray(flat).reshape(-1, *dims)
    if types.is_list(kind) or types.is_large_list(kind):
        return _vectors(array, dims, where)
    if code in ("string", "bytes"):
        return array.to_pylist()
    if types.is_temporal(kind):
        array = array.cast(f"int{kind.bit_width}")
    return array.to_numpy(zero_copy_only=False)


def _flat(array: Any, where: str) -> Any:
    """Returns the items of an array of lists, one list after the other."""
    inner = array.flatten()
    return rows_of(inner, described_type(inner.type, where), where)


def _vectors(array: Any, dims: tuple[int | None, ...], where: str) -> list[Any]:
    flat = _flat(array, where)
    ends = np.asarray(array.offsets)
    ends = ends - ends[0]
    rows = [flat[start:stop] for start, stop in zip(ends[:-1], ends[1:], strict=True)]
    return [np.asarray(row, object) for row in rows] if isinstance(flat, list) else [row.reshape(-1, *dims[1:]) for row in rows]


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")
