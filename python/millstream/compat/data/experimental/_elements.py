"""Functions of ``tf.data.experimental`` that ask a dataset or an iterator. Owns TensorFlow's errors."""

from __future__ import annotations

from typing import Any

from .... import _debugging
from ...._dataset import Dataset
from ....errors import OutOfRangeError
from .._iterators import Iterator, NumpyIterator

__all__ = ["at", "cardinality", "enable_debug_mode", "get_next_as_optional", "get_single_element", "get_structure"]


def at(dataset: Dataset, index: int) -> Any:
    """Returns the element at a position. The elements before it are computed and left out.

    Args:
        dataset: The dataset.
        index: The position, from 0.

    Returns:
        The element.

    Raises:
        OutOfRangeError: The dataset has no such element.

    Example:
        >>> int(tf.data.experimental.at(tf.data.Dataset.range(10, 20), 3))
        13
    """
    place, count = int(index), dataset.cardinality()
    if place >= 0 and not 0 <= count <= place:
        for element in dataset.skip(place).take(1):
            return element
    known = f"[0, {count})" if count >= 0 else "the elements"
    raise OutOfRangeError(f"at: expected an index within {known}, found {place}")


def cardinality(dataset: Dataset) -> int:
    """Returns the number of elements, as ``Dataset.cardinality`` does.

    Args:
        dataset: The dataset.

    Example:
        >>> tf.data.experimental.cardinality(tf.data.Dataset.range(42))
        42
    """
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """Returns the only element of a dataset, as ``Dataset.get_single_element`` does.

    Args:
        dataset: The dataset.

    Raises:
        InvalidArgumentError: The dataset has no element, or several.

    Example:
        >>> int(tf.data.experimental.get_single_element(tf.data.Dataset.range(7, 8)))
        7
    """
    return dataset.get_single_element()


def get_next_as_optional(iterator: Any) -> Any:
    """Returns the next element of an iterator as an ``Optional``, which has no value at the end.

    Args:
        iterator: The iterator.

    Example:
        >>> tf.data.experimental.get_next_as_optional(iter(tf.data.Dataset.range(1))).get_value()
        np.int64(0)
    """
    return iterator.get_next_as_optional()


def get_structure(dataset_or_iterator: Any) -> Any:
    """Returns the specs of the elements of a dataset or an iterator.

    Args:
        dataset_or_iterator: The dataset or the iterator.

    Raises:
        TypeError: The argument is neither.

    Example:
        >>> tf.data.experimental.get_structure(tf.data.Dataset.range(3))
        TensorSpec(shape=(), dtype=ms.int64, name=None)
    """
    if not isinstance(dataset_or_iterator, Dataset | Iterator | NumpyIterator):
        raise TypeError(f"get_structure: expected a dataset or an iterator, found {type(dataset_or_iterator).__name__}")
    return dataset_or_iterator.element_spec


def enable_debug_mode() -> None:
    """Makes datasets that are computed in this process run one element at a time, and functions of ``map`` run as Python.

    A function of ``Dataset.map`` is still called once to find out the spec of its results. Then it runs as ``Dataset.map_python`` would run
    it, with arrays, so that ``print`` and breakpoints act for each element. Functions of other operations stay native. Datasets that were
    made before keep their functions.

    Example:
        >>> tf.data.experimental.enable_debug_mode()
        >>> [int(x) for x in tf.data.Dataset.range(3).map(lambda x: x + 1)]
        [1, 2, 3]
        >>> from millstream import _debugging
        >>> _debugging.enable(False)
    """
    _debugging.enable()
