"""Features of ``tf.train.Example`` records: which values a record holds, and the tensors that they become.

Owns the translation into parameters of the operations that parse records. Refuses to know how records are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._dtypes import as_dtype
from ._structure import leaf
from .errors import UnimplementedError

__all__ = ["FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "VarLenFeature", "constant_of", "features_of"]


@dataclass(frozen=True)
class FixedLenFeature:
    """A feature whose values fill a tensor of one shape, as ``tf.io.FixedLenFeature``.

    Args:
        shape: The shape of the tensor.
        dtype: ``int64``, ``float32``, ``bytes``, or ``string`` for text in UTF-8.
        default_value: The value of a missing feature: one for all items, or one for each. Without it, a missing feature is an error.
    """

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None


@dataclass(frozen=True)
class VarLenFeature:
    """A feature of any number of values, which becomes a sparse tensor, as ``tf.io.VarLenFeature``.

    Args:
        dtype: ``int64``, ``float32``, ``bytes``, or ``string`` for text in UTF-8.
    """

    dtype: Any


@dataclass(frozen=True)
class RaggedFeature:
    """A feature of any number of values: a vector for one record, a ragged tensor for several, as ``tf.io.RaggedFeature``.

    Args:
        dtype: ``int64``, ``float32``, ``bytes``, or ``string`` for text in UTF-8.
    """

    dtype: Any


@dataclass(frozen=True)
class FixedLenSequenceFeature:
    """A feature of any number of tensors of one shape, as ``tf.io.FixedLenSequenceFeature``. Records of a batch are padded.

    Args:
        shape: The shape of one tensor.
        dtype: ``int64``, ``float32``, ``bytes``, or ``string`` for text in UTF-8.
        allow_missing: Must be true outside of sequences, as in TensorFlow: a missing feature has no tensors.
        default_value: The value that pads shorter records; 0 or empty by default.
    """

    shape: Sequence[int]
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


def features_of(features: Mapping[str, Any], *, in_sequence: bool = False) -> list[dict[str, Any]]:
    """Returns the parameters of features by name.

    Args:
        features: A feature for each name.
        in_sequence: Whether the features are lists of a ``tf.train.SequenceExample``.

    Raises:
        UnimplementedError: A feature is of a kind that is not parsed here.
        ValueError: A sequence feature outside of sequences does not allow that it is missing.
    """
    return [{"name": name, **_parameters(name, feature, in_sequence)} for name, feature in features.items()]


def constant_of(value: Any, dtype: Any) -> dict[str, Any]:
    """Returns a constant as parameters of operations hold it.

    Args:
        value: A scalar, or nested sequences.
        dtype: The dtype of the items.
    """
    kind = as_dtype(dtype)
    made = np.asarray(value, object) if kind.code in ("string", "bytes") else np.asarray(value).astype(kind.as_numpy_dtype)
    _, _, items = leaf(made)
    return {"items": items} if isinstance(items, list) else {"fixed": items}


def _parameters(name: str, feature: Any, in_sequence: bool) -> dict[str, Any]:
    kind = type(feature).__name__
    if kind not in _KINDS:
        raise UnimplementedError(
            f"feature {name!r}: expected FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature, found {kind}"
        )
    if getattr(feature, "partitions", ()) or getattr(feature, "value_key", None) not in (None, name):
        raise UnimplementedError(f"feature {name!r}: partitions and value_key of RaggedFeature are not parsed")
    if kind == "FixedLenSequenceFeature" and not in_sequence and not feature.allow_missing:
        raise ValueError(f"feature {name!r}: FixedLenSequenceFeature requires allow_missing=True")
    dtype = as_dtype(feature.dtype)
    if kind == "VarLenFeature":
        return {"dtype": dtype.code, "layout": "sparse"}
    if kind == "RaggedFeature":
        return {"dtype": dtype.code, "layout": "ragged"}
    # A list of a sequence has a row for each of its features, so that its own layout is one row.
    layout = "padded" if kind == "FixedLenSequenceFeature" and not in_sequence else "fixed"
    default = None if feature.default_value is None else constant_of(feature.default_value, dtype)
    return {"dtype": dtype.code, "layout": {layout: [[int(size) for size in feature.shape], default]}}


#: TensorFlow's own classes have the same names and fields.
_KINDS = ("FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "VarLenFeature")
