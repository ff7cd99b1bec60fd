"""An inner function of a dataset uses tensors of the outer function's element, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset

#: Functions of an outer element, and what they yield for 0, 1 and 2.
CAPTURING: list[tuple[Callable[[Any], Dataset], list[Any]]] = [
    (lambda x: Dataset.range(2).map(lambda y: x * 10 + y), [0, 1, 10, 11, 20, 21]),
    (lambda x: Dataset.range(2).map(lambda y: x), [0, 0, 1, 1, 2, 2]),
    (lambda x: Dataset.range(2).map(lambda y: (y, {"x": x})), [(0, {"x": 0}), (1, {"x": 0}), (0, {"x": 1}), (1, {"x": 1}), (0, {"x": 2}), (1, {"x": 2})]),
    (lambda x: Dataset.range(2).map(lambda y: ms.where(x > y, x, y)), [0, 1, 1, 1, 2, 2]),
    (lambda x: Dataset.range(3).filter(lambda y: y < x), [0, 0, 1]),
    (lambda x: Dataset.zip((Dataset.range(3), {"a": Dataset.range(2)})).filter(lambda y, _: y < x), [(0, {"a": 0}), (0, {"a": 0}), (1, {"a": 1})]),
    (lambda x: Dataset.range(3).take_while(lambda y: x > y), [0, 0, 1]),
    (lambda x: Dataset.range(2).scan(np.int64(0), lambda state, y: (state + x + y, (state, x))), [(0, 0), (0, 0), (0, 1), (1, 1), (0, 2), (2, 2)]),
    (lambda x: Dataset.range(2).flat_map(lambda y: Dataset.from_tensors(x + y).repeat(2)), [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]),
    (lambda x: Dataset.range(2).interleave(lambda y: Dataset.zip(Dataset.from_tensors(y), Dataset.from_tensors(x)), 1), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]),
    (lambda x: Dataset.from_tensor_slices(ms.ops.stack([x, x + 1])).map(lambda y: y * x), [0, 0, 1, 2, 4, 6]),
    (lambda x: Dataset.range(3).batch(2).map(lambda rows: rows.sum() + x), [1, 2, 2, 3, 3, 4]),
    (lambda x: Dataset.range(x), [0, 0, 1]),
    (lambda x: Dataset.range(x, 6, 2), [0, 2, 4, 1, 3, 5, 2, 4]),
    (lambda x: Dataset.range(2, x - 1, -1), [2, 1, 0, 2, 1, 2]),
]


def plain(element: Any) -> Any:
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    return tuple(map(plain, element)) if isinstance(element, tuple) else element.tolist() if hasattr(element, "tolist") else element


@pytest.mark.parametrize(("function", "expected"), CAPTURING)
def test_inner_functions_use_outer_elements(function: Callable[[Any], Dataset], expected: list[Any]) -> None:
    assert [plain(element) for element in Dataset.range(3).flat_map(function)] == expected


def test_functions_nest_to_any_depth() -> None:
    def digits(x: Any) -> Dataset:
        def below(y: Any) -> Dataset:
            deepest = Dataset.range(2).filter(lambda z: (y > 0) | (x > 0) | (z > 0))
            return deepest.flat_map(lambda z: Dataset.range(2).map(lambda last: ((x * 10 + y) * 10 + z) * 10 + last))

        return Dataset.range(2).flat_map(below)

    expected = [1000 * x + 100 * y + 10 * z + last for x in (0, 1) for y in (0, 1) for z in (0, 1) for last in (0, 1) if x or y or z]
    assert [int(number) for number in Dataset.range(2).flat_map(digits)] == expected


def test_lines_keep_the_path_of_their_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text("one\ntwo\n")
    lines = Dataset.from_tensor_slices([str(path) for path in paths]).flat_map(lambda path: ms.files.TextLineDataset(path).map(lambda line: (path, line)))
    assert list(lines) == [(str(path), line) for path in paths for line in ("one", "two")]


def test_native_results_of_outer_elements_are_used() -> None:
    def sized(record: Any) -> Dataset:
        image = ms.image.decode_image(record)
        return Dataset.range(2).map(lambda at: (at, ms.ops.shape(image)))

    dataset = Dataset.from_tensors(PNG).flat_map(sized)
    assert [(int(at), shape.tolist()) for at, shape in dataset] == [(0, [1, 1, 3]), (1, [1, 1, 3])]


def test_services_run_functions_of_two_elements() -> None:
    dataset = Dataset.range(4).flat_map(lambda x: Dataset.range(x).map(lambda y: x * 10 + y))
    with ms.local(workers=2, inline=True) as service:
        read = dataset.apply(ms.service.distribute("distributed_epoch", service))
        assert sorted(int(x) for x in read) == [10, 20, 21, 30, 31, 32]


def test_keys_of_groups_refuse_outer_elements() -> None:
    with pytest.raises(ms.errors.UnimplementedError, match="another function's element: zip") as raised:
        Dataset.range(3).flat_map(lambda x: Dataset.range(4).group_by_window(lambda y: x + y, lambda _, window: window.batch(2), 2))
    assert type(raised.value) is ms.errors.UnimplementedError


def test_ranges_refuse_bounds_of_floats() -> None:
    with pytest.raises(ms.errors.InvalidDtypeError, match="range: expected integers"):
        Dataset.from_tensor_slices([1.5]).flat_map(Dataset.range)


#: An image of one red pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
