"""Random numbers, named as in ``tf.random``: arrays at once, and refusals within functions of datasets.

Owns the generator of arrays. Refuses to know the draws of datasets, whose operations have seeds of their own.
"""

from __future__ import annotations

import random as _random
from typing import Any

import numpy as np

from .._dtypes import as_dtype
from .._tracing import is_tracing
from ._functions import constant_value, is_symbolic
from ._refusal import refusal, refuses

__all__ = [
    "Generator", "normal", "set_seed", "shuffle", "stateless_normal", "stateless_uniform", "truncated_normal", "uniform",
]  # fmt: skip

_ONCE = (
    "a function of a dataset is called once, so that its draw would be one constant for all elements: zip the dataset with Dataset.random, "
    "use the random functions of tf.image, or draw within Dataset.map_python"
)


def _generator(name: str, seed: Any, *values: Any) -> np.random.Generator:
    if is_tracing() or is_symbolic(*values):
        raise refusal(f"tf.random.{name}", _ONCE)
    if isinstance(seed, tuple | list | np.ndarray):
        return np.random.default_rng([int(part) & 0xFFFFFFFF for part in seed])
    return np.random.default_rng(_random.getrandbits(64) if seed is None else [int(seed) & 0xFFFFFFFF, 1])


def set_seed(seed: int) -> None:
    """Seeds Python's generator, from which seeds are drawn that a program does not state.

    Args:
        seed: The seed.

    Example:
        >>> tf.random.set_seed(1)
    """
    _random.seed(int(seed))


def uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Any:
    """Draws an array of uniform numbers. Other draws than TensorFlow's follow from a seed.

    Args:
        shape: The sizes of the dimensions.
        minval: The least number.
        maxval: The number below which all are; 1 for floats.
        dtype: The dtype: floats, ``int32`` or ``int64``.
        seed: The seed.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: A function of a dataset calls it.
        ValueError: Integers without ``maxval``.

    Example:
        >>> tf.random.uniform([2, 3]).shape
        (2, 3)
    """
    return _uniform(_generator("uniform", seed, shape, minval, maxval), shape, minval, maxval, dtype)


def _uniform(generator: np.random.Generator, shape: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    kind, sizes = as_dtype(dtype), tuple(np.asarray(shape, np.int64).reshape(-1).tolist())
    if kind.is_integer:
        if maxval is None:
            raise ValueError("uniform: expected maxval for integers, found none")
        return generator.integers(minval, maxval, sizes, np.int64).astype(kind.as_numpy_dtype)
    return generator.uniform(minval, 1 if maxval is None else maxval, sizes).astype(kind.as_numpy_dtype)


def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Any:
    """Draws an array of normally distributed numbers. Other draws than TensorFlow's follow from a seed.

    Args:
        shape: The sizes of the dimensions.
        mean: The mean.
        stddev: The standard deviation.
        dtype: The dtype, of floats.
        seed: The seed.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: A function of a dataset calls it.

    Example:
        >>> tf.random.normal([4]).shape
        (4,)
    """
    sizes = tuple(np.asarray(shape, np.int64).reshape(-1).tolist())
    return _generator("normal", seed, shape, mean, stddev).normal(mean, stddev, sizes).astype(as_dtype(dtype).as_numpy_dtype)


def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Any:
    """Draws an array of normally distributed numbers within two standard deviations.

    Args:
        shape: The sizes of the dimensions.
        mean: The mean.
        stddev: The standard deviation.
        dtype: The dtype, of floats.
        seed: The seed.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: A function of a dataset calls it.

    Example:
        >>> bool((abs(tf.random.truncated_normal([100])) <= 2).all())
        True
    """
    sizes = tuple(np.asarray(shape, np.int64).reshape(-1).tolist())
    generator = _generator("truncated_normal", seed, shape, mean, stddev)
    drawn = generator.standard_normal(sizes)
    while (outside := np.abs(drawn) > 2).any():
        drawn = np.where(outside, generator.standard_normal(sizes), drawn)
    return (drawn * stddev + mean).astype(as_dtype(dtype).as_numpy_dtype)


def shuffle(value: Any, seed: Any = None, name: str | None = None) -> Any:
    """Shuffles an array along its leading axis.

    Args:
        value: The array.
        seed: The seed.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The shuffled array.

    Raises:
        UnimplementedError: A function of a dataset calls it.

    Example:
        >>> sorted(tf.random.shuffle([1, 2, 3]).tolist())
        [1, 2, 3]
    """
    generator = _generator("shuffle", seed, value)
    return generator.permutation(np.asarray(constant_value(value)))


def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", name: str | None = None, alg: str = "auto_select"
) -> Any:
    """Draws an array of uniform numbers that follow from the seed alone.

    Args:
        shape: The sizes of the dimensions.
        seed: Two numbers.
        minval: The least number.
        maxval: The number below which all are; 1 for floats.
        dtype: The dtype: floats, ``int32`` or ``int64``.
        name: Accepted as in TensorFlow; has no effect.
        alg: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: A function of a dataset calls it.

    Example:
        >>> one, other = (tf.random.stateless_uniform([3], seed=[1, 2]) for _ in range(2))
        >>> bool((one == other).all())
        True
    """
    return _uniform(_generator("stateless_uniform", seed, shape, minval, maxval, seed), shape, minval, maxval, dtype)


def stateless_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None, alg: str = "auto_select"
) -> Any:
    """Draws an array of normally distributed numbers that follow from the seed alone.

    Args:
        shape: The sizes of the dimensions.
        seed: Two numbers.
        mean: The mean.
        stddev: The standard deviation.
        dtype: The dtype, of floats.
        name: Accepted as in TensorFlow; has no effect.
        alg: Accepted as in TensorFlow; has no effect.

    Returns:
        The array.

    Raises:
        UnimplementedError: A function of a dataset calls it.

    Example:
        >>> tf.random.stateless_normal([2], seed=[1, 2]).shape
        (2,)
    """
    generator = _generator("stateless_normal", seed, shape, mean, stddev, seed)
    sizes = tuple(np.asarray(shape, np.int64).reshape(-1).tolist())
    return generator.normal(mean, stddev, sizes).astype(as_dtype(dtype).as_numpy_dtype)


@refuses("tf.random.Generator", "its state is a variable of TensorFlow: use numpy.random.Generator for arrays, and seeds of operations for datasets")
class Generator:
    """Is refused: its state is a variable of TensorFlow.

    Args:
        copy_from: A generator.
        state: The state.
        alg: The algorithm.
    """

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None) -> None:
        raise NotImplementedError
