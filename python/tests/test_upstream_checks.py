"""Tests of mistakes that TensorFlow refuses when a dataset is built, and of options that datasets of several inputs take over."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset


def with_options(dataset: Dataset, deterministic: bool | None = None, threads: int | None = None) -> Dataset:
    options = ms.Options()
    options.deterministic = deterministic
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


def test_zip_takes_datasets_in_one_way() -> None:
    a, b = Dataset.range(2), Dataset.range(3)
    with pytest.raises(TypeError, match="both"):
        Dataset.zip(a, datasets=b)
    for nothing in (lambda: Dataset.zip(), lambda: Dataset.zip(()), lambda: Dataset.zip(datasets={})):
        with pytest.raises(TypeError, match="at least one dataset"):
            nothing()
    assert [(int(x), int(y)) for x, y in Dataset.zip(datasets=(a, b))] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "joined",
    [
        lambda a, b: Dataset.zip(a, b),
        lambda a, b: Dataset.zip({"a": a, "b": (b,)}),
        lambda a, b: a.concatenate(b),
        lambda a, b: Dataset.sample_from_datasets([a, b]),
        lambda a, b: Dataset.choose_from_datasets([a, b], Dataset.range(2)),
    ],
)
def test_joined_datasets_merge_their_options(joined: Callable[[Dataset, Dataset], Dataset]) -> None:
    plain, unordered, pool = Dataset.range(2), with_options(Dataset.range(3), deterministic=False), with_options(Dataset.range(3), True, 3)
    assert joined(plain, unordered).options().deterministic is False
    merged = joined(unordered, pool).options()
    assert (merged.deterministic, merged.threading.private_threadpool_size) == (True, 3)
    assert unordered.options().deterministic is False and plain.options().deterministic is None


def test_rows_of_different_numbers_are_refused() -> None:
    uneven = Dataset.from_tensors((np.zeros(2), np.zeros(3)))
    for call in (uneven.unbatch, lambda: uneven.rebatch(2)):
        with pytest.raises(ValueError, match="components of 2 and of 3 rows"):
            call()
    unknown = Dataset.from_generator(lambda: iter([(np.zeros(2), np.zeros(3))]), output_signature=(ms.TensorSpec((None,), ms.float64),) * 2)
    with pytest.raises(ms.errors.InvalidArgumentError, match="same number of rows"):
        list(unknown.unbatch())


@pytest.mark.parametrize("made", [ms.TFRecordDataset, ms.TextLineDataset, lambda paths: ms.FixedLengthRecordDataset(paths, 3)])
def test_paths_are_text(made: Callable[[Any], Dataset], tmp_path: pathlib.Path) -> None:
    for wrong in ([1, 2], 1, ["a", None], np.arange(3)):
        with pytest.raises(TypeError, match="expected a path"):
            made(wrong)
    with pytest.raises(TypeError, match="dataset of paths"):
        made(Dataset.range(3))
    (tmp_path / "empty").write_bytes(b"")
    path = tmp_path / "empty"
    for right in (path, str(path), bytes(path), [path], (bytes(path),), np.array([str(path)]), Dataset.from_tensor_slices([str(path)])):
        assert list(made(right)) == []


def test_scan_keeps_the_dtypes_of_its_state() -> None:
    zero = np.int64(0)
    for function in (
        lambda state, x: (state.cast("float32"), x),
        lambda state, x: ((state, state), x),
        lambda state, x: x,
    ):
        with pytest.raises(TypeError, match="scan_func"):
            Dataset.range(3).scan(zero, function)
    grown = Dataset.range(3).scan(np.zeros(0, np.int64), lambda state, x: (ms.concat([state, [x]], 0), x))
    assert [int(x) for x in grown] == [0, 1, 2]


def test_outer_elements_zip_with_inner_datasets() -> None:
    def pairs(x: Any) -> Dataset:
        return Dataset.zip(Dataset.range(2), Dataset.from_tensors(x).repeat()).map(lambda y, x: x * 10 + y)

    assert [int(x) for x in Dataset.range(3).flat_map(pairs)] == [0, 1, 10, 11, 20, 21]
    chosen = Dataset.range(2).flat_map(
        lambda x: Dataset.choose_from_datasets([Dataset.from_tensors(x + 5), Dataset.range(3)], Dataset.range(2).map(lambda i: 1 - i), False)
    )
    assert [int(x) for x in chosen] == [0, 5, 0, 6]
