"""Tests of datasets in this process: each operation yields the same elements as in tf.data."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, ops

PIPELINES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "range": (lambda: Dataset.range(3), [0, 1, 2]),
    "range of three": (lambda: Dataset.range(10, 0, -4), [10, 6, 2]),
    "range of a type": (lambda: Dataset.range(2, output_type=ms.float32), [0.0, 1.0]),
    "from_tensors": (lambda: Dataset.from_tensors([1, 2]), [[1, 2]]),
    "from_tensor_slices": (lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "slices of tuples": (lambda: Dataset.from_tensor_slices(([1, 2], ["a", "b"])), [(1, "a"), (2, "b")]),
    "slices of dicts": (lambda: Dataset.from_tensor_slices({"x": [1, 2]}), [{"x": 1}, {"x": 2}]),
    "map": (lambda: Dataset.range(3).map(lambda x: x * x + 1), [1, 2, 5]),
    "map to a tuple": (lambda: Dataset.range(2).map(lambda x: (x, -x)), [(0, 0), (1, -1)]),
    "map to a dict": (lambda: Dataset.range(2).map(lambda x: {"a": x, "b": 7}), [{"a": 0, "b": 7}, {"a": 1, "b": 7}]),
    "map of a tuple": (lambda: Dataset.from_tensor_slices(([1, 2], [3, 4])).map(lambda x, y: x + y), [4, 6]),
    "map of a dict": (lambda: Dataset.from_tensor_slices({"x": [1, 2]}).map(lambda row: row["x"] * 2), [2, 4]),
    "map with numpy": (lambda: Dataset.range(3).map(lambda x: np.square(2) + np.maximum(x, 1) * np.int64(2)), [6, 6, 8]),
    "map with an array": (lambda: Dataset.range(2).map(lambda x: np.arange(2) + x), [[0, 1], [1, 2]]),
    "parallel map": (lambda: Dataset.range(4).map(lambda x: x + 1, num_parallel_calls=2), [1, 2, 3, 4]),
    "map with where": (lambda: Dataset.range(4).map(lambda x: ms.where(x % 2 == 0, x, -x)), [0, -1, 2, -3]),
    "map with a cast": (lambda: Dataset.range(2).map(lambda x: ms.cast(x, ms.float32) / 2), [0.0, 0.5]),
    "map that stacks": (lambda: Dataset.range(2).map(lambda x: ms.stack([x, x + 1])), [[0, 1], [1, 2]]),
    "map that reduces": (lambda: Dataset.from_tensors([1, 2, 3]).map(ops.reduce_sum), [6]),
    "map that indexes": (lambda: Dataset.from_tensors([[1, 2], [3, 4]]).map(lambda x: x[1, ::-1]), [[4, 3]]),
    "filter": (lambda: Dataset.range(5).filter(lambda x: x % 2 == 1), [1, 3]),
    "take_while": (lambda: Dataset.range(5).take_while(lambda x: x < 2), [0, 1]),
    "batch": (lambda: Dataset.range(5).batch(2), [[0, 1], [2, 3], [4]]),
    "batch without the rest": (lambda: Dataset.range(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
    "unbatch": (lambda: Dataset.range(3).batch(2).unbatch(), [0, 1, 2]),
    "rebatch": (lambda: Dataset.range(5).batch(2).rebatch(3), [[0, 1, 2], [3, 4]]),
    "repeat": (lambda: Dataset.range(2).repeat(2), [0, 1, 0, 1]),
    "endless repeat": (lambda: Dataset.range(2).repeat().take(3), [0, 1, 0]),
    "take all": (lambda: Dataset.range(2).take(-1), [0, 1]),
    "skip": (lambda: Dataset.range(3).skip(1), [1, 2]),
    "skip all": (lambda: Dataset.range(3).skip(-1), []),
    "shard": (lambda: Dataset.range(5).shard(2, 1), [1, 3]),
    "enumerate": (lambda: Dataset.range(7, 9).enumerate(5), [(5, 7), (6, 8)]),
    "concatenate": (lambda: Dataset.range(2).concatenate(Dataset.range(1)), [0, 1, 0]),
    "zip": (lambda: Dataset.zip((Dataset.range(2), Dataset.range(5, 9))), [(0, 5), (1, 6)]),
    "zip of a dict": (lambda: Dataset.zip({"a": Dataset.range(1), "b": Dataset.range(1)}), [{"a": 0, "b": 0}]),
    "cache": (lambda: Dataset.range(2).cache().repeat(2), [0, 1, 0, 1]),
    "prefetch": (lambda: Dataset.range(2).prefetch(ms.AUTOTUNE), [0, 1]),
    "unique": (lambda: Dataset.from_tensor_slices([1, 2, 1]).unique(), [1, 2]),
    "flat_map": (
        lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(Dataset.from_tensor_slices),
        [1, 2, 3, 4],
    ),
    "interleave": (
        lambda: Dataset.range(1, 4).interleave(lambda x: Dataset.from_tensors(x).repeat(2), cycle_length=2),
        [1, 2, 1, 2, 3, 3],
    ),
    "window": (
        lambda: Dataset.range(5).window(3, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(3)),
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]],
    ),
    "group_by_window": (
        lambda: Dataset.range(6).group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), 3),
        [[0, 2, 4], [1, 3, 5]],
    ),
    "padded_batch": (
        lambda: Dataset.range(1, 4)
        .map(lambda x: {"x": x})
        .batch(2)
        .map(lambda row: row["x"])
        .padded_batch(2, padded_shapes=[3], padding_values=-1),
        [[[1, 2, -1], [3, -1, -1]]],
    ),
    "choose_from_datasets": (
        lambda: Dataset.choose_from_datasets(
            [Dataset.range(2), Dataset.range(10, 12)], Dataset.from_tensor_slices([1, 0, 0, 1])
        ),
        [10, 0, 1, 11],
    ),
    "map to nested parts": (
        lambda: Dataset.range(2).map(lambda x: ({"a": (x, 7)}, "text")),
        [({"a": (0, 7)}, "text"), ({"a": (1, 7)}, "text")],
    ),
    "scan": (lambda: Dataset.range(5).scan(np.int64(0), lambda state, x: (state + x, state + x)), [0, 1, 3, 6, 10]),
    "scan of parts": (
        lambda: Dataset.range(3).scan((np.int64(1), np.int64(1)), lambda fib, x: ((fib[1], fib[0] + fib[1]), (fib[0], x))),
        [(1, 0), (1, 1), (2, 2)],
    ),
    "from_generator": (
        lambda: Dataset.from_generator(lambda: iter([(1, "a"), (2, "b")]), output_types=(ms.int32, ms.string)),
        [(1, "a"), (2, "b")],
    ),
    "from_generator with arguments": (
        lambda: Dataset.from_generator(range, args=(2, 5), output_signature=ms.TensorSpec((), ms.int64)),
        [2, 3, 4],
    ),
    "from_generator of a dict": (
        lambda: Dataset.from_generator(lambda: [{"x": [1, 2]}], output_signature={"x": ms.TensorSpec([None], ms.float32)}),
        [{"x": [1.0, 2.0]}],
    ),
    "apply": (lambda: Dataset.range(2).apply(lambda dataset: dataset.skip(1)), [1]),
    "text": (lambda: Dataset.from_tensor_slices(["A b", "C"]).map(ops.strings_lower), ["a b", "c"]),
    "ignore_errors": (lambda: Dataset.range(3).map(lambda x: 6 // x).ignore_errors(), [6, 3]),
}


def plain(value: Any) -> Any:
    """Converts elements to Python's own values."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.parametrize("name", PIPELINES)
def test_operations_yield_what_tf_data_yields(name: str) -> None:
    build, expected = PIPELINES[name]
    dataset = build()
    assert [plain(element) for element in dataset] == expected
    # Every iteration runs a separate pass.
    assert [plain(element) for element in dataset.as_numpy_iterator()] == expected


def test_shuffles_follow_their_seed() -> None:
    passes = [[int(x) for x in dataset] for dataset in [Dataset.range(100).shuffle(100, seed=1)] * 2]
    assert passes[0] != passes[1] and sorted(passes[0]) == sorted(passes[1]) == list(range(100))
    again = [int(x) for x in Dataset.range(100).shuffle(100, seed=1)]
    assert again == passes[0]


def test_every_pass_draws_alike_by_default() -> None:
    parts = [Dataset.range(100), Dataset.range(100, 200)]
    for seed in (4, None):
        for dataset in (Dataset.random(seed).take(20), Dataset.sample_from_datasets(parts, seed=seed)):
            assert numbers(dataset) == numbers(dataset) == numbers(dataset)
        for again in (
            Dataset.random(seed, rerandomize_each_iteration=True).take(20),
            Dataset.sample_from_datasets(parts, seed=seed, rerandomize_each_iteration=True),
        ):
            assert numbers(again) != numbers(again)
    assert numbers(Dataset.random().take(20)) != numbers(Dataset.random().take(20))


def test_no_files_are_no_elements() -> None:
    for dataset in (ms.files.TextLineDataset([]), ms.files.TFRecordDataset([]), ms.files.FixedLengthRecordDataset([], 4)):
        assert list(dataset) == []


def test_a_generator_yields_text_as_str_or_bytes() -> None:
    for yields in (["a", b"b"], [["a", "b"], [b"c", b"d"]], [np.array([b"a", b"b"]), np.array(["c", "d"])]):
        is_nested = not isinstance(yields[0], str)
        for dtype, kind in ((ms.string, str), (ms.bytes, bytes)):
            signature = ms.TensorSpec((2,) if is_nested else (), dtype)
            found = [np.asarray(x, object).reshape(-1).tolist() for x in Dataset.from_generator(lambda given=yields: iter(given), output_signature=signature)]
            assert len(found) == 2 and all(type(item) is kind for items in found for item in items)
    with pytest.raises(ms.errors.InvalidArgumentError, match="ms.bytes"):
        list(Dataset.from_generator(lambda: iter([b"\xff"]), output_signature=ms.TensorSpec((), ms.string)))


def test_element_specs_nest_as_elements_do() -> None:
    dataset = Dataset.from_tensor_slices({"x": np.zeros((4, 2), np.float32), "y": ["a", "b", "c", "d"]}).batch(3)
    assert dataset.element_spec == {
        "x": ms.TensorSpec((None, 2), ms.float32),
        "y": ms.TensorSpec((None,), ms.string),
    }
    assert repr(ms.TensorSpec((), ms.int64)) == "TensorSpec(shape=(), dtype=ms.int64, name=None)"
    assert Dataset.range(2).batch(2, drop_remainder=True).element_spec == ms.TensorSpec([2], "int64")


def test_length_is_known_infinite_or_unknown() -> None:
    assert len(Dataset.range(10).batch(3)) == 4
    endless, unknown = Dataset.range(3).repeat(), Dataset.range(3).filter(lambda x: x > 1)
    assert endless.cardinality() == ms.INFINITE_CARDINALITY and unknown.cardinality() == ms.UNKNOWN_CARDINALITY
    for dataset, said in ((endless, "is infinite"), (unknown, "unknown number")):
        with pytest.raises(TypeError, match=said):
            len(dataset)
        assert dataset


def test_a_mistake_is_raised_where_it_is_made() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="batch"):
        Dataset.range(3).batch(0)
    with pytest.raises(ValueError, match="cast one of them"):
        Dataset.from_tensor_slices((["a"], [1])).map(lambda text, number: text + number)


def test_decisions_of_python_are_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="ms.where"):
        Dataset.range(3).map(lambda x: 1 if x > 1 else 0)
    with pytest.raises(TypeError, match=r"np\.sin.*no value yet"):
        Dataset.range(3).map(np.sin)
    with pytest.raises(TypeError, match="no value yet"):
        Dataset.range(3).map(lambda x: np.array(x))
    with pytest.raises(TypeError, match="not a dataset"):
        Dataset.range(3).flat_map(lambda x: x)


def test_an_elements_error_names_its_place() -> None:
    elements = iter(Dataset.range(-1, 2).map(lambda x: 6 // x))
    assert next(elements) == -6
    with pytest.raises(ms.errors.MillstreamError, match="position 1"):
        next(elements)


def test_nested_elements_keep_their_structure() -> None:
    nested = {"a": (np.arange(2), np.ones(2)), "b": np.arange(2)}
    changed = Dataset.from_tensor_slices(nested).map(lambda row: {"a": (row["a"][0] + 5, row["a"][1]), "b": row["b"]})
    assert [plain(element) for element in changed] == [{"a": (5, 1.0), "b": 0}, {"a": (6, 1.0), "b": 1}]


def test_files_are_read_by_name_and_pattern(tmp_path: Path) -> None:
    for name, lines in (("a.txt", "one\ntwo\n"), ("b.txt", "three\n")):
        (tmp_path / name).write_text(lines)
    expected = ["one", "two", "three"]
    assert list(ms.TextLineDataset([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])) == expected
    files = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
    assert list(files.flat_map(ms.TextLineDataset)) == expected
    assert sorted(files.interleave(ms.TextLineDataset, num_parallel_calls=ms.AUTOTUNE)) == sorted(expected)
    assert [Path(path).name for path in files] == ["a.txt", "b.txt"]


def test_a_file_dataset_is_pickled_as_its_reader(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    dataset = ms.TextLineDataset(str(tmp_path / "lines.txt"))
    copy = pickle.loads(pickle.dumps(dataset))
    assert list(copy) == list(dataset) == ["a", "b"]


def test_a_dataset_is_the_same_after_pickling() -> None:
    dataset = Dataset.range(10).map(lambda x: x * 2).batch(4).with_output("numpy")
    copy = pickle.loads(pickle.dumps(dataset))
    assert [plain(batch) for batch in copy] == [plain(batch) for batch in dataset]
    assert copy.element_spec == dataset.element_spec


def test_options_are_those_of_tf_data() -> None:
    options = ms.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 2
    options.autotune.enabled = False
    assert sorted(int(x) for x in Dataset.range(5).map(lambda x: x + 1, 2).with_options(options)) == [1, 2, 3, 4, 5]
    dataset = Dataset.range(3)
    dataset.options().experimental_deterministic = False
    assert dataset.options().deterministic is False and dataset.map(lambda x: x).options().deterministic is False
    with pytest.raises(AttributeError, match="no such_option"):
        options.such_option = 1
    later = ms.Options(deterministic=True)
    assert options.merge(later).deterministic is True
    assert options.merge(later).threading.private_threadpool_size == 2


def test_python_numbers_have_32_bits_where_possible() -> None:
    dtypes = {
        "int": (3, np.int32),
        "float": ([0.5], np.float32),
        "large": (1 << 40, np.int64),
        "array": (np.arange(3), np.int64),
        "scalar of numpy": (np.float64(1), np.float64),
        "list of numpy": ([np.float64(1)], np.float64),
    }
    for name, (value, dtype) in dtypes.items():
        assert Dataset.from_tensors(value).element_spec.dtype == np.dtype(dtype), name
    constants = Dataset.range(1).map(lambda x: (37.0, [42, 16], "foo")).element_spec
    assert [spec.dtype for spec in constants] == [ms.float32, ms.int32, ms.string]


def test_a_generator_is_held_to_its_signature() -> None:
    ragged = ms.RaggedTensorSpec(shape=(2, None), dtype=ms.int32)
    assert ragged.ragged_rank == 1 and ragged.row_splits[0].shape == (3,)
    dataset = Dataset.from_generator(
        lambda: iter([(42, ms.Ragged.from_rows([[1, 2], [3]]))]), output_signature=(ms.TensorSpec((), ms.int32), ragged)
    )
    ((number, rows),) = dataset
    assert (int(number), rows.to_list()) == (42, [[1, 2], [3]])
    number = ms.TensorSpec((), ms.int64)
    for yields, said in ((("x",), "a tensor of ms.int64"), (((1, 2),), "a tensor of|declared")):
        with pytest.raises(ms.errors.InvalidArgumentError, match=said):
            list(Dataset.from_generator(lambda yields=yields: iter(yields), output_signature=number))
    with pytest.raises(ms.errors.InvalidArgumentError, match="2 components"):
        list(Dataset.from_generator(lambda: iter([1]), output_signature=(number, number)))
    for arguments in ({}, {"output_types": ms.int64, "output_signature": number}):
        with pytest.raises(TypeError, match="output_signature"):
            Dataset.from_generator(lambda: iter([1]), **arguments)
    with pytest.raises(TypeError, match="callable"):
        Dataset.from_generator([1], output_types=ms.int64)  # type: ignore[arg-type]


def test_iterators_are_those_of_tf_data() -> None:
    elements = iter(Dataset.from_tensors(42))
    assert elements.element_spec == ms.TensorSpec((), ms.int32)
    optional = elements.get_next_as_optional()
    assert optional.has_value() and optional.get_value() == 42
    optional = elements.get_next_as_optional()
    assert not optional.has_value()
    with pytest.raises(ms.errors.InvalidArgumentError, match="no value"):
        optional.get_value()
    with pytest.raises(ms.errors.OutOfRangeError):
        elements.get_next()


def test_elements_are_skipped_without_being_made() -> None:
    elements = iter(Dataset.range(10))
    assert (elements.skip(7), int(next(elements)), elements.skip(5)) == (7, 7, 2)
    assert next(elements, None) is None


def test_windows_are_datasets() -> None:
    windows = Dataset.from_tensor_slices(([1, 2, 3], ["a", "b", "c"])).window(2)
    assert [tuple([plain(x) for x in part] for part in window) for window in windows] == [
        ([1, 2], ["a", "b"]),
        ([3], ["c"]),
    ]


def test_reduce_runs_a_function_of_python_here() -> None:
    assert Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x) == 10
    assert Dataset.from_tensors(3).get_single_element() == 3
    with pytest.raises(ms.errors.InvalidArgumentError, match="several"):
        Dataset.range(2).get_single_element()


def numbers(dataset: Dataset) -> list[int]:
    return [int(x) for x in dataset]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_fixed_shuffle_divides_into_parts(seed: int | None) -> None:
    shuffled = Dataset.range(40).shuffle(40, seed, reshuffle_each_iteration=False)
    assert numbers(shuffled) == numbers(shuffled) == numbers(shuffled.repeat(2))[40:] != list(range(40))
    train, rest = shuffled.take(30), shuffled.skip(30).map(lambda x: x)
    for _ in range(2):
        assert sorted(numbers(train) + numbers(rest)) == list(range(40))
    assert sorted(numbers(train.concatenate(rest))) == list(range(40))
    assert numbers(Dataset.range(40).shuffle(40, seed)) != numbers(shuffled)


def test_random_datasets_change_unless_fixed() -> None:
    for again in (None, True, False):
        drawn = Dataset.random(rerandomize_each_iteration=again).take(5)
        parts = [Dataset.range(20), Dataset.range(20, 40)]
        sampled = Dataset.sample_from_datasets(parts, rerandomize_each_iteration=again)
        for dataset in (drawn, sampled):
            assert (numbers(dataset) == numbers(dataset)) is (not again)


def test_datasets_are_zipped_as_they_are_nested() -> None:
    one, two, three = Dataset.range(2), Dataset.range(2, 4), Dataset.range(4, 9)
    assert list(Dataset.zip((one, (two, three)))) == [(0, (2, 4)), (1, (3, 5))]
    assert list(Dataset.zip({"a": one, "b": {"c": two, "d": (three,)}})) == [
        {"a": 0, "b": {"c": 2, "d": (4,)}},
        {"a": 1, "b": {"c": 3, "d": (5,)}},
    ]
    assert list(Dataset.zip(one)) == [0, 1] and list(Dataset.zip(one, two)) == [(0, 2), (1, 3)]
    for wrong in (3, (one, 3)):
        with pytest.raises(TypeError, match="zip: expected datasets"):
            Dataset.zip(wrong)


def test_functions_know_the_types_and_shapes_of_tensors() -> None:
    seen: list[Any] = []

    def looks(x: Any, text: Any) -> Any:
        seen.append((x.dtype, x.shape, text.dtype, (x + 1).sum(axis=0).shape))
        return x * x.shape[1]

    pictures = Dataset.from_tensors((np.ones((2, 3), np.float32), "a"))
    assert next(iter(pictures.map(looks))).tolist() == [[3.0] * 3] * 2
    assert seen == [(ms.float32, (2, 3), ms.string, (3,))]
    varying = Dataset.range(3).batch(2).map(lambda x: x if x.shape[0] is None else -x)
    assert [x.tolist() for x in varying] == [[0, 1], [2]]


@pytest.mark.parametrize(
    "places",
    [(..., 0), (0, ...), (..., slice(1, None), 0), (...,), (None,), (0, None), (..., None), (slice(None), None, 1, ..., None)],
)
def test_places_are_those_of_numpy(places: tuple[Any, ...]) -> None:
    whole = np.arange(24).reshape(2, 3, 4)
    (made,) = Dataset.from_tensors(whole).map(lambda x: x[places])
    assert made.tolist() == whole[places].tolist() and made.shape == whole[places].shape


def test_none_parts_vanish_and_lists_become_tuples() -> None:
    made = Dataset.range(2).map(lambda x: (x, None, {"a": None, "b": x}))
    assert list(made) == [(0, None, {"a": None, "b": 0}), (1, None, {"a": None, "b": 1})]
    assert list(Dataset.range(2).map(lambda x: [x, x + 1])) == [(0, 1), (1, 2)]
    ((vector, _),) = Dataset.range(1).map(lambda x: ([x, x + 1], x))
    assert vector.tolist() == [0, 1]


def test_windows_of_tuples_and_dicts_come_apart() -> None:
    pairs = Dataset.zip((Dataset.range(4), Dataset.range(4, 8))).window(2)
    expected = [([0, 1], [4, 5]), ([2, 3], [6, 7])]

    def listed(dataset: Dataset) -> list[Any]:
        return [(a.tolist(), b.tolist()) for a, b in dataset]

    assert listed(pairs.flat_map(lambda a, b: Dataset.zip((a.batch(2), b.batch(2))))) == expected
    assert listed(pairs.flat_map(lambda window: window.batch(2))) == expected
    named = Dataset.zip({"a": Dataset.range(4), "b": Dataset.range(4, 8)}).window(2)
    assert listed(named.flat_map(lambda window: Dataset.zip((window["a"].batch(2), window["b"].batch(2))))) == expected
    with pytest.raises(TypeError, match="not a dataset"):
        pairs.flat_map(lambda a, b: 3)


def test_window_sizes_may_depend_on_keys() -> None:
    def reduced(_: Any, window: Dataset) -> Dataset:
        return window.batch(9)

    grouped = Dataset.range(10).group_by_window(lambda x: x % 2, reduced, window_size_func=lambda key: key + 2)
    assert [x.tolist() for x in grouped] == [[0, 2], [1, 3, 5], [4, 6], [8], [7, 9]]
    for sizes in ({}, {"window_size": 2, "window_size_func": lambda key: key}):
        with pytest.raises(ValueError, match="one of both"):
            Dataset.range(10).group_by_window(lambda x: x % 2, reduced, **sizes)


def test_buckets_are_padded_as_is_said() -> None:
    rows = Dataset.from_generator(lambda: ([7] * n for n in (1, 4, 2, 3)), output_signature=ms.TensorSpec([None], ms.int32))

    def buckets(**padding: Any) -> list[Any]:
        by_length = rows.bucket_by_sequence_length(lambda x: ms.ops.shape(x)[0], [3], [2, 2], **padding)
        return [x.tolist() for x in by_length]

    assert buckets() == [[[7, 0], [7, 7]], [[7, 7, 7, 7], [7, 7, 7, 0]]]
    assert buckets(padded_shapes=[4], padding_values=-1) == [
        [[7, -1, -1, -1], [7, 7, -1, -1]],
        [[7, 7, 7, 7], [7, 7, 7, -1]],
    ]
    with pytest.raises(ms.errors.UnimplementedError, match="pad_to_bucket_boundary"):
        buckets(padded_shapes=[4], pad_to_bucket_boundary=True)
    with pytest.raises(ValueError, match="2 sizes for 3 buckets"):
        rows.bucket_by_sequence_length(lambda x: ms.ops.shape(x)[0], [2, 3], [2, 2])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda d: d.batch(-1), "batch_size=-1"),
        (lambda d: d.shard(3, -1), "index=-1"),
        (lambda d: d.interleave(lambda x: Dataset.range(2), cycle_length=2, block_length=0), "block_length=0"),
        (lambda d: Dataset.range(), "found 0 numbers"),
        (lambda d: Dataset.range(1, 2, 3, 4), "found 4 numbers"),
    ],
)
def test_numbers_that_cannot_be_are_named(made: Callable[[Dataset], Dataset], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(Dataset.range(3))


def test_padding_has_the_dtype_of_its_rows() -> None:
    with pytest.raises(TypeError, match=r"1\.5 is not a value of ms\.int64"):
        Dataset.range(3).batch(2).padded_batch(2, padding_values=1.5)
    assert [x.tolist() for x in Dataset.range(3).batch(2).padded_batch(2, padding_values=np.float32(-1))] == [[[0, 1], [2, -1]]]


@pytest.mark.parametrize(
    "function",
    [
        np.mean,
        np.sum,
        lambda x: np.max(x, axis=0),
        lambda x: np.min(x, axis=1, keepdims=True),
        lambda x: np.stack([x, x]),
        lambda x: np.concatenate([x, x]),
        lambda x: np.where(x > 1, x, 0),
        lambda x: np.reshape(x, (3, 2)),
        np.transpose,
        lambda x: np.expand_dims(x, 0),
        lambda x: x * len(x),
    ],
)
def test_functions_of_numpy_compute_what_they_say(function: Callable[[Any], Any]) -> None:
    whole = np.arange(6, dtype=np.float64).reshape(2, 3)
    (made,) = Dataset.from_tensors(whole).map(function)
    assert np.array_equal(made, function(whole))


@pytest.mark.parametrize("function", [float, int, round, np.cumsum, len])
def test_symbolic_values_are_no_python_numbers(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="no value yet|known only when"):
        Dataset.range(3).map(function)


def test_foreign_objects_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="another dataset, not \\[1"):
        Dataset.range(2).concatenate([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from_rows"):
        Dataset.from_tensor_slices([[1, 2], [3]])


def test_seeds_and_paths_may_be_of_any_kind(tmp_path: Path) -> None:
    for seed in (-1, np.int64(-5), 2**70):
        assert numbers(Dataset.range(9).shuffle(9, seed)) == numbers(Dataset.range(9).shuffle(9, seed))
        assert len(numbers(Dataset.random(seed).take(2))) == 2
    (tmp_path / "a.txt").write_text("one")
    assert list(Dataset.list_files(tmp_path / "*.txt", seed=-3)) == list(Dataset.list_files([tmp_path / "a.txt"]))
    assert numbers(Dataset.range(3).cache(tmp_path / "kept").repeat(2)) == [0, 1, 2] * 2
    assert numbers(Dataset.range(3).snapshot(tmp_path / "taken")) == [0, 1, 2]


def test_memory_caches_outlive_a_loop() -> None:
    cached = Dataset.range(100).shuffle(100).cache()
    first = [int(x) for x in cached]
    assert [int(x) for x in cached] == first != sorted(first)
    assert [int(x) for x in cached.map(lambda x: x + 1)] == [x + 1 for x in first]
    other = [int(x) for x in Dataset.range(100).shuffle(100).cache()]
    assert other != first, "another dataset has another cache"


def test_memory_caches_keep_whole_passes_only() -> None:
    cached = Dataset.range(100).shuffle(100).cache()
    next(iter(cached))
    orders = [[int(x) for x in cached] for _ in range(2)]
    assert orders[0] == orders[1] and sorted(orders[0]) == list(range(100))


def test_zip_completes_the_caches_of_all_inputs() -> None:
    def cached(seed: int) -> Dataset:
        return Dataset.range(50).shuffle(50, seed).cache()

    pairs = [(int(x), int(y)) for x, y in Dataset.zip(cached(1), cached(2)).repeat(2)]
    assert pairs[:50] == pairs[50:]


def test_lists_in_functions_are_one_tensor_for_sources() -> None:
    assert [int(x) for x in Dataset.range(3).flat_map(lambda x: Dataset.from_tensor_slices([x]))] == [0, 1, 2]
    pairs = Dataset.range(2).flat_map(lambda x: Dataset.from_tensor_slices([x, x + 10]))
    assert [int(x) for x in pairs] == [0, 10, 1, 11]
    whole = Dataset.range(2).flat_map(lambda x: Dataset.from_tensors([x, x + 10]))
    assert [x.tolist() for x in whole] == [[0, 10], [1, 11]]
    apart = Dataset.range(2).flat_map(lambda x: Dataset.from_tensors((x, x + 10)))
    assert [(int(x), int(y)) for x, y in apart] == [(0, 10), (1, 11)]
