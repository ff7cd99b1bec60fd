"""Tests of options, statistics, saved datasets, positions of iterators, and Python within functions, by TensorFlow's names."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import _debugging
from millstream import compat as tf

Dataset = tf.data.Dataset
GROUPS = ("threading", "autotune", "experimental_distribute", "experimental_optimization", "experimental_service", "experimental_stats")


def numbers(dataset: Any) -> list[int]:
    return [int(x) for x in dataset]


def every_option() -> Iterator[tuple[str, str]]:
    """Yields the group and the name of each option."""
    for field in dataclasses.fields(tf.data.Options):
        if field.name not in GROUPS:
            yield "", field.name
    for group in GROUPS:
        for field in dataclasses.fields(getattr(tf.data.Options(), group)):
            yield group, field.name


#: A value of each option that asks for something else than the default.
VALUES: dict[str, Any] = {
    "aggregator": tf.data.experimental.StatsAggregator(),
    "auto_shard_policy": tf.data.experimental.AutoShardPolicy.DATA,
    "autotune_algorithm": tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB,
    "cpu_budget": 2,
    "counter_prefix": "c",
    "dataset_name": "d",
    "enabled": False,
    "experimental_symbolic_checkpoint": False,
    "external_state_policy": tf.data.experimental.ExternalStatePolicy.IGNORE,
    "framework_type": ["x"],
    "initial_parallelism": 2,
    "map_and_batch_fusion": False,
    "max_intra_op_parallelism": 2,
    "min_parallelism": 2,
    "num_devices": 2,
    "prefix": "p",
    "private_threadpool_size": 2,
    "ram_budget": 1 << 30,
    "tags": (("bytes", "x"),),
}
#: Options that change no operation, and that other tests show to act.
ACT_ELSEWHERE = ("aggregator", "auto_shard_policy", "experimental_warm_start", "prefix", "tags")


@pytest.mark.parametrize(("group", "name"), list(every_option()))
def test_an_option_acts_or_warns(group: str, name: str) -> None:
    options = tf.data.Options()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        setattr(getattr(options, group) if group else options, name, VALUES.get(name, True))
    changed = Dataset.range(3).with_options(options)._graph.to_bytes() != Dataset.range(3).with_options(tf.data.Options())._graph.to_bytes()
    has_said = any("has no effect" in str(each.message) and each.filename == __file__ for each in warned)
    assert changed is not has_said or (name in ACT_ELSEWHERE and not has_said)


def test_options_for_what_is_done_say_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = tf.data.Options()
        options.experimental_slack = False
        options.experimental_symbolic_checkpoint = True
        options.experimental_optimization.map_and_batch_fusion = True
        options.experimental_optimization.filter_fusion = False
        assert tf.data.Options().merge(options) == options


def test_groups_of_options_merge_one_by_one() -> None:
    one, other = tf.data.Options(), tf.data.Options()
    one.threading.private_threadpool_size, other.threading.max_intra_op_parallelism = 3, 2
    one.experimental_optimization.map_fusion, other.experimental_optimization.map_fusion = True, False
    merged = one.merge(other)
    assert (merged.threading.private_threadpool_size, merged.threading.max_intra_op_parallelism) == (3, 2)
    assert merged.experimental_optimization.map_fusion is False and one.experimental_optimization.map_fusion is True


def test_a_warm_start_computes_before_the_first_request() -> None:
    begun = threading.Event()

    def generate() -> Iterator[int]:
        begun.set()
        yield from range(3)

    options = tf.data.Options()
    options.experimental_warm_start = True
    iterator = iter(Dataset.from_generator(generate, output_signature=tf.TensorSpec((), tf.int64)).with_options(options))
    assert begun.wait(60)
    assert numbers(iterator) == [0, 1, 2]


def test_statistics_have_a_prefix_and_both_measures() -> None:
    aggregator, options = tf.data.experimental.StatsAggregator(), tf.data.Options()
    options.experimental_stats.aggregator, options.experimental_stats.prefix = aggregator, "train/"
    rows = Dataset.from_tensor_slices({"a": [1, 2], "b": ["x", "yy"]})
    rows = rows.apply(tf.data.experimental.latency_stats("wait")).apply(tf.data.experimental.bytes_produced_stats("size"))
    assert len(list(rows.with_options(options))) == 2 and len(list(rows.with_options(options).as_numpy_iterator())) == 2
    summary = aggregator.get_summary()
    assert set(summary) == {"train/wait", "train/size"} and summary["train/wait"]["count"] == 4
    assert (summary["train/size"]["min"], summary["train/size"]["max"]) == (5, 6)
    assert list(rows) and aggregator.get_summary() == summary


# Sizes and weights.


def test_a_shuffle_takes_in_the_whole_dataset() -> None:
    known, unknown = Dataset.range(100), Dataset.range(200).filter(lambda x: x % 2 == 0)
    for dataset in (known, unknown, Dataset.range(0)):
        shuffled = numbers(dataset.shuffle(tf.data.UNKNOWN_CARDINALITY, seed=1))
        assert sorted(shuffled) == numbers(dataset) and (not shuffled or shuffled != sorted(shuffled))
    with pytest.raises(ms.errors.InvalidArgumentError, match="infinite"):
        known.repeat().shuffle(tf.data.UNKNOWN_CARDINALITY)


def test_weights_may_differ_from_draw_to_draw() -> None:
    parts = [Dataset.range(1000), Dataset.range(1000, 2000), Dataset.range(2000, 3000)]
    schedule = Dataset.from_tensor_slices(np.array([[1, 0, 0]] * 3 + [[0, 2.5, 0]] * 2 + [[0, 0, 1]], np.float32))
    assert numbers(Dataset.sample_from_datasets(parts, schedule)) == [0, 1, 2, 1000, 1001, 2000]
    mixed = Dataset.from_tensors(np.array([3, 0, 1], np.float32)).repeat(1000)
    drawn = numbers(Dataset.sample_from_datasets(parts, mixed, seed=7))
    assert 680 < sum(x < 1000 for x in drawn) < 820 and not any(1000 <= x < 2000 for x in drawn)
    assert drawn == numbers(Dataset.sample_from_datasets(parts, mixed, seed=7))
    with pytest.raises(ValueError, match="3 datasets, found 2"):
        Dataset.sample_from_datasets(parts, Dataset.from_tensors([0.5, 0.5]))
    with pytest.raises(TypeError, match="vectors of floats"):
        Dataset.sample_from_datasets(parts, Dataset.from_tensors([1, 2, 3]))
    with pytest.raises(ValueError, match="at least one dataset"):
        Dataset.sample_from_datasets([])


def test_window_keys_are_refused_by_name() -> None:
    for use in (lambda x, key: x + key, lambda x, key: key * 2, lambda x, key: x * (key == 1)):
        with pytest.raises(ms.errors.UnimplementedError, match="the key of a window"):
            Dataset.range(4).group_by_window(lambda x: x % 2, lambda key, rows, use=use: rows.map(lambda x: use(x, key)), 2)


# Saved datasets.


def test_a_saved_dataset_is_replaced_as_a_whole(tmp_path: Path) -> None:
    place = tmp_path / "saved"
    Dataset.range(3).save(place)

    def fail(x: Any) -> Any:
        raise ValueError("no")

    failing = Dataset.range(5).map_python(fail, element_spec=tf.TensorSpec((), tf.int64))
    with pytest.raises(ms.errors.UserFunctionError):
        failing.save(place)
    assert numbers(Dataset.load(place)) == [0, 1, 2] and [entry.name for entry in tmp_path.iterdir()] == ["saved"]
    Dataset.range(7).save(place)
    assert numbers(Dataset.load(place)) == list(range(7)) and [entry.name for entry in tmp_path.iterdir()] == ["saved"]


def test_composite_elements_are_saved_with_their_specs(tmp_path: Path) -> None:
    rows = tf.data.experimental.from_list([[1], [2, 2]]).ragged_batch(2).map_python(lambda x: (x, {"n": 1, "t": b"x"}))
    rows.save(tmp_path / "saved", "GZIP")
    loaded = Dataset.load(tmp_path / "saved")
    assert loaded.element_spec == rows.element_spec
    ((ragged, others),) = loaded
    assert ragged.to_list() == [[1], [2, 2]] and int(others["n"]) == 1 and others["t"] == b"x"


def test_empty_datasets_are_saved(tmp_path: Path) -> None:
    Dataset.range(0).save(tmp_path / "saved")
    loaded = Dataset.load(tmp_path / "saved")
    assert list(loaded) == [] and loaded.element_spec == tf.TensorSpec((), tf.int64)


def test_other_directories_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ms.errors.FailedPreconditionError, match="other files"):
        Dataset.range(3).save(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_saves_and_loads_refuse_what_they_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ms.errors.UnimplementedError, match="shard_func"):
        Dataset.range(3).save(tmp_path / "a", shard_func=lambda x: x)
    with pytest.raises(ms.errors.UnimplementedError, match="checkpoint_args"):
        Dataset.range(3).save(tmp_path / "a", checkpoint_args={})
    with pytest.raises(ms.errors.InvalidArgumentError, match="with an end"):
        Dataset.range(3).repeat().save(tmp_path / "a")
    with pytest.raises(ValueError, match="compression"):
        Dataset.range(3).save(tmp_path / "a", "ZIP")
    with pytest.raises(ms.errors.UnimplementedError, match="reader_func"):
        Dataset.range(3).snapshot(str(tmp_path), reader_func=lambda files: files)
    Dataset.range(3).save(tmp_path / "a")
    with pytest.raises(ms.errors.InvalidArgumentError, match="expected elements"):
        Dataset.load(tmp_path / "a", tf.TensorSpec((), tf.int32))
    with pytest.raises(TypeError, match="reader_func"):
        Dataset.load(tmp_path / "a", reader_func=lambda files: 3)


def test_object_stores_are_read_with_a_spec() -> None:
    with pytest.raises(ms.errors.NotFoundError, match="element_spec"):
        Dataset.load("s3://bucket/saved")
    assert Dataset.load("s3://bucket/saved", tf.TensorSpec((), tf.int64)).element_spec == tf.TensorSpec((), tf.int64)
    with pytest.raises(ms.errors.UnimplementedError, match="of this machine"):
        Dataset.range(3).save("s3://bucket/saved")


def test_a_load_waits_for_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "later"
    saving = threading.Timer(0.3, lambda: Dataset.range(3).save(place))
    saving.start()
    try:
        assert numbers(Dataset.load(place, wait=True)) == [0, 1, 2]
    finally:
        saving.join()
    monkeypatch.setattr("millstream._saving._WAIT_S", 0.0)
    with pytest.raises(ms.errors.DeadlineExceededError, match="within 0 s"):
        Dataset.load(tmp_path / "never", wait=True)


def test_a_service_computes_what_is_saved(cluster: Callable[..., str], tmp_path: Path) -> None:
    target = cluster(workers=2)
    squares = Dataset.range(100).map(lambda x: x * x)
    tf.data.experimental.distributed_save(squares, str(tmp_path / "saved"), target)
    assert numbers(Dataset.load(tmp_path / "saved", wait=True)) == [x * x for x in range(100)]
    pairs = Dataset.zip((squares, Dataset.range(100))).map(lambda x, y: x + y)
    # Two workers share the splits of each source on their own, so that only one worker pairs all elements.
    tf.data.experimental.distributed_save(pairs, str(tmp_path / "pairs"), cluster(workers=1))
    assert numbers(Dataset.load(tmp_path / "pairs", wait=True)) == [x * x + x for x in range(100)]


def test_a_named_job_is_saved_pass_by_pass(cluster: Callable[..., str], tmp_path: Path) -> None:
    read = Dataset.range(5).apply(ms.service.distribute("parallel_epochs", cluster(), job_name="saved"))
    assert numbers(read) == [0, 1, 2, 3, 4]
    read.save(tmp_path / "saved")
    assert sorted(numbers(Dataset.load(tmp_path / "saved"))) == [0, 1, 2, 3, 4]


# Positions.


def test_a_restored_position_draws_as_the_saved_one() -> None:
    shuffled = Dataset.range(50).shuffle(50)
    next(iter(shuffled))
    iterator = shuffled.as_numpy_iterator()
    first = [int(iterator.next()) for _ in range(20)]
    state = iterator.save()
    rest = numbers(iterator)
    for _ in range(2):
        other = shuffled.as_numpy_iterator()
        other.restore(state)
        assert numbers(other) == rest
    assert sorted(first + rest) == list(range(50)) and len(state) < 1024


def test_positions_are_of_one_dataset(cluster: Callable[..., str]) -> None:
    state = Dataset.range(3).as_numpy_iterator().save()
    with pytest.raises(ms.errors.InvalidArgumentError, match="another"):
        Dataset.range(4).as_numpy_iterator().restore(state)
    with pytest.raises(ms.errors.InvalidArgumentError, match="a state that save returned"):
        Dataset.range(4).as_numpy_iterator().restore(b"?")
    served = Dataset.range(3).apply(ms.service.distribute("parallel_epochs", cluster()))
    with pytest.raises(ms.errors.FailedPreconditionError, match="state of ms.DataLoader"):
        served.as_numpy_iterator().save()


# Functions.


def test_python_within_a_function_runs_on_workers(processes: ms.LocalService) -> None:
    offset = 100

    def computed(x: Any) -> Any:
        doubled = tf.numpy_function(lambda value: value * 2 + offset, [x], tf.int64)
        text = tf.py_function(lambda value: f"number {value.numpy()}", [x], tf.string)
        return {"in": x, "out": doubled + 1, "text": text}

    dataset = Dataset.range(20).map(computed).apply(ms.service.distribute("distributed_epoch", processes))
    found = sorted((int(row["in"]), int(row["out"]), row["text"]) for row in dataset)
    assert found == [(x, x * 2 + 101, f"number {x}") for x in range(20)]


def test_python_within_a_function_must_keep_its_types() -> None:
    with pytest.raises(ms.errors.MillstreamError, match=r"expected a result of ms\.int64, found ms\.int32"):
        list(Dataset.range(1).map(lambda x: tf.numpy_function(lambda value: value.astype(np.int32), [x], tf.int64)))
    with pytest.raises(ms.errors.MillstreamError, match="expected 2 results, found 1"):
        list(Dataset.range(1).map(lambda x: tf.numpy_function(lambda value: (value,), [x], [tf.int64, tf.int64])))
    with pytest.raises(ValueError, match="Tout"):
        tf.numpy_function(lambda x: x, [1])
    with pytest.raises(ms.errors.UnimplementedError, match="at least one result"):
        Dataset.range(1).map(lambda x: tf.numpy_function(lambda value: None, [x], []))


def test_empty_byte_strings_of_python_keep_their_type() -> None:
    spec = (tf.TensorSpec((None,), ms.bytes), tf.RaggedTensorSpec((None, None), ms.bytes))
    empty = np.empty(0, object)
    (found,) = Dataset.range(1).map_python(lambda x: (empty, ms.Ragged(empty, [0, 0])), element_spec=spec)
    assert found[0].shape == (0,) and found[1].to_list() == [[]]


def test_random_numbers_are_arrays_but_not_within_functions() -> None:
    assert Dataset.from_tensor_slices(tf.random.uniform([4, 10])).element_spec == tf.TensorSpec((10,), tf.float32)
    drawn = [tf.random.uniform([3], maxval=10, dtype=tf.int32, seed=seed) for seed in (1, 1, 2)]
    assert (drawn[0] == drawn[1]).all() and drawn[0].dtype == np.int32
    for name in ("uniform", "normal", "truncated_normal"):
        with pytest.raises(ms.errors.UnimplementedError, match="called once"):
            Dataset.range(3).map(lambda x, name=name: x + getattr(tf.random, name)([1]))
    for function in (lambda w: tf.data.Dataset.from_tensors(tf.random.normal([1])), lambda w: w.map(lambda x: tf.random.shuffle([x, x]))):
        with pytest.raises(ms.errors.UnimplementedError, match="called once"):
            Dataset.range(3).window(2).flat_map(function)
    with pytest.raises(ms.errors.UnimplementedError, match="called once"):
        Dataset.range(3).scan(np.int64(0), lambda state, x: (state, tf.random.uniform([])))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: tf.Variable(3), "no state"),
        (lambda x: tf.TensorArray(tf.int64, size=2), "whole tensors"),
        (lambda x: tf.lookup.experimental.DenseHashTable(), "no state"),
        (lambda x: tf.lookup.experimental.MutableHashTable(), "no state"),
        (lambda x: tf.while_loop(lambda i: i < x, lambda i: i + 1, [0]), "no loops"),
        (lambda x: tf.random.Generator(), "variable"),
        (lambda x: tf.zeros([x]), "no shapes of values"),
        (lambda x: tf.fill([x], 1), "no shapes of values"),
        (lambda x: tf.range(x), "no shapes of values"),
        (lambda x: tf.where(x > 1), "how many places"),
        (lambda x: tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 3), "SipHash"),
        (lambda x: tf.strings.as_string(tf.cast(x, tf.float32)), "integers and Booleans"),
        (lambda x: tf.debugging.assert_equal(x, x), "never run"),
        (lambda x: tf.map_fn(lambda y: y, x), "known leading length"),
    ],
)
def test_what_functions_cannot_do_is_refused_by_name(function: Callable[[Any], Any], reason: str) -> None:
    with pytest.raises(NotImplementedError, match=reason):
        Dataset.range(3).map(function)


def test_a_check_of_numbers_names_its_message() -> None:
    ratios = Dataset.from_tensor_slices([1.0, 0.0]).map(lambda x: tf.debugging.check_numerics(1.0 / x, "the ratio"))
    with pytest.raises(ms.errors.InvalidArgumentError, match="the ratio : NaN or Inf"):
        list(ratios)
    assert [float(x) for x in ratios.ignore_errors()] == [1.0]


@pytest.mark.parametrize(
    ("axis", "expected"), [(None, "a-b-c-d"), (0, ["a-c", "b-d"]), (1, ["a-b", "c-d"]), (-1, ["a-b", "c-d"]), (-2, ["a-c", "b-d"])]
)
def test_texts_are_joined_along_any_axis(axis: int | None, expected: Any) -> None:
    texts = tf.data.Dataset.from_tensors([["a", "b"], ["c", "d"]])
    joined = texts.map(lambda x: tf.strings.reduce_join(x, axis, separator="-")).get_single_element()
    assert np.asarray(joined).tolist() == expected
    kept = texts.map(lambda x: tf.strings.reduce_join(x, axis, keepdims=True, separator="-")).get_single_element()
    assert kept.shape == {None: (1, 1), 0: (1, 2)}.get(axis if axis is None else axis % 2, (2, 1))
    with pytest.raises(ValueError, match="found axis=2"):
        texts.map(lambda x: tf.strings.reduce_join(x, 2))


def test_tables_travel_with_the_dataset(processes: ms.LocalService) -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], np.array([10, 20])), -1)
    words = Dataset.from_tensor_slices(["b", "z", "a"]).map(table.lookup)
    assert sorted(numbers(words.apply(ms.service.distribute("distributed_epoch", processes)))) == [-1, 10, 20]


def test_tables_are_read_from_text_files(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("cat\t7\ndog\t9\n")
    index, path = tf.lookup.TextFileIndex, str(tmp_path / "words.txt")
    columns = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 1), -1)
    lines = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER), -1)
    assert columns.lookup(["dog", "cow"]).tolist() == [9, -1] and lines.lookup(["dog\t9"]).tolist() == [1]
    with pytest.raises(ms.errors.InvalidArgumentError, match="a key twice"):
        tf.lookup.KeyValueTensorInitializer(["a", "a"], [1, 2])


def test_debug_mode_runs_functions_as_python() -> None:
    seen: list[Any] = []

    def watched(x: Any) -> Any:
        seen.append(x)
        return tf.math.add(x, 1)

    _debugging.enable()
    try:
        assert numbers(Dataset.range(3).map(watched)) == [1, 2, 3]
    finally:
        _debugging.enable(False)
    assert len(seen) == 4 and [int(x) for x in seen[1:]] == [0, 1, 2]
    assert numbers(Dataset.range(3).map(watched)) == [1, 2, 3] and len(seen) == 5


# Through a service.


def test_experimental_transformations_run_on_workers(processes: ms.LocalService) -> None:
    total = tf.data.experimental.Reducer(lambda key: (key, np.int64(0)), lambda state, x: (state[0], state[1] + x), lambda key, n: (key, n))
    sums = Dataset.range(10).apply(tf.data.experimental.group_by_reducer(lambda x: x % 3, total))
    read = sums.apply(ms.service.distribute("parallel_epochs", processes))
    assert sorted((int(key), int(n)) for key, n in read) == sorted([(0, 18), (1, 12), (2, 15)] * 2)
    rows = tf.data.experimental.from_list([[1], [2, 2], [3, 3, 3]]).sparse_batch(2, [4])
    read = rows.apply(ms.service.distribute("parallel_epochs", processes)).take(2)
    assert all(batch.shape[1] == 4 for batch in read)


def test_states_of_unknown_shape_are_refused() -> None:
    words = tf.data.experimental.Reducer(lambda key: tf.strings.split(tf.strings.as_string(key)), lambda state, x: state, lambda state: state)
    with pytest.raises(ms.errors.UnimplementedError, match="known shapes"):
        Dataset.range(3).apply(tf.data.experimental.group_by_reducer(lambda x: x, words))


def test_other_devices_are_refused() -> None:
    for name in ("prefetch_to_device", "copy_to_device"):
        with pytest.raises(ms.errors.UnimplementedError, match=r"ms\.feed"):
            getattr(tf.data.experimental, name)("/gpu:0")
        assert numbers(Dataset.range(2).apply(getattr(tf.data.experimental, name)("/job:localhost/device:CPU:0"))) == [0, 1]
