"""Tests that the names of ``tf.data`` in the list are those of the installed TensorFlow, and that ``compat`` yields what TensorFlow yields.

Each case is one function of the module ``tf`` and a folder, which both run. Elements are compared as nested Python values, text as bytes,
and errors by their kind. The random pipelines of ``differential`` cover the operations; the cases here cover readers, reducers, functions
and the calls that are no pipelines.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow
import upstream_names

import millstream as ms
from millstream import compat

Case = Callable[[Any, str], Any]
CASES: dict[str, Case] = {}
FAILURES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Adds a function whose results are compared."""
    CASES[function.__name__.strip("_").replace("_", " ")] = function
    return function


def failure(function: Case) -> Case:
    """Adds a function whose errors are compared."""
    FAILURES[function.__name__.strip("_").replace("_", " ")] = function
    return function


def plain(value: Any) -> Any:
    """Returns a result as nested Python values; sparse and ragged tensors as their parts."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "dense_shape"):
        return {"indices": plain(value.indices), "values": plain(value.values), "shape": plain(value.dense_shape)}
    if hasattr(value, "nested_row_splits") and hasattr(value, "to_list"):
        return plain(value.to_list())
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype == object:
        return plain(array.tolist()) if array.shape else plain(array.item()) if not isinstance(array.item(), bytes) else array.item()
    if array.dtype.kind == "f":
        return np.round(array.astype(float), 5).tolist()
    return array.tolist()


def dtypes(value: Any) -> Any:
    """Returns the dtypes of a result, nested as it is; those of text are left out."""
    if isinstance(value, dict):
        return {key: dtypes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [dtypes(item) for item in value]
    if hasattr(value, "dense_shape") or hasattr(value, "nested_row_splits"):
        return dtypes(value.values) if hasattr(value, "dense_shape") else dtypes(value.flat_values if hasattr(value, "flat_values") else value.values)
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return None if array.dtype.kind in "OSU" else str(array.dtype)


def kind(error: BaseException) -> str:
    """Returns the kind of an error: the class of ``tf.errors``, or Python's own."""
    return type(error).__name__


def example(**features: Any) -> bytes:
    """Returns a serialised ``tf.train.Example``."""
    made = {}
    for name, values in features.items():
        if isinstance(values[0], bytes):
            made[name] = tensorflow.train.Feature(bytes_list=tensorflow.train.BytesList(value=values))
        elif isinstance(values[0], float):
            made[name] = tensorflow.train.Feature(float_list=tensorflow.train.FloatList(value=values))
        else:
            made[name] = tensorflow.train.Feature(int64_list=tensorflow.train.Int64List(value=values))
    return tensorflow.train.Example(features=tensorflow.train.Features(feature=made)).SerializeToString()  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Makes the files that cases read."""
    made = tmp_path_factory.mktemp("files")
    (made / "a.csv").write_text('id,price,word\n1,2.5,"a, b"\n2,,c\n3,4.5,NA\n')
    (made / "b.csv").write_text("id,price,word\n4,5.5,d\n5,6.5,e\n")
    (made / "other.csv").write_text("id,cost,word\n4,5.5,d\n")
    (made / "wide.csv").write_text("1,2.5,a\n2,3.5\n")
    (made / "large.csv").write_text("n,x,t\n1,1,1\n3000000000,1e300,z\n")
    with gzip.open(made / "a.csv.gz", "wt") as file:
        file.write((made / "a.csv").read_text())
    records = [example(a=[1], w=[b"x", b"y"], f=[0.5]), example(a=[2], w=[b"z"], f=[1.5]), example(a=[3], f=[2.5])]
    with tensorflow.io.TFRecordWriter(str(made / "r.tfrecord")) as writer:
        for record in records:
            writer.write(record)
    with sqlite3.connect(made / "people.db") as database:
        database.execute("CREATE TABLE people (name TEXT, age INTEGER, height REAL)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", [("Ada", 36, 1.6), ("Alan", None, 1.8), (None, 85, 1.7)])
    database.close()
    return str(made)


# Readers.


@case
def _rows_of_csv_files(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.CsvDataset([f"{folder}/a.csv"], [tf.int32, [0.0], "none"], header=True, na_value="NA"))


@case
def _selected_columns_of_csv_files(tf: Any, folder: str) -> Any:
    picked = tf.data.experimental.CsvDataset(f"{folder}/a.csv", [tf.int64, tf.string], header=True, select_cols=[0, 2])
    left = tf.data.experimental.CsvDataset(f"{folder}/a.csv", [tf.int64, tf.string], header=True, exclude_cols=[1])
    return list(picked), list(left)


@case
def _csv_files_that_are_compressed(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.CsvDataset(f"{folder}/a.csv.gz", [tf.int32, [0.0], ""], compression_type="GZIP", header=True))


@case
def _quotes_of_csv_that_are_text(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.CsvDataset(f"{folder}/b.csv", ["", "", ""], use_quote_delim=False))


@case
def _batches_of_csv_columns(tf: Any, folder: str) -> Any:
    make = tf.data.experimental.make_csv_dataset
    whole = make(f"{folder}/[ab].csv", 2, num_epochs=1, shuffle=False, na_value="NA")
    labelled = make(f"{folder}/[ab].csv", 3, label_name="price", select_columns=["id", "price"], num_epochs=2, shuffle=False)
    typed = make([f"{folder}/b.csv"], 2, column_defaults=[tf.int64, tf.float64, tf.string], num_epochs=1, shuffle=False)
    named = make(f"{folder}/b.csv", 2, column_names=["x", "y", "z"], header=True, num_epochs=1, shuffle=False)
    return list(whole), list(labelled), list(typed), list(named)


@case
def _types_of_csv_columns_are_found_out(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.make_csv_dataset(f"{folder}/large.csv", 2, num_epochs=1, shuffle=False))


@case
def _endless_csv_batches_are_full(tf: Any, folder: str) -> Any:
    batches = tf.data.experimental.make_csv_dataset(f"{folder}/[ab].csv", 2, shuffle=False, num_parallel_reads=2).take(4)
    return [[len(batch["id"]), sorted(batch)] for batch in batches]


@case
def _broken_csv_rows_are_ignored(tf: Any, folder: str) -> Any:
    names = ["n", "x", "t"]
    batches = tf.data.experimental.make_csv_dataset(
        f"{folder}/wide.csv", 2, names, [tf.int32, tf.float32, tf.string], header=False, num_epochs=1, shuffle=False, ignore_errors=True
    )
    return list(batches)


def _features(tf: Any) -> dict[str, Any]:
    return {
        "a": tf.io.FixedLenFeature([], tf.int64),
        "w": tf.io.VarLenFeature(tf.string),
        "f": tf.io.FixedLenFeature([1], tf.float32),
    }


@case
def _parsed_examples(tf: Any, folder: str) -> Any:
    records = tf.data.TFRecordDataset(f"{folder}/r.tfrecord").batch(2)
    ragged = {"w": tf.io.RaggedFeature(tf.string)}
    return [list(records.apply(tf.data.experimental.parse_example_dataset(features, 2))) for features in (_features(tf), ragged)]


@case
def _batches_of_features(tf: Any, folder: str) -> Any:
    make = tf.data.experimental.make_batched_features_dataset
    plain_features = {"a": tf.io.FixedLenFeature([], tf.int64), "f": tf.io.FixedLenFeature([1], tf.float32)}
    settings = {"num_epochs": 1, "shuffle": False}
    whole = make(f"{folder}/*.tfrecord", 2, _features(tf), **settings)
    labelled = make(f"{folder}/*.tfrecord", 2, plain_features, label_key="a", drop_final_batch=True, **settings)
    sparse = make(f"{folder}/*.tfrecord", 2, _features(tf), label_key="a", **settings)
    return list(whole), list(labelled), list(sparse)


@case
def _rows_of_a_query(tf: Any, folder: str) -> Any:
    query = "SELECT name, age, height FROM people ORDER BY height"
    return list(tf.data.experimental.SqlDataset("sqlite", f"{folder}/people.db", query, (tf.string, tf.int32, tf.float64)))


@case
def _records_that_were_written(tf: Any, folder: str) -> Any:
    path = f"{folder}/{tf.__name__}.out"
    found = []
    for compression in ("", "GZIP", "ZLIB"):
        tf.data.experimental.TFRecordWriter(path, compression).write(tf.data.Dataset.from_tensor_slices([b"a" * 300, b"", b"b"]))
        found.append(list(tensorflow.data.TFRecordDataset(path, compression)))
    return found


# Transformations.


@case
def _reductions_by_key(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(np.array([5, 3, 5, 1, -2], np.int64))
    totals = tf.data.experimental.Reducer(lambda key: (key, np.int64(0)), lambda state, x: (state[0], state[1] + x), lambda key, total: (key, total))
    means = tf.data.experimental.Reducer(
        lambda _: (np.float32(0), np.float32(0)),
        lambda state, x: (state[0] + tf.cast(x, tf.float32), state[1] + np.float32(1)),
        lambda total, count: total / count,
    )
    by_self = tf.data.experimental.group_by_reducer(lambda x: x, totals)
    by_parity = tf.data.experimental.group_by_reducer(lambda x: x % 2, means)
    return list(numbers.apply(by_self)), list(numbers.apply(by_parity))


@case
def _reductions_of_dicts(tf: Any, folder: str) -> Any:
    rows = tf.data.Dataset.from_tensor_slices({"k": np.array([1, 2, 1], np.int64), "v": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)})
    summed = tf.data.experimental.Reducer(
        lambda _: {"sum": np.zeros(2, np.float32)}, lambda state, row: {"sum": state["sum"] + row["v"]}, lambda state: state["sum"]
    )
    return list(rows.apply(tf.data.experimental.group_by_reducer(lambda row: row["k"], summed)))


@case
def _datasets_padded_to_a_cardinality(tf: Any, folder: str) -> Any:
    rows = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": ["x", "y"], "c": [[1.5], [2.5]]})
    pad = tf.data.experimental.pad_to_cardinality
    return list(rows.apply(pad(4))), list(rows.apply(pad(2, "is_real"))), int(rows.apply(pad(4)).cardinality())


@case
def _elements_by_position(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.range(10).batch(4)
    return [tf.data.experimental.at(numbers, index) for index in (0, 1, 2)]


@case
def _datasets_of_lists(tf: Any, folder: str) -> Any:
    make = tf.data.experimental.from_list
    return [list(make(given)) for given in ([1, 2, 3], [(1, "a"), (2, "b")], [{"a": [1, 2]}, {"a": [3, 4]}], [[1, 2], [3]], [2.5])]


@case
def _sparse_batches(tf: Any, folder: str) -> Any:
    rows = tf.data.experimental.from_list([[1], [2, 0], [3, 4, 5]])
    single = tf.data.Dataset.range(3)
    return [list(rows.sparse_batch(2, shape)) for shape in ([4], [None])] + [list(single.sparse_batch(2, []))]


@case
def _ragged_batches(tf: Any, folder: str) -> Any:
    rows = tf.data.experimental.from_list([[1], [2, 0], [3, 4, 5]])
    return list(rows.apply(tf.data.experimental.dense_to_ragged_batch(2))), list(rows.ragged_batch(2, drop_remainder=True))


@case
def _transformations_for_apply(tf: Any, folder: str) -> Any:
    make, numbers = tf.data.experimental, tf.data.Dataset.range(6)
    made = [
        numbers.apply(make.assert_cardinality(6)),
        numbers.apply(make.copy_to_device("/cpu:0")),
        numbers.apply(make.enumerate_dataset(3)),
        numbers.apply(make.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3)),
        numbers.apply(make.map_and_batch(lambda x: x + 1, 4, drop_remainder=True)),
        numbers.apply(make.map_and_batch(lambda x: x + 1, 4, num_parallel_calls=2)),
        numbers.apply(make.parallel_interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(3), 2, 2)),
        numbers.apply(make.prefetch_to_device("/cpu:0", 2)) if tf is compat else numbers,
        numbers.apply(make.scan(np.int64(0), lambda state, x: (state + x, state * x))),
        numbers.apply(make.shuffle_and_repeat(1, 2)),
        numbers.apply(make.take_while(lambda x: x < 4)),
        numbers.batch(4).apply(make.unbatch()),
        numbers.map(lambda x: x // 2).apply(make.unique()),
        make.Counter(3, 2).take(3),
        make.Counter(dtype=tf.int32).take(3),
        make.choose_from_datasets([numbers, numbers.skip(3)], tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 1, 1, 0]))),
        make.sample_from_datasets([numbers, numbers], [1.0, 0.0]),
    ]
    return [list(dataset) for dataset in made]


@case
def _weights_that_are_datasets(tf: Any, folder: str) -> Any:
    parts = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
    schedule = tf.data.Dataset.from_tensor_slices([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return list(tf.data.Dataset.sample_from_datasets(parts, schedule)), list(tf.data.Dataset.sample_from_datasets(parts, schedule.repeat(3), None, True))


@case
def _shuffles_of_whole_datasets(tf: Any, folder: str) -> Any:
    return sorted(int(x) for x in tf.data.Dataset.range(9).filter(lambda x: x > 2).shuffle(tf.data.UNKNOWN_CARDINALITY))


@case
def _datasets_that_were_saved(tf: Any, folder: str) -> Any:
    path, found = f"{folder}/{tf.__name__}-saved", []
    rows = tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    for compression in (None, "GZIP"):
        rows.save(path, compression)
        found.append(list(tf.data.Dataset.load(path, compression=compression)))
    numbers = tf.data.Dataset.range(5)
    tf.data.experimental.save(numbers, path)
    found.append(list(tf.data.experimental.load(path)))
    read = tf.data.Dataset.load(path, reader_func=lambda datasets: datasets.shuffle(8, seed=1).interleave(lambda dataset: dataset))
    return found, sorted(int(x) for x in read), [int(x) for x in tf.data.Dataset.load(path, tf.TensorSpec((), tf.int64))]


@case
def _structures_and_cardinalities(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.range(3)
    iterator = iter(numbers.take(1))
    optional = tf.data.experimental.get_next_as_optional(iterator), tf.data.experimental.get_next_as_optional(iterator)
    spec = tf.data.experimental.get_structure(numbers)
    return [
        int(tf.data.experimental.cardinality(numbers)),
        [bool(item.has_value()) for item in optional],
        optional[0].get_value(),
        list(spec.shape),
        tf.data.experimental.get_single_element(numbers.skip(2)),
        tf.data.DatasetSpec.from_value(numbers).is_compatible_with(numbers),
        tf.data.DatasetSpec(tf.TensorSpec([None], tf.int64)).is_compatible_with(tf.data.DatasetSpec(tf.TensorSpec([3], tf.int64))),
        tf.data.DatasetSpec(tf.TensorSpec([3], tf.int64)).is_subtype_of(tf.data.DatasetSpec(tf.TensorSpec([None], tf.int64))),
        tf.data.DatasetSpec(tf.TensorSpec([None], tf.int64)).is_subtype_of(tf.data.DatasetSpec(tf.TensorSpec([3], tf.int64))),
        isinstance(iter(numbers), tf.data.Iterator),
        isinstance(numbers.as_numpy_iterator(), tf.data.NumpyIterator),
    ]


@case
def _positions_of_iterators(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.range(10).map(lambda x: x * 3).filter(lambda x: x % 2 == 0)
    iterator = numbers.as_numpy_iterator()
    first = [iterator.next(), iterator.next()]
    other = numbers.as_numpy_iterator()
    other.restore(iterator.save())
    return first, list(other), list(iterator)


# Functions of datasets.


def _mapped(tf: Any, function: Any, *given: Any) -> Any:
    values = given[0] if len(given) == 1 else given
    return list(tf.data.Dataset.from_tensors(values).map(function))


@case
def _functions_of_numbers(tf: Any, folder: str) -> Any:
    x, i = np.array([-1.5, 0.0, 2.25], np.float32), np.array([-7, 0, 8], np.int64)
    unary = ["abs", "negative", "sign", "square", "exp", "expm1", "tanh", "sigmoid", "floor", "ceil", "round", "is_nan", "is_finite", "is_inf"]
    binary = ["add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    integers = ["floordiv", "floormod", "mod", "truediv", "divide", "squared_difference"]
    found = [_mapped(tf, getattr(tf.math, name), x) for name in unary]
    found += [_mapped(tf, lambda a, b, name=name: getattr(tf.math, name)(a, b), x, np.float32(2)) for name in binary]
    found += [_mapped(tf, lambda a, b, name=name: getattr(tf.math, name)(a, b), i, np.int64(3)) for name in integers]
    found += [_mapped(tf, getattr(tf.math, name), np.abs(x) + 1) for name in ("sqrt", "rsqrt", "log", "log1p", "reciprocal")]
    found += [_mapped(tf, lambda a, b, name=name: getattr(tf.math, name)(a, b), x, np.float32(0)) for name in ("divide_no_nan", "multiply_no_nan", "xdivy")]
    found.append(_mapped(tf, lambda a: tf.math.add_n([a, a, a]), i))
    found.append(_mapped(tf, lambda a: tf.pow(a, 2), i))
    return found


@case
def _functions_of_axes(tf: Any, folder: str) -> Any:
    x = np.array([[1.0, -2.0, 3.0], [4.0, 0.0, -6.0]], np.float32)
    names = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_std", "reduce_variance", "count_nonzero", "argmax", "argmin"]
    found = [_mapped(tf, lambda a, name=name: getattr(tf.math, name)(a, axis=1), x) for name in names]
    found.append(_mapped(tf, lambda a: tf.reduce_sum(input_tensor=a, axis=[0, 1], keepdims=True), x))
    found.append(_mapped(tf, lambda a: tf.reduce_any(a > 3, axis=0), x))
    found.append(_mapped(tf, lambda a: tf.reduce_all(a > -7), x))
    return found


@case
def _functions_of_shapes(tf: Any, folder: str) -> Any:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    functions = [
        lambda a: tf.reshape(a, [3, -1]),
        lambda a: tf.transpose(a),
        lambda a: tf.expand_dims(a, 1),
        lambda a: tf.squeeze(tf.expand_dims(a, 1), [1]),
        lambda a: tf.concat([a, a], axis=1),
        lambda a: tf.stack([a, a], axis=0),
        lambda a: tf.gather(a, [1, 0], axis=1),
        lambda a: tf.pad(a, [[1, 0], [0, 2]], constant_values=9),
        lambda a: tf.one_hot(a[0], 4),
        lambda a: tf.one_hot(a[0], 4, on_value=5, off_value=-1),
        lambda a: tf.one_hot(a[0], 3, dtype=tf.int64),
        lambda a: tf.reverse(a, [1]),
        lambda a: tf.slice(a, [0, 1], [-1, 2]),
        lambda a: tf.tile(a, [2, 1]),
        lambda a: tf.broadcast_to(a, [2, 2, 3]),
        lambda a: tf.unstack(a),
        lambda a: tf.split(a, 3, axis=1),
        lambda a: tf.split(a, [1, 2], axis=1),
        lambda a: tf.shape(a),
        lambda a: tf.size(a),
        lambda a: tf.rank(a),
        lambda a: tf.identity(a),
        lambda a: tf.clip_by_value(a, 1, 4),
        lambda a: tf.cast(a, tf.float64),
        lambda a: tf.saturate_cast(a * 100, tf.uint8),
        lambda a: tf.ensure_shape(a, [None, 3]),
        lambda a: tf.zeros_like(a),
        lambda a: tf.ones_like(a, dtype=tf.float32),
        lambda a: tf.fill([2], a[0, 1]),
        lambda a: tf.where(a > 2, a, -a),
        lambda a: a + tf.zeros([2, 3], tf.int32) + tf.range(3) + tf.ones([3], tf.int32),
        lambda a: tf.convert_to_tensor([a[0, 0], a[1, 1]]),
        lambda a: tf.cast(a, tf.float32) * tf.linspace(0.0, 1.0, 3) + tf.eye(2, 3),
        lambda a: tf.nest.map_structure(lambda part: part + 1, {"x": a, "y": (a, a)}),
    ]
    return [_mapped(tf, function, x) for function in functions]


@case
def _functions_of_text(tf: Any, folder: str) -> Any:
    words = np.array([b"Hello World", b" b2 ", b"c3"], object)
    functions = [
        tf.strings.lower,
        tf.strings.upper,
        tf.strings.strip,
        tf.strings.length,
        lambda a: tf.strings.substr(a, 0, 2),
        lambda a: tf.strings.regex_full_match(a, "[a-z][0-9]"),
        lambda a: tf.strings.regex_replace(a, "([a-z])([0-9])", r"\2$\1"),
        lambda a: tf.strings.regex_replace(a, "l", "L", replace_global=False),
        lambda a: tf.strings.join([a, a], separator="-"),
        lambda a: tf.strings.reduce_join(a, axis=-1, separator="|"),
        lambda a: tf.strings.split(a[0]),
        lambda a: tf.strings.split(a[0], sep="o"),
        lambda a: tf.strings.as_string(tf.strings.length(a)),
        lambda a: tf.strings.as_string(tf.strings.length(a) > 3),
        lambda a: tf.strings.to_number(tf.strings.substr(a[2], 1, 1), tf.int32),
        lambda a: tf.strings.to_hash_bucket_strong(a, 1000, key=[0, 0]),
    ]
    return [_mapped(tf, function, words) for function in functions]


@case
def _functions_of_functions(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.range(5)
    found = [
        numbers.map(lambda x: tf.cond(x % 2 == 0, lambda: x * 10, lambda: -x)),
        numbers.batch(5, drop_remainder=True).map(lambda x: tf.map_fn(lambda item: item * item, x)),
        numbers.batch(5, drop_remainder=True).map(lambda x: tf.vectorized_map(lambda item: item + 1, x)),
        numbers.map(lambda x: tf.numpy_function(lambda value: value * 2, [x], tf.int64)),
        numbers.map(lambda x: tf.numpy_function(lambda value, other: (value + other, np.float32(0.5)), [x, x], [tf.int64, tf.float32])),
        numbers.map(lambda x: tf.py_function(lambda value: value.numpy() + 1, [x], tf.int64)),
        numbers.map(lambda x: (x, tf.numpy_function(lambda value: value * 2, [x + 1], tf.int64) + x)),
        numbers.filter(lambda x: tf.numpy_function(lambda value: value > 2, [x], tf.bool)),
        numbers.map(tf.function(lambda x: x + 1)),
    ]
    return [list(dataset) for dataset in found]


@case
def _tables_of_constants(tf: Any, folder: str) -> Any:
    initializer = tf.lookup.KeyValueTensorInitializer
    words = tf.lookup.StaticHashTable(initializer(["a", "b"], np.array([10, 20], np.int64)), -1)
    numbers = tf.lookup.StaticHashTable(initializer(np.array([3, 7], np.int64), ["three", "seven"]), "none")
    vocabulary = tf.lookup.StaticVocabularyTable(initializer(["a", "b"], np.arange(2)), 1)
    texts = tf.data.Dataset.from_tensor_slices([["a", "z"], ["b", "a"]])
    return [
        list(texts.map(words.lookup)),
        list(tf.data.Dataset.range(3, 9, 2).map(numbers.lookup)),
        list(texts.map(vocabulary.lookup)),
        int(words.size()),
        int(vocabulary.size()),
    ]


@case
def _constants(tf: Any, folder: str) -> Any:
    values = [
        tf.constant([1, 2]), tf.constant(2.5), tf.constant(["a"]), tf.constant(3, shape=[2]), tf.constant([1, 2, 3, 4], tf.int64, [2, 2]),
        tf.zeros([2, 2]), tf.zeros([], tf.int32), tf.zeros([1], tf.string), tf.ones(2), tf.fill([2], 7), tf.range(4), tf.range(1, 7, 2), tf.range(3.0),
        tf.range(2, dtype=tf.int64), tf.eye(2), tf.linspace(0.0, 1.0, 5), tf.zeros_like([1, 2]), tf.ones_like([1.5]), tf.reduce_sum([1, 2, 3]),
        tf.add(1, 2), tf.math.divide(1, 2), tf.cast([1.7, -1.7], tf.int32), tf.where([True, False], 1, 2), tf.where([True, False, True]),
        tf.strings.join(["a", "b"]), tf.rank([[1]]), tf.size([[1, 2]]), tf.shape([[1, 2]]), tf.debugging.check_numerics([1.0], "x"),
        tf.convert_to_tensor([1, 2], dtype=tf.int64), tf.numpy_function(lambda x: x + 1, [np.float32(3)], tf.float32),
    ]  # fmt: skip
    return values


# Errors.


@failure
def _positions_outside(tf: Any, folder: str) -> Any:
    return tf.data.experimental.at(tf.data.Dataset.range(3), 5)


@failure
def _positions_below_0(tf: Any, folder: str) -> Any:
    return tf.data.experimental.at(tf.data.Dataset.range(3), -1)


@failure
def _padding_of_datasets_without_dicts(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.range(3).apply(tf.data.experimental.pad_to_cardinality(5))


@failure
def _padding_to_fewer_elements(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.from_tensor_slices({"a": [1, 2]}).apply(tf.data.experimental.pad_to_cardinality(1))


@failure
def _empty_lists(tf: Any, folder: str) -> Any:
    return tf.data.experimental.from_list([])


@failure
def _lists_that_are_none(tf: Any, folder: str) -> Any:
    return tf.data.experimental.from_list(5)


@failure
def _structures_of_numbers(tf: Any, folder: str) -> Any:
    return tf.data.experimental.get_structure(3)


@failure
def _values_of_empty_optionals(tf: Any, folder: str) -> Any:
    return tf.data.experimental.Optional.empty(tf.TensorSpec((), tf.int32)).get_value()


@failure
def _single_elements_of_none(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.range(0).get_single_element()


@failure
def _loads_of_nothing(tf: Any, folder: str) -> Any:
    return list(tf.data.Dataset.load(f"{folder}/nothing"))


@failure
def _options_of_another_type(tf: Any, folder: str) -> Any:
    tf.data.Options().deterministic = "yes"


@failure
def _options_that_do_not_exist(tf: Any, folder: str) -> Any:
    tf.data.Options().no_such_option = 1


@failure
def _policies_that_are_numbers(tf: Any, folder: str) -> Any:
    tf.data.Options().experimental_distribute.auto_shard_policy = 2


@failure
def _merges_of_other_objects(tf: Any, folder: str) -> Any:
    tf.data.Options().merge(3)


@failure
def _two_kinds_of_parallelism(tf: Any, folder: str) -> Any:
    return tf.data.experimental.map_and_batch(lambda x: x, 2, 1, False, 1)(tf.data.Dataset.range(3))


@failure
def _duplicate_columns(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_csv_dataset(f"{folder}/a.csv", 2, column_names=["a", "a", "b"])


@failure
def _labels_that_are_no_columns(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_csv_dataset(f"{folder}/a.csv", 2, label_name="cost")


@failure
def _files_of_other_columns(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_csv_dataset([f"{folder}/a.csv", f"{folder}/other.csv"], 2)


@failure
def _csv_columns_without_names(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_csv_dataset(f"{folder}/a.csv", 2, header=False)


@failure
def _csv_rows_of_another_width(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.CsvDataset(f"{folder}/wide.csv", [tf.int32, tf.float32, tf.string]))


@failure
def _csv_fields_that_are_missing(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.CsvDataset(f"{folder}/a.csv", [tf.int32, tf.float32, tf.string], header=True))


@failure
def _csv_columns_of_other_dtypes(tf: Any, folder: str) -> Any:
    return tf.data.experimental.CsvDataset(f"{folder}/a.csv", [tf.uint8])


@failure
def _queries_of_other_databases(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.SqlDataset("mysql", f"{folder}/people.db", "SELECT 1", (tf.int32,)))


@failure
def _records_of_datasets_without_text(tf: Any, folder: str) -> Any:
    tf.data.experimental.TFRecordWriter(f"{folder}/x").write(tf.data.Dataset.range(3))


@failure
def _records_of_no_dataset(tf: Any, folder: str) -> Any:
    tf.data.experimental.TFRecordWriter(f"{folder}/x").write(3)


@failure
def _examples_of_single_records(tf: Any, folder: str) -> Any:
    parse = tf.data.experimental.parse_example_dataset({"a": tf.io.FixedLenFeature([], tf.int64)})
    return tf.data.TFRecordDataset(f"{folder}/r.tfrecord").apply(parse)


@failure
def _no_features(tf: Any, folder: str) -> Any:
    return tf.data.experimental.parse_example_dataset(None)(tf.data.TFRecordDataset(f"{folder}/r.tfrecord").batch(2))


@failure
def _labels_that_are_no_features(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_batched_features_dataset(f"{folder}/*.tfrecord", 2, {"a": tf.io.FixedLenFeature([], tf.int64)}, label_key="b")


@failure
def _numbers_that_are_no_numbers(tf: Any, folder: str) -> Any:
    return list(tf.data.Dataset.from_tensors(0.0).map(lambda x: tf.debugging.check_numerics(1.0 / x, "ratio")))


@failure
def _sparse_rows_that_are_too_long(tf: Any, folder: str) -> Any:
    return list(tf.data.experimental.from_list([[1], [2, 2]]).sparse_batch(2, [1]))


@failure
def _no_datasets_to_sample(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.sample_from_datasets([])


@failure
def _weights_of_too_few_datasets(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.sample_from_datasets([tf.data.Dataset.range(3)], [0.5, 0.5])


@failure
def _weights_that_are_integers(tf: Any, folder: str) -> Any:
    numbers = tf.data.Dataset.range(3)
    return list(tf.data.Dataset.sample_from_datasets([numbers, numbers], tf.data.Dataset.from_tensors([1, 0]).repeat(2)))


@failure
def _checks_that_fail(tf: Any, folder: str) -> Any:
    tf.debugging.assert_equal([1, 2], [1, 3])


@failure
def _conditions_without_functions(tf: Any, folder: str) -> Any:
    return tf.cond(True, 1, 2)


@failure
def _types_of_other_tensors(tf: Any, folder: str) -> Any:
    return list(tf.data.Dataset.range(1).map(lambda x: tf.convert_to_tensor(x, dtype=tf.int32)))


def test_the_list_of_names_is_that_of_tensorflow() -> None:
    listed = json.loads(upstream_names.FIXTURE.read_text())
    if tensorflow.__version__ != listed["tensorflow"]:
        pytest.skip(f"the list is of TensorFlow {listed['tensorflow']}, and {tensorflow.__version__} is installed")
    assert upstream_names.names() == listed["names"], "run tests/frameworks/upstream_names.py"


@pytest.mark.parametrize("name", CASES)
def test_compat_yields_what_tensorflow_yields(name: str, folder: str) -> None:
    expected, found = CASES[name](tensorflow, folder), CASES[name](compat, folder)
    assert plain(found) == plain(expected)
    assert dtypes(found) == dtypes(expected)


#: Cases that fail by another kind of error than in TensorFlow. The reader of CSV files reports damaged data, and Python makes sparse tensors.
OTHER_KINDS = {
    "csv rows of another width": "DataLossError",
    "csv fields that are missing": "DataLossError",
    "sparse rows that are too long": "UserFunctionError",
}


@pytest.mark.parametrize("name", FAILURES)
def test_compat_fails_as_tensorflow_fails(name: str, folder: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        FAILURES[name](tensorflow, folder)
    with pytest.raises(Exception) as found:  # noqa: PT011
        FAILURES[name](compat, folder)
    own = {type(found.value).__name__, *(base.__name__ for base in type(found.value).__mro__)}
    assert OTHER_KINDS.get(name, kind(expected.value)) in own, f"{type(found.value).__name__}: {found.value}"


def test_records_of_tensorflow_are_read(folder: str) -> None:
    records = list(ms.TFRecordDataset(str(Path(folder) / "r.tfrecord")))
    assert len(records) == 3 and all(isinstance(record, bytes) for record in records)
