"""Tests of TensorFlow datasets that workers compute, and of training with Keras."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    """Starts a service with two workers in separate processes."""
    with ms.local(workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def inline() -> Iterator[ms.LocalService]:
    """Starts a service with two workers that run datasets in this process, where TensorFlow is imported already."""
    with ms.local(workers=2, inline=True) as running:
        yield running


def told(dataset: Any) -> list[Any]:
    """Returns the printed text of each element."""
    return sorted(str(tf.nest.map_structure(lambda part: np.asarray(part.numpy()).tolist(), element)) for element in dataset)


def test_every_worker_computes_everything_or_a_share(service: ms.LocalService) -> None:
    dataset = tf.data.Dataset.range(40).map(lambda x: {"x": x, "square": x * x}).filter(lambda row: row["x"] % 2 == 0)
    everything = dataset.apply(ms.tf.distribute("parallel_epochs", service))
    assert everything.element_spec == dataset.element_spec and isinstance(everything, tf.data.Dataset)
    assert told(everything) == sorted(told(dataset) * 2)
    shared = dataset.shuffle(10).apply(ms.tf.distribute(ms.service.ShardingPolicy.DYNAMIC, service))
    for _ in range(2):
        assert told(shared) == told(dataset)


def files(directory: Path) -> list[str]:
    """Creates five text files."""
    paths = [directory / f"{number}.txt" for number in range(5)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{number} {line}\n" for line in range(7)))
    return [str(path) for path in paths]


SOURCES: dict[str, Callable[[Path], Any]] = {
    "slices": lambda _: tf.data.Dataset.from_tensor_slices({"a": np.arange(20), "b": np.eye(20, 3)}),
    "one tensor": lambda _: tf.data.Dataset.from_tensors(np.arange(4)),
    "lines": lambda path: tf.data.TextLineDataset(files(path)),
    "listed files": lambda path: tf.data.Dataset.list_files(str(Path(files(path)[0]).parent / "*.txt")).interleave(
        tf.data.TextLineDataset, num_parallel_calls=tf.data.AUTOTUNE
    ),
    "zipped": lambda _: tf.data.Dataset.zip((tf.data.Dataset.range(30), tf.data.Dataset.range(30, 60))),
    "concatenated": lambda _: tf.data.Dataset.range(5).concatenate(tf.data.Dataset.range(5, 50)),
    "flat": lambda _: tf.data.Dataset.range(6).flat_map(lambda x: tf.data.Dataset.range(x)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_divided_dataset_is_read_once(name: str, inline: ms.LocalService, tmp_path: Path) -> None:
    dataset = SOURCES[name](tmp_path)
    shared = dataset.apply(ms.tf.distribute("distributed_epoch", inline))
    assert shared.element_spec == dataset.element_spec
    assert told(shared) == told(dataset)


def test_elements_of_every_kind_keep_their_specs(service: ms.LocalService) -> None:
    rows = tf.ragged.constant([[1, 2], [], [3]], dtype=tf.int32)
    sparse = tf.sparse.from_dense([[0, 1], [2, 0], [0, 3]])
    dense = (tf.constant(["a", "späť", ""]), tf.cast([1.5, 2, 3], tf.bfloat16))
    dataset = tf.data.Dataset.from_tensor_slices({"ragged": rows, "sparse": sparse, "dense": dense})
    # The last batch has fewer rows, so shapes vary.
    dataset = dataset.batch(2)
    arrived = dataset.apply(ms.tf.distribute("parallel_epochs", service))
    assert arrived.element_spec == dataset.element_spec
    first, found = next(iter(dataset)), next(iter(arrived))
    assert isinstance(found["ragged"], tf.RaggedTensor) and isinstance(found["sparse"], tf.SparseTensor)
    assert found["ragged"].to_list() == first["ragged"].to_list()
    assert np.array_equal(tf.sparse.to_dense(found["sparse"]), tf.sparse.to_dense(first["sparse"]))
    assert found["dense"][0].numpy().tolist() == first["dense"][0].numpy().tolist()
    assert found["dense"][1].dtype == tf.bfloat16 and bool(tf.reduce_all(found["dense"][1] == first["dense"][1]))


def test_none_in_an_element_arrives(inline: ms.LocalService) -> None:
    dataset = tf.data.Dataset.range(3).map(lambda x: (x, None, {"a": x}))
    arrived = dataset.apply(ms.tf.distribute("distributed_epoch", inline))
    assert arrived.element_spec == dataset.element_spec
    assert sorted((int(x), none, int(row["a"])) for x, none, row in arrived) == [(x, None, x) for x in range(3)]


def test_a_named_job_is_shared_by_its_readers(service: ms.LocalService) -> None:
    readers = [
        tf.data.Dataset.range(50).apply(ms.tf.distribute("distributed_epoch", service, job_name="shared by two"))
        for _ in range(2)
    ]
    # Both readers read the same dataset, because the definitions are equal. Each element arrives at one reader.
    iterators = [iter(reader) for reader in readers]
    seen = []
    while iterators:
        iterator = iterators.pop(0)
        element = next(iterator, None)
        if element is not None:
            seen.append(int(element))
            iterators.append(iterator)
    assert sorted(seen) == list(range(50))


def test_every_worker_repeats_an_endless_dataset(service: ms.LocalService) -> None:
    endless = tf.data.Dataset.range(3).repeat()
    distributed = endless.apply(ms.tf.distribute("parallel_epochs", service))
    assert distributed.cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(list(distributed.take(20))) == 20


def test_counts_and_options_are_those_that_upstream_gives(service: ms.LocalService) -> None:
    upstream = tf.data.experimental.service
    dispatcher = upstream.DispatchServer()
    datasets = [tf.data.Dataset.range(0), tf.data.Dataset.range(3), tf.data.Dataset.range(3).filter(lambda x: x > 0)]
    cases = [(dataset, mode, {}) for dataset in datasets for mode in ("parallel_epochs", "distributed_epoch")]
    endless = tf.data.Dataset.range(3).repeat()
    cases += [(dataset, "parallel_epochs", {"job_name": "named"}) for dataset in (datasets[1], endless)]
    rounds = {"job_name": "rounds", "consumer_index": 0, "num_consumers": 1}
    # For a dataset of unknown length, upstream says that a coordinated read has no end. Here it ends with the dataset.
    cases += [(endless, "parallel_epochs", rounds)]
    for dataset, mode, how in cases:
        theirs = dataset.apply(upstream.distribute(mode, dispatcher.target, **how))
        ours = dataset.apply(ms.tf.distribute(mode, service, **how))
        assert int(ours.cardinality()) == int(theirs.cardinality())
        of_options = [made.options().experimental_distribute.auto_shard_policy for made in (ours, theirs)]
        assert of_options[0] == of_options[1]
    in_step = datasets[2].apply(ms.tf.distribute("parallel_epochs", service, **rounds | {"job_name": "in step"}))
    assert in_step.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert {int(x) for x in in_step} == {1, 2}
    nothing = datasets[0].apply(ms.tf.distribute("distributed_epoch", service))
    assert list(nothing) == []


def test_workers_make_a_dataset_that_calls_python(service: ms.LocalService) -> None:
    def make() -> Any:
        return tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda y: y + 1, [x], tf.int64))

    assert sorted(int(x) for x in ms.distribute(make, service)) == [1, 1, 2, 2, 3, 3]


def test_mistakes_are_those_of_the_service(service: ms.LocalService) -> None:
    with pytest.raises(ValueError, match="processing_mode"):
        ms.tf.distribute("sideways", service)
    with pytest.raises(ValueError, match="job_name"):
        ms.tf.distribute("parallel_epochs", service, consumer_index=0, num_consumers=2)
    failing = tf.data.Dataset.range(3).map(lambda x: tf.debugging.check_numerics(tf.cast(x, tf.float32) / 0.0, "no number"))
    with pytest.raises(tf.errors.OpError, match="no number"):
        list(failing.apply(ms.tf.distribute("parallel_epochs", service)))


FAILURES: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "a missing file": (tf.errors.NotFoundError, lambda x: tf.io.read_file(tf.strings.as_string(x)), r"No such file"),
    "a bad argument": (tf.errors.InvalidArgumentError, lambda x: tf.io.decode_raw(tf.strings.as_string(x), tf.int32), "DecodeRaw"),
    "a message that looks like frames": (
        tf.errors.InvalidArgumentError,
        lambda x: tf.debugging.check_numerics(tf.cast(x, tf.float32) / 0.0, 'at\n  File "a.py", line 1\n    no number\n'),
        "no number",
    ),
    "too large": (tf.errors.ResourceExhaustedError, lambda x: tf.fill([1 << 46], x)[0], "OOM"),
    "a kind of file that is not read": (
        tf.errors.UnimplementedError,
        lambda x: tf.io.read_file(tf.strings.join(["sea://", tf.strings.as_string(x)])),
        "sea",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_tensorflows_errors_keep_their_code(name: str, service: ms.LocalService) -> None:
    kind, failing, said = FAILURES[name]
    dataset = tf.data.Dataset.range(3).map(failing)
    with pytest.raises(kind):
        list(dataset)
    # The code is also kept after further operations in the trainer.
    distributed = dataset.apply(ms.tf.distribute("distributed_epoch", service)).batch(2).map(lambda x: x).prefetch(1)
    with pytest.raises(kind, match=rf"(?s)worker 127\.0\.0\.1:\d+: .*{said}"):
        list(distributed)


def test_a_truncated_file_loses_only_its_rest(service: ms.LocalService, tmp_path: Path) -> None:
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(3):
            writer.write(b"a record")
    path.write_bytes(path.read_bytes()[:-5])
    seen = []
    with pytest.raises(tf.errors.DataLossError, match=r"worker 127\.0\.0\.1:\d+: .*truncated record"):
        for record in tf.data.TFRecordDataset(str(path)).apply(ms.tf.distribute("parallel_epochs", service)):
            seen.append(bytes(record.numpy()))
    assert seen and set(seen) == {b"a record"}


def test_errors_reach_tensorflow_and_spare_others(service: ms.LocalService) -> None:
    failing = tf.data.Dataset.from_tensor_slices(["/nowhere"]).map(tf.io.read_file)
    failing = failing.apply(ms.tf.distribute("parallel_epochs", service))
    fine = tf.data.Dataset.range(100).apply(ms.tf.distribute("distributed_epoch", service))

    @tf.function
    def count(dataset: Any) -> Any:
        seen = tf.constant(0)
        for _ in dataset:
            seen += 1
        return seen

    beside = iter(fine)
    first = int(next(beside))
    with pytest.raises(tf.errors.NotFoundError, match="/nowhere"):
        count(failing)
    assert sorted([first, *map(int, beside)]) == list(range(100))
    assert int(count(fine)) == 100


def test_service_errors_have_their_codes() -> None:
    from millstream._tf_failure import code_of

    for name, code in (
        ("UnavailableError", tf.errors.UNAVAILABLE),
        ("DataLossError", tf.errors.DATA_LOSS),
        ("FailedPreconditionError", tf.errors.FAILED_PRECONDITION),
        ("UserFunctionError", tf.errors.UNKNOWN),
        # TensorFlow treats OUT_OF_RANGE as the normal end of a dataset.
        ("OutOfRangeError", tf.errors.INVALID_ARGUMENT),
    ):
        assert code_of(getattr(ms.errors, name)("as it is")) == code


def test_keras_fits(service: ms.LocalService) -> None:
    keras = pytest.importorskip("keras")
    x = np.linspace(-1, 1, 256, dtype=np.float32)[:, None]
    native = Dataset.from_tensor_slices((x, 2 * x + 1)).shuffle(256).batch(16)
    native = native.apply(distribute("distributed_epoch", service))
    shipped = tf.data.Dataset.from_tensor_slices((x, 2 * x + 1)).shuffle(256).batch(16)
    shipped = shipped.apply(ms.tf.distribute("distributed_epoch", service))

    def repeated() -> Any:
        while True:
            yield from native

    for fed, steps in ((shipped, None), (repeated(), 16)):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.3), "mse")
        history = model.fit(fed, epochs=20, steps_per_epoch=steps, verbose=0)
        assert history.history["loss"][-1] < 0.01


def test_keras_warns_of_nothing_where_steps_are_given(service: ms.LocalService, recwarn: pytest.WarningsRecorder) -> None:
    keras = pytest.importorskip("keras")
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    shipped = tf.data.Dataset.from_tensor_slices((x, 2 * x + 1)).batch(16)
    shipped = shipped.apply(ms.tf.distribute("distributed_epoch", service, num_shards=2)).repeat()
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.3), "mse")
    model.fit(shipped, epochs=3, steps_per_epoch=4, verbose=0)
    assert not [warning for warning in recwarn if "ran out of data" in str(warning.message)]


def test_errors_are_those_of_both_packages(service: ms.LocalService) -> None:
    windows = tf.data.Dataset.range(3).window(2)
    for call, name, said in (
        (lambda: ms.tf.distribute("parallel_epochs", "grp://127.0.0.1:1"), "NotFoundError", "no scheme grp"),
        (lambda: ms.tf.distribute("parallel_epochs", service, num_shards=0), "InvalidArgumentError", "num_shards=0"),
        (lambda: windows.apply(ms.tf.distribute("parallel_epochs", service)), "InvalidArgumentError", "can send only tensors"),
        (lambda: ms.tf.register_dataset(service, windows), "InvalidArgumentError", "can send only tensors"),
        (lambda: ms.tf.from_dataset_id("parallel_epochs", service, "nobody", tf.TensorSpec((), tf.int64)), "NotFoundError", "nobody"),
    ):
        for package in (tf, ms):
            with pytest.raises(getattr(package.errors, name), match=said) as raised:
                call()
        error = raised.value
        assert error.error_code == getattr(tf.errors, name)(None, None, "").error_code and said in error.message
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is getattr(ms.errors, name) and str(copy) == error.message
