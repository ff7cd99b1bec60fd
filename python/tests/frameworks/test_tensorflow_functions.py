"""Tests of graphs that call Python, of datasets that are distributed twice, and of distribution within functions of TensorFlow."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms

tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    """Starts a service with two workers in this process."""
    with ms.local(workers=2, inline=True) as running:
        yield running


def numbers(dataset: Any) -> list[int]:
    """Returns the elements in ascending order."""
    return sorted(int(element) for element in dataset)


def calling() -> dict[str, Any]:
    """Returns datasets whose graphs call Python functions, which use variables of this function."""
    seven, offset = tf.constant(7, tf.int64), 3
    return {
        "py_function": tf.data.Dataset.range(6).map(lambda x: tf.py_function(lambda y: y + seven, [x], tf.int64)),
        "numpy_function": tf.data.Dataset.range(6).map(lambda x: tf.numpy_function(lambda y: np.int64(y * offset), [x], tf.int64)),
        "from_generator": tf.data.Dataset.from_generator(lambda: iter(range(offset, 9)), output_signature=tf.TensorSpec((), tf.int64)),
    }


@pytest.mark.parametrize("name", ["py_function", "numpy_function", "from_generator"])
def test_python_in_a_graph_runs_on_workers(name: str, service: ms.LocalService) -> None:
    dataset = calling()[name]
    for mode, times in (("distributed_epoch", 1), ("parallel_epochs", 2)):
        distributed = dataset.apply(ms.tf.distribute(mode, service))
        assert distributed.element_spec == dataset.element_spec
        assert numbers(distributed) == sorted(numbers(dataset) * times)


def test_python_of_graphs_runs_in_processes_of_workers(processes: ms.LocalService) -> None:
    import os

    own = os.getpid()
    dataset = tf.data.Dataset.range(4).map(lambda x: (x, tf.py_function(lambda: os.getpid(), [], tf.int64)))
    seen = list(dataset.apply(ms.tf.distribute("distributed_epoch", processes)))
    assert sorted(int(x) for x, _ in seen) == list(range(4)) and own not in {int(pid) for _, pid in seen}


def test_equal_graphs_with_python_are_one_dataset(service: ms.LocalService) -> None:
    def make() -> Any:
        return tf.data.Dataset.range(40).map(lambda x: tf.py_function(lambda y: y * 2, [x], tf.int64))

    readers = [iter(make().apply(ms.tf.distribute("distributed_epoch", service, job_name="with Python"))) for _ in range(2)]
    seen = []
    while readers:
        reader = readers.pop(0)
        if (element := next(reader, None)) is not None:
            seen.append(int(element))
            readers.append(reader)
    assert sorted(seen) == list(range(0, 80, 2))


@pytest.mark.parametrize(
    ("raised", "kind"), [(ValueError, "InvalidArgumentError"), (KeyError, "UnknownError"), (NotImplementedError, "UnimplementedError")]
)
def test_errors_of_python_have_tensorflows_code(raised: type[Exception], kind: str, service: ms.LocalService) -> None:
    def fail(_: Any) -> Any:
        raise raised('first\n  File "a.py", line 1\nValueError: no')

    failing = tf.data.Dataset.range(3).map(lambda x: tf.py_function(fail, [x], tf.int64))
    for dataset in (failing, failing.apply(ms.tf.distribute("distributed_epoch", service))):
        with pytest.raises(getattr(tf.errors, kind), match="first"):
            list(dataset)


def test_unpicklable_python_is_refused_when_built(service: ms.LocalService) -> None:
    lock = threading.Lock()

    def locked(x: Any) -> Any:
        with lock:
            return x

    dataset = tf.data.Dataset.range(3).map(lambda x: tf.py_function(locked, [x], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cannot be sent to workers: TypeError: cannot pickle '_thread\.lock'"):
        dataset.apply(ms.tf.distribute("parallel_epochs", service))


def test_a_distributed_dataset_is_distributed_again(service: ms.LocalService) -> None:
    once = tf.data.Dataset.range(10).apply(ms.tf.distribute("distributed_epoch", service))
    twice = once.map(lambda x: x * 10).apply(ms.tf.distribute("parallel_epochs", service))
    # Each of the two workers has a job of its own.
    assert numbers(twice) == sorted([x * 10 for x in range(10)] * 2)
    with ms.local(workers=1, inline=True) as second:
        other = once.batch(10).apply(ms.tf.distribute("parallel_epochs", second))
        (batch,) = list(other)
        assert sorted(batch.numpy().tolist()) == list(range(10))


def test_errors_pass_two_services(service: ms.LocalService) -> None:
    once = tf.data.Dataset.from_tensors("/nowhere").map(tf.io.read_file).apply(ms.tf.distribute("distributed_epoch", service))
    with pytest.raises(tf.errors.NotFoundError, match="/nowhere"):
        list(once.apply(ms.tf.distribute("parallel_epochs", service)))


def test_a_distributed_dataset_is_not_divided(service: ms.LocalService) -> None:
    once = tf.data.Dataset.range(10).apply(ms.tf.distribute("distributed_epoch", service))
    for policy in ms.service.ShardingPolicy:
        if policy is not ms.service.ShardingPolicy.OFF:
            with pytest.raises(tf.errors.UnimplementedError, match=f"{policy.name}.*already distributed"):
                once.apply(ms.tf.distribute(policy, service))
    known_as = ms.tf.register_dataset(service, once)
    with pytest.raises(tf.errors.UnimplementedError, match="already distributed"):
        ms.tf.from_dataset_id("distributed_epoch", service, known_as)
    assert numbers(ms.tf.from_dataset_id("parallel_epochs", service, known_as)) == sorted(2 * [*range(10)])


def test_a_function_distributes_what_it_is_given(service: ms.LocalService) -> None:
    @tf.function
    def total(count: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in tf.data.Dataset.range(count).apply(ms.tf.distribute("distributed_epoch", service)):
            found += x
        return found

    # A repeated call is another pass.
    assert [int(total(tf.constant(count, tf.int64))) for count in (5, 6, 5)] == [10, 15, 10]


def test_a_function_reads_a_dataset_from_outside(service: ms.LocalService) -> None:
    outside = tf.data.Dataset.range(5)
    distributed = outside.apply(ms.tf.distribute("distributed_epoch", service))

    @tf.function
    def totals() -> Any:
        found = tf.constant(0, tf.int64)
        for x in distributed:
            found += x
        for x in outside.apply(ms.tf.distribute("distributed_epoch", service)):
            found += 10 * x
        return found

    assert int(totals()) == int(totals()) == 110


def test_a_dataset_function_distributes_its_dataset(service: ms.LocalService) -> None:
    one = ms.tf.distribute("distributed_epoch", service, num_shards=1)
    interleaved = tf.data.Dataset.range(2).interleave(lambda x: tf.data.Dataset.range(10 * x, 10 * x + 2).apply(one), cycle_length=2)
    assert [int(x) for x in interleaved] == [0, 10, 1, 11]
    flat = tf.data.Dataset.range(4).flat_map(lambda x: tf.data.Dataset.range(x).apply(one))
    assert [int(x) for x in flat] == [0, 0, 1, 0, 1, 2]


def test_errors_within_functions_keep_their_code(service: ms.LocalService) -> None:
    def read(path: Any) -> Any:
        return tf.data.Dataset.from_tensors(path).map(tf.io.read_file).apply(ms.tf.distribute("distributed_epoch", service))

    with pytest.raises(tf.errors.NotFoundError, match="/nowhere"):
        list(tf.data.Dataset.from_tensors("/nowhere").flat_map(read))


def test_operations_combine_distributed_datasets(service: ms.LocalService) -> None:
    low, high = (tf.data.Dataset.range(*limits).apply(ms.tf.distribute("distributed_epoch", service)) for limits in ((6,), (6, 9)))
    assert numbers(low.concatenate(high)) == list(range(9))
    assert len(list(tf.data.Dataset.zip((low, high)))) == 3
    assert numbers(tf.data.Dataset.range(2).flat_map(lambda _: low)) == sorted(2 * [*range(6)])
    assert numbers(tf.data.Dataset.range(2).interleave(lambda _: high, cycle_length=2)) == sorted(2 * [*range(6, 9)])
    assert numbers(tf.data.Dataset.sample_from_datasets([low, high])) == list(range(9))


_PROGRAM = """
import sys
import numpy as np, tensorflow as tf
import millstream as ms
offset = 2
dataset = tf.data.Dataset.range(4).map(lambda x: tf.numpy_function(lambda y: np.int64(y + offset), [x], tf.int64))
print(ms.tf.register_dataset(sys.argv[1], dataset).numpy().decode())
"""


def test_a_dataset_of_another_program_is_read(processes: ms.LocalService) -> None:
    run = subprocess.run([sys.executable, "-c", _PROGRAM, processes.target], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    assert numbers(ms.tf.from_dataset_id("distributed_epoch", processes, run.stdout.strip())) == [2, 3, 4, 5]
