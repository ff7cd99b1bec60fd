"""Tables of constants, named as in ``tf.lookup``: a table is part of the function that looks keys up in it.

Owns the keys and values. Refuses to know how texts are found. Tables that change are refused: functions of datasets have no state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from .._dtypes import DType, as_dtype, int64
from .._tensor import Tensor, convert_to_tensor
from ..errors import InvalidArgumentError, UnimplementedError
from ._functions import constant_value, finished, is_symbolic
from ._refusal import refuses

__all__ = ["KeyValueTensorInitializer", "StaticHashTable", "StaticVocabularyTable", "TextFileIndex", "TextFileInitializer", "experimental"]

_NO_STATE = "functions of datasets have no state: use tf.lookup.StaticHashTable, or a function of Dataset.map_python that holds a dict"


class KeyValueTensorInitializer:
    """The keys and values of a table.

    Args:
        keys: A vector of texts or integers.
        values: A vector of as many values.
        key_dtype: The dtype of the keys.
        value_dtype: The dtype of the values.
        name: Accepted as in TensorFlow; has no effect.

    Example:
        >>> names = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [0, 1])
        >>> int(tf.lookup.StaticHashTable(names, default_value=-1).lookup("dog"))
        1
    """

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None) -> None:
        self.keys = _vector(keys, key_dtype)
        self.values = _vector(values, value_dtype)
        if len(self.keys) != len(self.values):
            raise InvalidArgumentError(f"expected as many values as keys, found {len(self.keys)} keys and {len(self.values)} values")
        if len(set(self.keys.tolist())) != len(self.keys):
            raise InvalidArgumentError("expected keys that differ, found a key twice")

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return _dtype(self.keys)

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return _dtype(self.values)


class TextFileInitializer(KeyValueTensorInitializer):
    """The keys and values of a table that is a text file with a line for each key.

    The file is read when the initializer is made, and travels with the dataset.

    Args:
        filename: The path.
        key_dtype: The dtype of the keys.
        key_index: The column of the keys, or ``TextFileIndex.WHOLE_LINE`` or ``LINE_NUMBER``.
        value_dtype: The dtype of the values.
        value_index: The column of the values, or one of ``TextFileIndex``.
        vocab_size: The number of lines that are used; all by default.
        delimiter: The separator of columns.
        name: Accepted as in TensorFlow; has no effect.
        value_index_offset: The value of the first line, for ``LINE_NUMBER``.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        with open(filename, encoding="utf-8") as file:
            lines = file.read().splitlines()[:vocab_size]

        def column(index: int, dtype: Any) -> Any:
            if index == TextFileIndex.LINE_NUMBER:
                return np.arange(len(lines), dtype=np.int64) + value_index_offset
            parts = lines if index == TextFileIndex.WHOLE_LINE else [line.split(delimiter)[index] for line in lines]
            return parts if as_dtype(dtype).code == "string" else [as_dtype(dtype).as_numpy_dtype(part) for part in parts]

        super().__init__(column(key_index, key_dtype), column(value_index, value_dtype), key_dtype, value_dtype)


class TextFileIndex:
    """The parts of a line that are no column: the whole line, and the number of the line.

    Example:
        >>> tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        (-2, -1)
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class StaticHashTable:
    """A table of constants, which functions of datasets look keys up in.

    Args:
        initializer: The keys and values.
        default_value: The value of other keys.
        name: Accepted as in TensorFlow; has no effect.
        experimental_is_anonymous: Accepted as in TensorFlow; has no effect.

    Example:
        >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [10, 20]), default_value=0)
        >>> [int(x) for x in tf.data.Dataset.from_tensor_slices(["b", "c"]).map(table.lookup)]
        [20, 0]
    """

    def __init__(self, initializer: Any, default_value: Any, name: str | None = None, experimental_is_anonymous: bool = False) -> None:
        if not isinstance(initializer, KeyValueTensorInitializer):
            raise UnimplementedError(f"StaticHashTable: expected a KeyValueTensorInitializer or a TextFileInitializer, found {initializer!r}")
        self._initializer = initializer
        code = initializer.value_dtype.code
        default = np.asarray(default_value, object if code in ("string", "bytes") else initializer.values.dtype)
        self._values = np.concatenate([initializer.values, default.reshape(1)])

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._initializer.key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._initializer.value_dtype

    @property
    def default_value(self) -> Any:
        """The value of other keys."""
        return self._values[-1]

    def size(self, name: str | None = None) -> Any:
        """Returns the number of keys.

        Args:
            name: Accepted as in TensorFlow; has no effect.

        Example:
            >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
            >>> int(table.size())
            1
        """
        return np.int64(len(self._initializer.keys))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Looks keys up.

        Args:
            keys: A tensor of keys.
            name: Accepted as in TensorFlow; has no effect.

        Returns:
            The values.

        Raises:
            TypeError: The keys have another dtype.

        Example:
            >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([7, 8], ["x", "y"]), "")
            >>> table.lookup([8, 9]).tolist()
            ['y', '']
        """
        places = _places(keys, self._initializer.keys)
        return finished(ops.gather(self._values, places))

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


class StaticVocabularyTable:
    """A table of the numbers of words. Other words get numbers after the last word, by a hash: SipHash instead of TensorFlow's.

    Args:
        initializer: The words and their numbers, from 0 on.
        num_oov_buckets: The count of numbers for other words.
        lookup_key_dtype: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.
        experimental_is_anonymous: Accepted as in TensorFlow; has no effect.

    Example:
        >>> words = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.arange(2))
        >>> tf.lookup.StaticVocabularyTable(words, num_oov_buckets=1).lookup(["b", "z"]).tolist()
        [1, 2]
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(f"StaticVocabularyTable: expected at least one bucket, found num_oov_buckets={num_oov_buckets}")
        if initializer is not None and initializer.value_dtype != int64:
            raise TypeError(f"StaticVocabularyTable: expected values of int64, found {initializer.value_dtype!r}")
        self._buckets = int(num_oov_buckets)
        self._table = None if initializer is None else StaticHashTable(initializer, -1)

    def size(self, name: str | None = None) -> Any:
        """Returns the number of words and buckets.

        Args:
            name: Accepted as in TensorFlow; has no effect.

        Example:
            >>> words = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.arange(2))
            >>> int(tf.lookup.StaticVocabularyTable(words, num_oov_buckets=1).size())
            3
        """
        return np.int64(self._words + self._buckets)

    @property
    def _words(self) -> int:
        return 0 if self._table is None else int(self._table.size())

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Looks words up.

        Args:
            keys: A tensor of words.
            name: Accepted as in TensorFlow; has no effect.

        Returns:
            The numbers, as ``int64``.

        Example:
            >>> words = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.arange(2))
            >>> int(tf.lookup.StaticVocabularyTable(words, num_oov_buckets=5).lookup("a"))
            0
        """
        text = _texts(keys)
        bucket = ops.strings_to_hash_bucket(text, self._buckets) + np.int64(self._words)
        if self._table is None:
            return finished(bucket)
        found = ops.gather(self._table._values, _places(keys, self._table._initializer.keys))
        return finished(ops.where(found < np.int64(0), bucket, found))

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


def _vector(values: Any, dtype: Any) -> Any:
    array = np.asarray(constant_value(values)).reshape(-1)
    kind = None if dtype is None else as_dtype(dtype)
    return array if kind is None or kind.code in ("string", "bytes") else array.astype(kind.as_numpy_dtype)


def _dtype(array: Any) -> DType:
    return as_dtype("string" if array.dtype == object else array.dtype)


def _texts(keys: Any) -> Tensor:
    """Returns keys as texts: integers are found by their decimal notation."""
    tensor = convert_to_tensor(keys if is_symbolic(keys) else constant_value(keys))
    if tensor.dtype.is_integer:
        return tensor._unary("to_text")
    if tensor.dtype.code not in ("string", "bytes"):
        raise TypeError(f"expected keys that are texts or integers, found {tensor.dtype!r}")
    return tensor


def _places(keys: Any, known: Any) -> Tensor:
    texts = [word if isinstance(word, bytes) else str(word).encode() for word in known.tolist()]
    return ops.lookup(_texts(keys), texts, len(texts))


@refuses("tf.lookup.experimental.DenseHashTable", _NO_STATE)
class DenseHashTable:
    """Is refused: functions of datasets have no state.

    Args:
        *args: The arguments of TensorFlow.
        **kwargs: The arguments of TensorFlow.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError


@refuses("tf.lookup.experimental.MutableHashTable", _NO_STATE)
class MutableHashTable:
    """Is refused: functions of datasets have no state.

    Args:
        *args: The arguments of TensorFlow.
        **kwargs: The arguments of TensorFlow.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError


class experimental:
    """The names of ``tf.lookup.experimental``, which are refused when they are used."""

    DenseHashTable = DenseHashTable
    MutableHashTable = MutableHashTable
