"""Functions of datasets that call native operations: records, text and images."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset


def varint(number: int) -> bytes:
    """Encodes a number as protocol messages do."""
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: list[Any]) -> bytes:
    """Encodes a ``tf.train.Feature``, by its message definition."""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(value) for value in values)))


def features(named: dict[str, list[Any]]) -> bytes:
    return b"".join(field(1, field(1, name.encode()) + field(2, feature(values))) for name, values in named.items())


def example(**named: list[Any]) -> bytes:
    return field(1, features(named))


def sequence_example(context: dict[str, list[Any]], lists: dict[str, list[list[Any]]]) -> bytes:
    rows = {name: b"".join(field(1, feature(row)) for row in items) for name, items in lists.items()}
    return field(1, features(context)) + field(2, b"".join(field(1, field(1, name.encode()) + field(2, row)) for name, row in rows.items()))


RECORDS = [example(label=[7], weights=[0.5, 1.5], words=[b"a", b"bc"]), example(label=[9], weights=[2.0, 3.0])]


def test_features_become_tensors_of_the_function() -> None:
    wanted = {"label": ms.FixedLenFeature([], ms.int64), "weights": ms.FixedLenFeature([2], ms.float32)}

    def parsed(record: Any) -> tuple[Any, Any]:
        made = ms.io.parse_single_example(record, wanted)
        return made["label"] * 10, made["weights"].sum()

    found = list(Dataset.from_tensor_slices(RECORDS).map(parsed))
    assert [(int(label), float(weights)) for label, weights in found] == [(70, 2.0), (90, 5.0)]


def test_parsed_and_original_components_mix() -> None:
    def parsed(index: Any, element: dict[str, Any]) -> dict[str, Any]:
        made = ms.io.parse_single_example(element["record"], {"label": ms.FixedLenFeature([], ms.int64)})
        again = ms.io.parse_single_example(element["record"], {"label": ms.FixedLenFeature([1], ms.int64)})
        return {"sum": made["label"] + index, "twice": again["label"] * 2, "name": element["name"]}

    dataset = Dataset.from_tensor_slices({"record": RECORDS, "name": ["x", "y"]}).enumerate().map(parsed, num_parallel_calls=2)
    found = [(int(row["sum"]), row["twice"].tolist(), row["name"]) for row in dataset]
    assert found == [(7, [14], "x"), (10, [18], "y")]


def test_varying_features_are_vectors_of_a_record() -> None:
    wanted = {"words": ms.VarLenFeature(ms.bytes)}
    sizes = Dataset.from_tensor_slices(RECORDS).map(lambda record: ms.ops.shape(ms.io.parse_single_example(record, wanted)["words"])[0])
    assert [int(size) for size in sizes] == [2, 0]


def test_filters_yield_the_elements_before_the_call() -> None:
    wanted = {"label": ms.FixedLenFeature([], ms.int64)}
    kept = Dataset.from_tensor_slices(RECORDS).filter(lambda record: ms.io.parse_single_example(record, wanted)["label"] > 8)
    assert list(kept) == [RECORDS[1]]
    taken = Dataset.from_tensor_slices({"r": RECORDS, "n": [1, 2]}).take_while(
        lambda element: ms.io.parse_single_example(element["r"], wanted)["label"] < 8
    )
    assert [(int(row["n"]), row["r"]) for row in taken] == [(1, RECORDS[0])]


def test_sequence_examples_have_a_row_for_each_feature() -> None:
    record = sequence_example({"id": [3]}, {"frames": [[1, 2], [3, 4], [5, 6]]})
    context, lists = {"id": ms.FixedLenFeature([], ms.int64)}, {"frames": ms.FixedLenSequenceFeature([2], ms.int64)}

    def parsed(text: Any) -> tuple[Any, Any]:
        of_context, of_lists = ms.io.parse_single_sequence_example(text, context, lists)
        return of_context["id"], of_lists["frames"]

    found = next(iter(Dataset.from_tensors(record).map(parsed)))
    assert int(found[0]) == 3 and found[1].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_batched_records_are_parsed_at_once() -> None:
    wanted = {"weights": ms.FixedLenFeature([2], ms.float32)}
    batches = Dataset.from_tensor_slices(RECORDS).batch(2).map(lambda records: ms.io.parse_example(records, wanted)["weights"])
    assert next(iter(batches)).tolist() == [[0.5, 1.5], [2.0, 3.0]]
    with pytest.raises(ms.errors.UnimplementedError, match=r"use Dataset\.parse_example"):
        Dataset.from_tensor_slices(RECORDS).batch(2).map(lambda records: ms.io.parse_example(records, {"words": ms.VarLenFeature(ms.bytes)}))


def test_methods_read_sparse_and_ragged_features() -> None:
    records = Dataset.from_tensor_slices(RECORDS).batch(2)
    row = next(iter(records.parse_example({"words": ms.RaggedFeature(ms.string), "label": ms.FixedLenFeature([], ms.int64)})))
    assert row["words"].to_list() == [["a", "bc"], []] and row["label"].tolist() == [7, 9]
    sparse = next(iter(records.parse_example({"words": ms.VarLenFeature(ms.bytes)})))["words"]
    assert sparse.values.tolist() == [b"a", b"bc"] and sparse.indices.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"label": 5}, "expected FixedLenFeature"),
        ({"label": ms.FixedLenSequenceFeature([], ms.int64)}, "allow_missing"),
        ({"label": ms.FixedLenFeature([], ms.float64)}, "f64"),
    ],
)
def test_wrong_features_are_refused_at_once(wanted: dict[str, Any], reason: str) -> None:
    with pytest.raises((ms.errors.UnimplementedError, ms.errors.InvalidArgumentError, ValueError), match=reason):
        Dataset.from_tensor_slices(RECORDS).map(lambda record: ms.io.parse_single_example(record, wanted)["label"])


def test_lines_are_split_within_functions() -> None:
    lines = Dataset.from_tensor_slices(["1,x,2.5", "4,y,"])
    found = list(lines.map(lambda line: tuple(ms.io.decode_csv(line, [ms.int64, [0.25]], select_cols=[0, 2]))))
    assert [(int(number), float(price)) for number, price in found] == [(1, 2.5), (4, 0.25)]


def test_calls_outside_of_functions_are_refused() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="a tensor of a function of a dataset"):
        ms.io.parse_single_example(RECORDS[0], {"label": ms.FixedLenFeature([], ms.int64)})


def pixels() -> np.ndarray[Any, Any]:
    return np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)


def test_images_change_within_functions_as_by_methods() -> None:
    dataset = Dataset.from_tensors(pixels())
    cases = [
        (dataset.map(lambda x: ms.image.crop_to_bounding_box(x, 1, 2, 3, 4)), dataset.crop("", 1, 2, 3, 4)),
        (dataset.map(ms.image.flip_left_right), dataset.flip_left_right()),
        (dataset.map(ms.image.flip_up_down), dataset.flip_up_down()),
        (dataset.map(lambda x: ms.image.central_crop(x, 0.5)), dataset.central_crop("", 0.5)),
        (dataset.map(lambda x: ms.image.resize(x, (4, 5), "nearest")), dataset.resize("", (4, 5), method="nearest", antialias=False)),
        (dataset.map(ms.image.rgb_to_grayscale), dataset.rgb_to_grayscale()),
        (dataset.map(lambda x: ms.image.random_crop(x, (4, 5, 3), seed=3)).map(ms.ops.shape), dataset.map(lambda _: np.array([4, 5, 3]))),
    ]
    for within, method in cases:
        assert np.array_equal(next(iter(within)), next(iter(method)))


def test_image_arithmetic_matches_numpy() -> None:
    dataset, image = Dataset.from_tensors(pixels()), pixels()
    scaled = next(iter(dataset.map(lambda x: ms.image.convert_image_dtype(x, ms.float32))))
    np.testing.assert_allclose(scaled, image.astype(np.float32) / 255, rtol=1e-6)
    back = next(iter(dataset.map(lambda x: ms.image.convert_image_dtype(ms.image.convert_image_dtype(x, ms.float32), ms.uint8))))
    assert np.array_equal(back, image)
    standard = next(iter(dataset.map(ms.image.per_image_standardization)))
    floats = image.astype(np.float64)
    np.testing.assert_allclose(standard, (floats - floats.mean()) / max(floats.std(), 1 / np.sqrt(floats.size)), rtol=1e-4, atol=1e-5)
    resized = next(iter(dataset.map(lambda x: ms.image.resize(x, (4, 9)))))
    assert resized.dtype == np.float32 and resized.shape == (4, 9, 3)


def test_services_execute_the_calls() -> None:
    wanted = {"label": ms.FixedLenFeature([], ms.int64)}
    dataset = Dataset.from_tensor_slices(RECORDS).map(lambda record: ms.io.parse_single_example(record, wanted)["label"])
    with ms.local(workers=1, inline=True) as service:
        served = dataset.apply(ms.service.distribute("distributed_epoch", service))
        assert sorted(int(label) for label in served) == [7, 9]
