"""Tests of the arguments and the defaults of image operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset


def pictures() -> Dataset:
    return Dataset.from_tensors(np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3))


@pytest.mark.parametrize(
    ("method", "before", "named"),
    [("center_crop", (), {}), ("random_crop", (), {"seed": 3}), ("crop", (1, 2), {})],
)
def test_a_size_is_a_pair_or_two_numbers(method: str, before: tuple[int, ...], named: dict[str, Any]) -> None:
    crop = getattr(pictures(), method)
    one, two = next(iter(crop("", *before, (4, 5), **named))), next(iter(crop("", *before, 4, 5, **named)))
    assert one.shape == (4, 5, 3) and np.array_equal(one, two)
    for wrong in ((4,), ((4, 5), 6), ((4, 5, 6),)):
        with pytest.raises(ms.errors.InvalidArgumentError, match="a size is height and width"):
            crop("", *before, *wrong)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("resize", ((4, 5),)), ("random_resized_crop", ((4, 5),)), ("center_crop", (4, 5)), ("random_flip_left_right", ()), ("normalize", ((0.5,), (0.5,)))],
)
def test_pictures_are_computed_in_parallel_by_default(method: str, arguments: tuple[Any, ...]) -> None:
    graph = getattr(pictures(), method)("", *arguments)._graph
    assert graph.to_bytes() == graph.parallel(0).to_bytes() != graph.parallel(1).to_bytes()
