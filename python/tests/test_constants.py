"""Constants beside tensors take the tensor's dtype, as in TensorFlow, unless they lose their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import compat as tf

ROWS = tf.data.Dataset.from_tensor_slices(np.ones((1, 3), np.float32))
NUMBERS = tf.data.Dataset.range(2, 3)

FITTING: list[tuple[Any, Callable[[Any], Any], str, Any]] = [
    (ROWS, lambda x: x - np.array([0.5, 1.0, 2.0]), "float32", [0.5, 0.0, -1.0]),
    (ROWS, lambda x: np.array([0.5, 1.0, 2.0]) * x, "float32", [0.5, 1.0, 2.0]),
    (ROWS, lambda x: x + [1, 2, 3], "float32", [2.0, 3.0, 4.0]),
    (ROWS, lambda x: tf.add(x, np.array([1, 2, 3])), "float32", [2.0, 3.0, 4.0]),
    (ROWS, lambda x: tf.concat([[1.0, 2.0], x, np.array([3])], 0), "float32", [1.0, 2.0, 1.0, 1.0, 1.0, 3.0]),
    (ROWS, lambda x: tf.stack([x, np.array([1, 2, 4])]), "float32", [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]),
    (ROWS, lambda x: tf.where(x > np.array([0, 1, 2]), x, np.array([7, 8, 9])), "float32", [1.0, 8.0, 9.0]),
    (ROWS, lambda x: tf.clip_by_value(x, np.float64(0), np.array([0.5, 0.25, 3.0])), "float32", [0.5, 0.25, 1.0]),
    (NUMBERS, lambda x: x + np.float32(1), "int64", 3),
    (NUMBERS, lambda x: np.int32(7) - x, "int64", 5),
    (NUMBERS, lambda x: x // np.int8(2), "int64", 1),
    (NUMBERS, lambda x: x / np.float32(4), "float64", 0.5),
    (NUMBERS, lambda x: tf.maximum(x, np.float64(3)), "int64", 3),
    (NUMBERS, lambda x: tf.cast(x, tf.float64) + [0.1], "float64", [2.1]),
]


@pytest.mark.parametrize(("dataset", "function", "dtype", "expected"), FITTING)
def test_constants_take_the_dtype_of_tensors(dataset: Any, function: Callable[[Any], Any], dtype: str, expected: Any) -> None:
    made = dataset.map(function)
    assert made.element_spec.dtype == dtype
    assert [np.asarray(element).tolist() for element in made] == [expected]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + np.float32(1.5),
        lambda x: x == np.float32(1.5),
        lambda x: tf.cast(x, tf.uint8) + np.int64(300),
        lambda x: tf.cast(x, tf.uint8) + np.int64(-1),
        lambda x: x + np.array([1.0, np.nan]),
        lambda x: tf.cast(x, tf.float16) * np.float32(1e6),
    ],
)
def test_constants_that_do_not_fit_are_refused(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ms.errors.InvalidDtypeError):
        NUMBERS.map(function)


@pytest.mark.parametrize("function", [lambda x: tf.cast(x, tf.string), lambda x: tf.cast(tf.as_string(x), tf.int32), lambda x: tf.cast("1", tf.int32)])
def test_casts_of_text_are_not_supported(function: Callable[[Any], Any]) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"tf\.cast: Cast \w+ to \w+ is not supported: use tf\.strings"):
        NUMBERS.map(function)


def test_gather_refuses_negative_indices() -> None:
    at = tf.data.Dataset.range(3).map(lambda x: tf.gather([5, 6], x - 1))
    read = iter(at.ignore_errors())
    assert [int(x) for x in read] == [5, 6]
    with pytest.raises(tf.errors.InvalidArgumentError, match="tf.gather: an index below 0"):
        next(iter(at))
    with pytest.raises(tf.errors.InvalidArgumentError, match="found -1"):
        tf.gather([5, 6], [0, -1])
    assert ms.Dataset.range(1).map(lambda x: ms.ops.gather(np.array([5, 6]), x - 1)).get_single_element() == 6
