"""Mistakes raise the errors of tf.data, and specs say what those of tf.data say. Found by tests/frameworks/test_differential.py."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, ops
from millstream import compat as tf
from millstream.errors import InvalidArgumentError, InvalidDtypeError

#: Functions that compute with a dtype that an operation does not accept.
DTYPES: dict[str, Callable[[Any], Any]] = {
    "a float for an integer": lambda x: x + 1.5,
    "text for a number": lambda x: x + "a",
    "two dtypes": lambda x: x + x.cast(ms.int32),
    "two dtypes in a stack": lambda x: ops.stack([x, x.cast(ms.int32)]),
    "a number as a condition": lambda x: ops.where(x, x, x),
    "the root of an integer": ops.sqrt,
    "numbers as text": ops.strings_lower,
    "numbers as truths": ops.reduce_any,
    "floats as classes": lambda x: ops.one_hot(x.cast(ms.float32), 3),
}

#: Functions that compute with a shape or an argument that an operation does not accept.
SHAPES: dict[str, Callable[[Any], Any]] = {
    "a scalar in a concatenation": lambda x: ops.concat([x, x]),
    "an index of a scalar": lambda x: x[0],
    "an axis that is missing": lambda x: ops.reduce_sum(x, axis=3),
    "vectors of different lengths": lambda x: ops.stack([x, x]) + ops.stack([x, x, x]),
    "an item too many": lambda x: ops.reshape(ops.stack([x, x]), [3]),
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_wrong_dtype_is_a_type_error(name: str) -> None:
    for dataset in (Dataset.range(3), Dataset.range(3).map(lambda x: {"a": x, "b": (x, 1.5)}).map(lambda row: row["b"][0])):
        with pytest.raises(InvalidDtypeError) as caught:
            dataset.map(DTYPES[name])
        assert isinstance(caught.value, TypeError) and isinstance(caught.value, InvalidArgumentError)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), InvalidDtypeError)


@pytest.mark.parametrize("name", SHAPES)
def test_a_wrong_shape_is_no_type_error(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Dataset.range(3).map(SHAPES[name])
    assert not isinstance(caught.value, TypeError)


def test_a_wrong_dtype_in_a_predicate() -> None:
    with pytest.raises(InvalidDtypeError):
        Dataset.range(3).filter(lambda x: x + 1.5 > 2)


def test_values_of_another_type_are_refused() -> None:
    dataset = Dataset.range(3)
    for build in (
        lambda: dataset.enumerate("one"),  # type: ignore[arg-type]
        lambda: dataset.take(2.5),  # type: ignore[arg-type]
        lambda: Dataset.range("five"),  # type: ignore[arg-type]
        lambda: Dataset.range(2.5),  # type: ignore[arg-type]
        lambda: dataset.padded_batch(2, padding_values="no"),
        lambda: dataset.map(lambda x: ops.cast(x, ms.float32)).padded_batch(2, padding_values="no"),
    ):
        with pytest.raises(TypeError):
            build()
    for build in (dataset.take, dataset.skip, dataset.batch, dataset.shuffle):
        with pytest.raises(ValueError, match="None"):
            build(None)  # type: ignore[arg-type]
    for value in (object(), [1, "two"]):
        with pytest.raises(ValueError, match="not a valid item"):
            Dataset.from_tensors(value)


def test_what_cannot_be_called_is_refused() -> None:
    dataset = Dataset.range(3)
    for build in (dataset.map, dataset.filter, dataset.flat_map, lambda function: dataset.scan(np.int64(0), function)):
        with pytest.raises(ValueError, match="expected a function"):
            build(3)  # type: ignore[operator]


def test_datasets_to_choose_from_must_be_alike() -> None:
    numbers, texts = Dataset.range(3), Dataset.from_tensor_slices(["a"])
    with pytest.raises(TypeError, match="dataset 1"):
        Dataset.sample_from_datasets([numbers, texts])
    with pytest.raises(TypeError, match="dataset 1"):
        Dataset.choose_from_datasets([numbers, texts], numbers)
    for choices in (texts, numbers.batch(2), numbers.enumerate()):
        with pytest.raises(TypeError, match="choice_dataset"):
            Dataset.choose_from_datasets([numbers], choices)
    # Shapes may differ.
    batches = [Dataset.range(4).batch(2, drop_remainder=True), Dataset.range(3).batch(3, drop_remainder=True)]
    assert [x.tolist() for x in Dataset.choose_from_datasets(batches, Dataset.from_tensor_slices([1, 0]))] == [[0, 1, 2], [0, 1]]


def test_padding_is_nested_as_elements_are() -> None:
    pairs = Dataset.range(3).batch(2).map(lambda x: (x, {"y": x}))
    # A list is one shape, as upstream.
    for shapes in ([4], 4, [[4], {"y": [4]}], ([4], [4])):
        with pytest.raises(TypeError, match="padded_shapes"):
            pairs.padded_batch(2, padded_shapes=shapes)
    for shapes in (([4],), ([4], {"z": [4]})):
        with pytest.raises(ValueError, match="padded_shapes"):
            pairs.padded_batch(2, padded_shapes=shapes)
    batch = next(iter(pairs.padded_batch(2, padded_shapes=([3], {"y": [None]}), padding_values=(7, {"y": 8}))))
    assert batch[0].tolist() == [[0, 1, 7], [2, 7, 7]] and batch[1]["y"].tolist() == [[0, 1], [2, 8]]
    # A single value is for all components.
    batch = next(iter(pairs.padded_batch(2, padding_values=9)))
    assert batch[0].tolist() == batch[1]["y"].tolist() == [[0, 1], [2, 9]]


def test_whole_batches_keep_their_size() -> None:
    batches = Dataset.range(8).batch(4, drop_remainder=True)
    assert batches.rebatch(2).element_spec.shape == (2,) == batches.rebatch([2, 2]).element_spec.shape
    assert [x.tolist() for x in batches.rebatch(2)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert batches.rebatch(3).element_spec.shape == (None,) == batches.rebatch([1, 3]).element_spec.shape
    assert [x.tolist() for x in batches.rebatch(3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    named = batches.map(lambda x: {"a": x, "b": (x, x)}).rebatch(4).element_spec
    assert named["a"].shape == named["b"][1].shape == (4,)


def test_one_bucket_needs_no_boundary() -> None:
    rows = Dataset.from_tensor_slices(["a b", "c", "d e f"]).map(ops.strings_split)
    length = lambda row: ops.shape(row)[0]  # noqa: E731
    made = rows.bucket_by_sequence_length(length, [], [2])
    assert [batch.tolist() for batch in made] == [[["a", "b"], ["c", ""]], [["d", "e", "f"]]]
    even = Dataset.range(3).bucket_by_sequence_length(lambda x: 1, [], [2], no_padding=True, drop_remainder=True)
    assert [batch.tolist() for batch in even] == [[0, 1]]


def test_a_constant_is_a_key_of_windows() -> None:
    grouped = Dataset.range(3).group_by_window(lambda x: np.int64(7), lambda key, rows: rows.batch(2), 2)
    assert [batch.tolist() for batch in grouped] == [[0, 1], [2]]
    with pytest.raises(InvalidArgumentError, match="window of 0"):
        Dataset.range(3).group_by_window(lambda x: np.int64(7), lambda key, rows: rows, 0)


def test_chosen_numbers_have_32_bits() -> None:
    made = tf.data.Dataset.range(2).map(lambda x: (tf.where(x > 0, 1, 0), tf.where(x > 0, 1.5, 0.5), tf.where(x > 0, x, 0)))
    assert [spec.dtype for spec in made.element_spec] == [ms.int32, ms.float32, ms.int64]
    assert [tuple(map(float, row)) for row in made] == [(0, 0.5, 0), (1, 1.5, 1)]
