"""Datasets of ``tf.data.experimental`` that are made of numbers, lists and other datasets. Owns TensorFlow's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._composites import Ragged, Sparse
from ...._dataset import Dataset
from ...._dtypes import int64, numpy_dtype
from ...._structure import leaf

__all__ = ["Counter", "RandomDataset", "choose_from_datasets", "from_list", "sample_from_datasets"]


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:
    """Yields integers without end, as ``Dataset.counter`` does.

    Args:
        start: The first number.
        step: The difference between two numbers.
        dtype: The dtype of the numbers.

    Returns:
        The new dataset.

    Example:
        >>> [int(x) for x in tf.data.experimental.Counter(5, 2).take(3)]
        [5, 7, 9]
    """
    return Dataset.counter(start, step, dtype)


class RandomDataset(Dataset):
    """Yields random integers of 32 bits without end, as ``Dataset.random`` does.

    Args:
        seed: The seed of the numbers.
        rerandomize_each_iteration: Whether passes differ.
        name: Accepted as in tf.data; has no effect.

    Example:
        >>> numbers = tf.data.experimental.RandomDataset(seed=1).take(3)
        >>> [int(x) for x in numbers] == [int(x) for x in numbers]
        True
    """

    def __init__(self, seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> None:
        super().__init__(Dataset.random(seed, rerandomize_each_iteration)._graph)


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False) -> Dataset:
    """Yields elements of datasets in the order that another dataset states, as ``Dataset.choose_from_datasets`` does.

    Args:
        datasets: The datasets, which have one element spec.
        choice_dataset: A dataset of indices into ``datasets``.
        stop_on_empty_dataset: Whether the end of one dataset ends all. Otherwise choices of it are skipped.

    Returns:
        The new dataset.

    Example:
        >>> a, b = tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)
        >>> choices = tf.data.Dataset.from_tensor_slices(np.array([1, 0, 0, 0, 1]))
        >>> [int(x) for x in tf.data.experimental.choose_from_datasets([a, b], choices)]
        [10, 0, 1, 11]
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset], weights: Any = None, seed: int | None = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Yields elements of datasets, drawn at random in proportion to weights, as ``Dataset.sample_from_datasets`` does.

    Args:
        datasets: The datasets, which have one element spec.
        weights: A weight for each dataset; equal by default.
        seed: The seed of the draws.
        stop_on_empty_dataset: Whether the end of one dataset ends all. Otherwise the others continue.

    Returns:
        The new dataset.

    Example:
        >>> a, b = tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)
        >>> sorted(int(x) for x in tf.data.experimental.sample_from_datasets([a, b], seed=1))
        [0, 1, 10, 11]
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def from_list(elements: list[Any], name: str | None = None) -> Dataset:
    """Yields the elements of a list. Tensors of different shapes are allowed.

    Args:
        elements: Elements of one structure: arrays, nested in tuples and dicts.
        name: Accepted as in tf.data; has no effect.

    Returns:
        The new dataset.

    Raises:
        ValueError: The list is empty, or is no list.

    Example:
        >>> [(int(x), y) for x, y in tf.data.experimental.from_list([(1, "a"), (2, "b")])]
        [(1, 'a'), (2, 'b')]
    """
    if not isinstance(elements, list):
        raise ValueError(f"from_list: expected a list, found {type(elements).__name__}")
    if not elements:
        raise ValueError("from_list: expected at least one element, found none: use tf.data.Dataset.range(0) for an empty dataset")
    stacked = _stacked(elements)
    if stacked is not None:
        return Dataset.from_tensor_slices(stacked)
    made = [Dataset.from_tensors(element) for element in elements]
    # By halves, so that the graph is not as deep as the list is long.
    while len(made) > 1:
        pairs = [made[at : at + 2] for at in range(0, len(made), 2)]
        made = [pair[0].concatenate(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return made[0]


def _stacked(elements: list[Any]) -> Any:
    """Returns elements of equal shapes along a new leading axis; ``None`` if shapes differ."""
    first = elements[0]
    if isinstance(first, dict | tuple):
        keys = list(first) if isinstance(first, dict) else range(len(first))
        if any(type(element) is not type(first) or len(element) != len(first) for element in elements):
            raise ValueError(f"from_list: expected elements that are nested as the first one, {first!r}")
        parts = [_stacked([element[key] for element in elements]) for key in keys]
        if any(part is None for part in parts):
            return None
        return dict(zip(keys, parts, strict=True)) if isinstance(first, dict) else tuple(parts)
    if isinstance(first, Ragged | Sparse):
        return None
    leaves = [leaf(element) for element in elements]
    if len({(code, dims) for code, dims, _ in leaves}) > 1:
        return None
    code, dims, items = leaves[0]
    if isinstance(items, list):
        texts = [item if code == "bytes" else item.decode() for _, _, data in leaves if isinstance(data, list) for item in data]
        made = np.empty(len(texts), object)
        made[:] = texts
        return made.reshape((len(leaves), *dims))
    return np.frombuffer(b"".join(data for _, _, data in leaves if isinstance(data, bytes)), numpy_dtype(code)).reshape((len(leaves), *dims))
