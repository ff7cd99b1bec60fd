"""Tests of what comes after an element that fails, and of the class of its error: as TensorFlow 2.21 behaves.

The expected outcomes were recorded from TensorFlow. ``frameworks/test_tensorflow_failures.py`` compares them with TensorFlow again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failed_elements import CASES, outcomes

import millstream as ms
from millstream import Dataset, errors

NUMBER = ms.TensorSpec((), ms.int64)


@pytest.mark.parametrize("name", CASES)
def test_elements_follow_a_failed_element(name: str) -> None:
    build, expected = CASES[name]
    assert outcomes(build(Dataset)) == expected


def test_a_cache_keeps_what_did_not_fail() -> None:
    cached = Dataset.range(4).map(lambda x: x // (x - 1)).cache()
    assert outcomes(cached) == [0, "InvalidArgumentError", 2, 1]
    assert outcomes(cached) == [0, 2, 1]


def test_a_failure_of_the_whole_dataset_stays() -> None:
    elements = iter(Dataset.range(5).assert_cardinality(3))
    assert [int(next(elements)) for _ in range(3)] == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(errors.FailedPreconditionError, match="expected 3 elements"):
            next(elements)


def test_a_service_ends_with_the_first_failure(cluster: Callable[..., str]) -> None:
    failing = Dataset.range(4).map(lambda x: x // (x - 1)).apply(ms.service.distribute("parallel_epochs", cluster()))
    elements = iter(failing)
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match="divided by 0"):
            list(elements)


def test_ignored_errors_leave_rows_of_a_zip_aligned() -> None:
    failing = Dataset.range(4).map(lambda x: x // (x - 1))
    rows = Dataset.zip(failing, Dataset.range(10, 14)).ignore_errors()
    assert [(int(x), int(y)) for x, y in rows] == [(0, 10), (2, 12), (1, 13)]


def of_shapes() -> Dataset:
    shapes = [np.zeros(2), np.zeros(3), np.zeros(1), np.zeros(1)]
    return Dataset.from_generator(lambda: iter(shapes), output_signature=ms.TensorSpec((None,), ms.float64))


def test_values_that_do_not_suit_are_invalid_arguments(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(b"12345")
    (tmp_path / "picture").write_bytes(b"no picture")
    pictures = Dataset.from_tensor_slices([b"no picture"])
    for dataset, said in (
        (Dataset.range(3).map(lambda x: 1 // x), "divided by 0"),
        (of_shapes().batch(2), "cannot stack"),
        (of_shapes().map(lambda x: (x, x[:1])).unbatch(), "same number of rows"),
        (ms.FixedLengthRecordDataset(str(tmp_path / "records"), 3), "whole number of records"),
        (Dataset.from_tensor_slices(["x"]).map(lambda x: ms.ops.strings_to_number(x, ms.int64)), "x"),
        (Dataset.choose_from_datasets([Dataset.range(3)], Dataset.from_tensors(np.int64(7))), "a choice is 7"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=said):
            list(dataset)
    assert len(list(pictures)) == 1


def test_damaged_files_are_lost_data(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(b"12345" * 10)
    elements = iter(ms.TFRecordDataset([str(tmp_path / "records")]))
    with pytest.raises(errors.DataLossError):
        next(elements)
    assert list(elements) == []


def test_a_worker_tells_the_class_of_an_error(cluster: Callable[..., str]) -> None:
    target = cluster()
    yields_text = Dataset.from_generator(lambda: iter(["a"]), output_signature=NUMBER)
    for dataset, kind, said in (
        (of_shapes().batch(2), errors.InvalidArgumentError, "cannot stack"),
        (Dataset.range(3).assert_cardinality(2), errors.FailedPreconditionError, "expected 2 elements"),
        (yields_text, errors.InvalidArgumentError, "a tensor of ms.int64"),
    ):
        for follows in (lambda x: x, lambda x: x.prefetch(1)):
            read = follows(dataset.apply(ms.service.distribute("parallel_epochs", target)))
            with pytest.raises(kind, match=said):
                list(read)


@pytest.mark.parametrize(
    ("yields", "signature"),
    [
        (["a"], NUMBER),
        ([[1, 2]], NUMBER),
        ([1], (NUMBER, NUMBER)),
        ([1], {"a": NUMBER}),
        ([["a", "b"]], ms.TensorSpec((), ms.string)),
        ([300], ms.TensorSpec((), ms.uint8)),
    ],
)
def test_what_a_generator_may_not_yield_is_invalid(yields: list[Any], signature: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="generator"):
        list(Dataset.from_generator(lambda: iter(yields), output_signature=signature))


def test_elements_follow_an_invalid_one_of_a_generator() -> None:
    assert outcomes(Dataset.from_generator(lambda: iter(["a", 2, 3]), output_signature=NUMBER)) == ["InvalidArgumentError", 2, 3]

    def raising() -> Iterator[int]:
        yield 1
        raise RuntimeError("no more")

    elements = iter(Dataset.from_generator(raising, output_signature=NUMBER))
    assert int(next(elements)) == 1
    with pytest.raises(errors.UserFunctionError, match="no more") as raised:
        next(elements)
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert list(elements) == []


def test_an_error_shows_no_mixed_position() -> None:
    rows = Dataset.range(4, 9)
    with pytest.raises(errors.InvalidArgumentError, match="element at position 0"):
        list(rows.map(lambda x: x // (x - x)))
    with pytest.raises(errors.InvalidArgumentError) as raised:
        list(rows.batch(2).unbatch().map(lambda x: x // (x - x)))
    assert "position" not in str(raised.value)
