"""The names of ``tf.data``: a table of contents.

Owns nothing. Datasets are ``millstream.Dataset``, and files are read by ``millstream.files``.
"""

from __future__ import annotations

from ..._dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ..._options import Options, ThreadingOptions
from ...files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from . import experimental
from ._iterators import DatasetSpec, Iterator, IteratorSpec, NumpyIterator

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "IteratorSpec",
    "NumpyIterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
]
