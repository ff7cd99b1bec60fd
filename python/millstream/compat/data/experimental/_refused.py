"""The names of ``tf.data.experimental`` that are refused when they are used: they handle objects of TensorFlow's own runtime."""

from __future__ import annotations

from typing import Any

from ...._dtypes import string
from ..._refusal import refuses

__all__ = [
    "DatasetInitializer",
    "from_variant",
    "get_model_proto",
    "index_table_from_dataset",
    "make_saveable_from_iterator",
    "table_from_dataset",
    "to_variant",
]

_NO_VARIANT = "a dataset is a value of Python, and no tensor holds one: pass the dataset itself, or pickle it"
_NO_TABLE = (
    "tables of TensorFlow are resources that change: use tf.lookup.StaticHashTable of the keys and values that the dataset yields, which "
    "functions of datasets look up natively"
)


@refuses("tf.data.experimental.DatasetInitializer", _NO_TABLE)
class DatasetInitializer:
    """Is refused: tables of TensorFlow are resources.

    Args:
        dataset: A dataset of keys and values.
    """

    def __init__(self, dataset: Any) -> None:
        raise NotImplementedError

    @property
    def key_dtype(self) -> Any:
        """The dtype of the keys, of a class that is refused."""

    @property
    def value_dtype(self) -> Any:
        """The dtype of the values, of a class that is refused."""

    def initialize(self, table: Any) -> Any:
        """Is refused with the class.

        Args:
            table: A table.

        Returns:
            Nothing: no object of the class can be made.
        """


@refuses("tf.data.experimental.from_variant", _NO_VARIANT)
def from_variant(variant: Any, structure: Any) -> Any:
    """Is refused: no tensor holds a dataset.

    Args:
        variant: A tensor of TensorFlow.
        structure: The specs of an element.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.data.experimental.to_variant", _NO_VARIANT)
def to_variant(dataset: Any) -> Any:
    """Is refused: no tensor holds a dataset.

    Args:
        dataset: A dataset.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses(
    "tf.data.experimental.get_model_proto",
    "Millstream has no model of TensorFlow's autotuning: Dataset.explain() draws the operations, and millstream top shows how long each takes",
)
def get_model_proto(iterator: Any) -> Any:
    """Is refused: Millstream has no model of TensorFlow's autotuning.

    Args:
        iterator: An iterator.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses(
    "tf.data.experimental.make_saveable_from_iterator",
    "there are no checkpoints of TensorFlow here: dataset.as_numpy_iterator() has save() and restore(), and ms.DataLoader state_dict()",
)
def make_saveable_from_iterator(iterator: Any, external_state_policy: Any = None) -> Any:
    """Is refused: there are no checkpoints of TensorFlow here.

    Args:
        iterator: An iterator.
        external_state_policy: The treatment of state outside of the dataset.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


class _HasherSpec(tuple[str, Any]):
    """The default of ``hasher_spec``, whose notation is that of TensorFlow."""

    def __repr__(self) -> str:
        return f"HasherSpec(hasher={self[0]!r}, key={self[1]!r})"


_FAST_HASH = _HasherSpec(("fasthash", None))


@refuses("tf.data.experimental.table_from_dataset", _NO_TABLE)
def table_from_dataset(
    dataset: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: Any = _FAST_HASH,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Is refused: tables of TensorFlow are resources.

    Args:
        dataset: A dataset of keys and values.
        num_oov_buckets: Numbers for other keys.
        vocab_size: The number of keys.
        default_value: The value of other keys.
        hasher_spec: The hash of other keys.
        key_dtype: The dtype of the keys.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """


@refuses("tf.data.experimental.index_table_from_dataset", _NO_TABLE)
def index_table_from_dataset(
    dataset: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = _FAST_HASH,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Is refused: tables of TensorFlow are resources.

    Args:
        dataset: A dataset of keys.
        num_oov_buckets: Numbers for other keys.
        vocab_size: The number of keys.
        default_value: The number of other keys.
        hasher_spec: The hash of other keys.
        key_dtype: The dtype of the keys.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """
