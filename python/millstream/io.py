"""Functions for ``Dataset.map`` that read records and encoded data, named as in ``tf.io``. They are executed natively.

Owns the signatures. Refuses to know how records are parsed. Methods of ``Dataset`` do the same to whole components, and more: sparse and
ragged features too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import image, ops
from ._calls import called_native
from ._dtypes import as_dtype
from ._features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    constant_of,
    features_of,
)
from ._tensor import Tensor, convert_to_tensor
from .errors import UnimplementedError

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "VarLenFeature",
    "decode_csv",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "parse_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

decode_image = image.decode_image
decode_jpeg = image.decode_image
decode_png = image.decode_image


def parse_single_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: str | None = None) -> dict[str, Tensor]:
    """Parses one serialised ``tf.train.Example``.

    Args:
        serialized: The record, a tensor of a function.
        features: A feature for each name. A ``VarLenFeature`` is a vector here, as a ``RaggedFeature`` is.
        example_names: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        A tensor for each name.

    Example:
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> features = {"a": ms.FixedLenFeature([], ms.int64)}
        >>> dataset = ms.Dataset.from_tensors(record).map(lambda x: ms.io.parse_single_example(x, features)["a"] + 1)
        >>> next(iter(dataset))
        np.int64(8)
    """
    dense = {key: RaggedFeature(feature.dtype) if _is_sparse(feature) else feature for key, feature in features.items()}
    made: dict[str, Tensor] = called_native("parse_example", serialized, makes_components=True, features=features_of(dense))
    return made


def parse_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: str | None = None) -> dict[str, Tensor]:
    """Parses a vector of serialised ``tf.train.Example`` records.

    Args:
        serialized: The records, a tensor of a function.
        features: A ``FixedLenFeature`` or ``FixedLenSequenceFeature`` for each name.
        example_names: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        A tensor for each name.

    Raises:
        UnimplementedError: A feature is sparse or ragged, which functions cannot compute with. ``Dataset.parse_example`` reads it.
    """
    varying = [key for key, feature in features.items() if _is_sparse(feature) or type(feature).__name__ == "RaggedFeature"]
    if varying:
        raise UnimplementedError(f"functions of a dataset cannot compute with the sparse or ragged feature {varying[0]!r}: use Dataset.parse_example")
    made: dict[str, Tensor] = called_native("parse_example", serialized, makes_components=True, features=features_of(features))
    return made


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parses one serialised ``tf.train.SequenceExample``.

    Args:
        serialized: The record, a tensor of a function.
        context_features: The features of the context, by name.
        sequence_features: The lists of features of one shape, by name.
        example_name: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The tensors of the context, and those of the lists, by name.

    Raises:
        UnimplementedError: A list has rows of different lengths. ``Dataset.parse_sequence_example`` reads it.
    """
    context, sequences = dict(context_features or {}), dict(sequence_features or {})
    ragged = [key for key, feature in sequences.items() if not hasattr(feature, "shape")]
    if ragged:
        raise UnimplementedError(f"functions of a dataset cannot compute with the ragged list {ragged[0]!r}: use Dataset.parse_sequence_example")
    dense = {key: RaggedFeature(feature.dtype) if _is_sparse(feature) else feature for key, feature in context.items()}
    made = called_native(
        "parse_sequence_example",
        serialized,
        makes_components=True,
        context=features_of(dense),
        sequences=features_of(sequences, in_sequence=True),
    )
    return {key: made[key] for key in context}, {key: made[key] for key in sequences}


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Splits lines of comma-separated values into columns.

    Args:
        records: The lines, a tensor of a function.
        record_defaults: A dtype for each column that must be present, or a list that holds the column's default.
        field_delim: The separator of fields.
        use_quote_delim: Whether fields may be in double quotes.
        na_value: A text that marks a missing field, besides the empty text.
        select_cols: The columns to read, in ascending order; all by default.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        A tensor for each column.

    Example:
        >>> lines = ms.Dataset.from_tensor_slices(["1,2.5", "3,"])
        >>> sums = lines.map(lambda line: ms.io.decode_csv(line, [ms.int64, [0.5]])[1])
        >>> [float(x) for x in sums]
        [2.5, 0.5]
    """
    if len(field_delim) != 1 or not field_delim.isascii():
        raise ValueError(f"expected one ASCII character as field_delim, found {field_delim!r}")
    chosen = list(range(len(record_defaults))) if select_cols is None else list(select_cols)
    if len(chosen) != len(record_defaults) or chosen != sorted(set(chosen)):
        raise ValueError(f"expected as many ascending columns in select_cols as record_defaults, found {chosen}")
    columns: list[dict[str, Any]] = [{"dtype": "string", "skipped": True} for _ in range(max(chosen, default=-1) + 1)]
    for number, default in zip(chosen, record_defaults, strict=True):
        columns[number] = {"name": f"column{number}", **_column(default)}
    made = called_native(
        "decode_csv",
        records,
        makes_components=True,
        columns=columns,
        delimiter=ord(field_delim),
        quoted=bool(use_quote_delim),
        missing=na_value,
    )
    return [made[f"column{number}"] for number in chosen]


def decode_raw(input_bytes: Any, out_type: Any, little_endian: bool = True, name: str | None = None) -> Tensor:
    """Reinterprets byte strings as vectors of numbers.

    Args:
        input_bytes: Byte strings of one length.
        out_type: The dtype of the numbers.
        little_endian: Whether the bytes are little-endian.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor.
    """
    return ops.decode_raw(input_bytes, out_type, little_endian=little_endian)


def _is_sparse(feature: Any) -> bool:
    return type(feature).__name__ == "VarLenFeature"


def _column(default: Any) -> dict[str, Any]:
    """Returns the dtype and the default of a column, from a dtype or from a list with a default, as TensorFlow takes them."""
    if isinstance(default, Tensor):
        raise UnimplementedError("a default of decode_csv must be a constant")
    try:
        return {"dtype": as_dtype(default).code, "default": None}
    except (TypeError, ValueError):
        pass
    values = list(default)
    if not values:
        raise ValueError("expected a dtype or a list with a default, found an empty list, which has no dtype")
    dtype = convert_to_tensor([*values]).dtype
    return {"dtype": dtype.code, "default": constant_of(values[0], dtype)}
