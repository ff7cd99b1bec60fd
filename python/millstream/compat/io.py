"""Records and encoded data within functions of datasets, named as in ``tf.io``. Text features are byte strings, as in TensorFlow.

Owns the dtypes of features. Refuses to know how records are parsed: ``millstream.io`` does that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .. import io as _io
from .._dtypes import as_dtype, bytes_
from .._features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, VarLenFeature
from .._tensor import Tensor

__all__ = [
    "FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "VarLenFeature", "decode_csv", "decode_image", "decode_jpeg", "decode_png",
    "decode_raw", "features_of_bytes", "parse_example", "parse_single_example", "parse_single_sequence_example",
]  # fmt: skip

decode_csv = _io.decode_csv
decode_image = _io.decode_image
decode_jpeg = _io.decode_jpeg
decode_png = _io.decode_png
decode_raw = _io.decode_raw


def features_of_bytes(features: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the features, with byte strings for features of dtype ``tf.string``.

    Args:
        features: A feature for each name, of Millstream or of TensorFlow.

    Example:
        >>> tf.io.features_of_bytes({"a": tf.io.FixedLenFeature([], tf.string)})["a"].dtype
        ms.bytes
    """
    return {name: _of_bytes(feature) for name, feature in (features or {}).items()}


def _of_bytes(feature: Any) -> Any:
    dtype = getattr(feature, "dtype", None)
    if dtype is None or as_dtype(dtype).code != "string":
        return feature
    return dataclasses.replace(feature, dtype=bytes_) if dataclasses.is_dataclass(feature) else feature._replace(dtype=bytes_)  # type: ignore[type-var]


def parse_single_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: str | None = None) -> dict[str, Tensor]:
    """Parses one serialised ``tf.train.Example``, as ``millstream.io.parse_single_example`` does.

    Args:
        serialized: The record, a tensor of a function.
        features: A feature for each name. A ``VarLenFeature`` is a vector here, as a ``RaggedFeature`` is.
        example_names: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        A tensor for each name.

    Example:
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> features = {"a": tf.io.FixedLenFeature([], tf.int64)}
        >>> [int(x) for x in tf.data.Dataset.from_tensors(record).map(lambda x: tf.io.parse_single_example(x, features)["a"])]
        [7]
    """
    return _io.parse_single_example(serialized, features_of_bytes(features), example_names, name)


def parse_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: str | None = None) -> dict[str, Tensor]:
    """Parses a vector of serialised ``tf.train.Example`` records, as ``millstream.io.parse_example`` does.

    Args:
        serialized: The records, a tensor of a function.
        features: A ``FixedLenFeature`` or ``FixedLenSequenceFeature`` for each name.
        example_names: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        A tensor for each name.

    Example:
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> features = {"a": tf.io.FixedLenFeature([], tf.int64)}
        >>> parsed = tf.data.Dataset.from_tensors([record, record]).map(lambda x: tf.io.parse_example(x, features)["a"])
        >>> [x.tolist() for x in parsed]
        [[7, 7]]
    """
    return _io.parse_example(serialized, features_of_bytes(features), example_names, name)


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parses one serialised ``tf.train.SequenceExample``, as ``millstream.io.parse_single_sequence_example`` does.

    Args:
        serialized: The record, a tensor of a function.
        context_features: The features of the context, by name.
        sequence_features: The lists of features, by name.
        example_name: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The context and the sequences, a tensor for each name.

    Example:
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> context = {"a": tf.io.FixedLenFeature([], tf.int64)}
        >>> parsed = tf.data.Dataset.from_tensors(record).map(lambda x: tf.io.parse_single_sequence_example(x, context)[0]["a"])
        >>> [int(x) for x in parsed]
        [7]
    """
    return _io.parse_single_sequence_example(
        serialized, features_of_bytes(context_features), features_of_bytes(sequence_features), example_name, name
    )


