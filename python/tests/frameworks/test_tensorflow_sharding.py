"""Tests of TensorFlow datasets that are divided among workers: the fixed lists of TensorFlow's own service, and infinite datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

tf = pytest.importorskip("tensorflow")

ShardingPolicy = ms.service.ShardingPolicy
STATIC = (ShardingPolicy.FILE, ShardingPolicy.DATA, ShardingPolicy.FILE_OR_DATA, ShardingPolicy.HINT)
#: The number of workers in the fixed list. One test has fewer files.
WORKERS = 3


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    """Starts a dispatcher of Millstream with a fixed list, and its workers."""
    with ms.service.DispatchServer(ms.service.DispatcherConfig(worker_addresses=["127.0.0.1"] * WORKERS)) as dispatcher:
        workers = [ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target, python="inline")) for _ in range(WORKERS)]
        yield dispatcher.target
        for worker in workers:
            worker.stop()


@pytest.fixture(scope="module")
def theirs() -> Iterator[str]:
    """Starts TensorFlow's own dispatcher and workers in the same way."""
    upstream = tf.data.experimental.service
    dispatcher = upstream.DispatchServer(upstream.DispatcherConfig(worker_addresses=["localhost"] * WORKERS))
    address = dispatcher.target.split("://")[1]
    workers = [upstream.WorkerServer(upstream.WorkerConfig(address, heartbeat_interval_ms=100)) for _ in range(WORKERS)]
    yield dispatcher.target
    del workers, dispatcher


def lines(directory: Path, count: int) -> list[str]:
    """Creates text files, and returns their names."""
    paths = [directory / f"{number}.txt" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text("".join(f"{number} {line}\n" for line in range(4)))
    return [str(path) for path in paths]


DATASETS: dict[str, Callable[[Path], Any]] = {
    "numbers": lambda _: tf.data.Dataset.range(20),
    "fewer elements than workers": lambda _: tf.data.Dataset.range(2),
    "nothing": lambda _: tf.data.Dataset.range(0),
    "a hint": lambda _: tf.data.Dataset.range(20).shard(-1, 0),
    "a hint in the middle": lambda _: tf.data.Dataset.range(20).shard(-1, 0).map(lambda x: x * 2).batch(3),
    "files": lambda path: tf.data.TextLineDataset(lines(path, 5)),
    "fewer files than workers": lambda path: tf.data.TextLineDataset(lines(path, 2)),
    "files with a hint": lambda path: tf.data.Dataset.from_tensor_slices(lines(path, 5)).shard(-1, 0).flat_map(tf.data.TextLineDataset),
    "shuffled files": lambda path: tf.data.Dataset.from_tensor_slices(lines(path, 6)).shuffle(6).interleave(tf.data.TextLineDataset),
    "zipped files": lambda path: tf.data.Dataset.zip((tf.data.TextLineDataset(lines(path, 4)), tf.data.TextLineDataset(lines(path, 4)))),
    "batches": lambda _: tf.data.Dataset.range(20).batch(3).prefetch(2),
}


def outcome(dataset: Any) -> Any:
    """Returns the elements in order, or the class of the error."""
    try:
        return sorted(str(tf.nest.map_structure(lambda part: part.numpy(), element)) for element in dataset)
    except tf.errors.OpError as error:
        return type(error).__name__


@pytest.mark.parametrize("name", DATASETS)
def test_fixed_lists_divide_as_upstream_does(name: str, ours: str, theirs: str, tmp_path: Path) -> None:
    dataset, upstream = DATASETS[name](tmp_path), tf.data.experimental.service
    for policy in STATIC:
        if name == "shuffled files" and policy is ShardingPolicy.DATA:
            # Each worker shuffles in another order, so shares overlap in both services.
            continue
        expected = outcome(dataset.apply(upstream.distribute(upstream.ShardingPolicy(int(policy)), theirs)))
        assert outcome(dataset.apply(ms.tf.distribute(policy, ours))) == expected, policy


def test_a_dispatcher_without_a_list_divides_nothing(cluster: Callable[..., str]) -> None:
    target = cluster(1, python="inline")
    for policy in STATIC:
        distributed = tf.data.Dataset.range(20).apply(ms.tf.distribute(policy, target))
        with pytest.raises(tf.errors.NotFoundError, match="worker addresses"):
            list(distributed)


def test_one_worker_of_a_list_reads_everything(cluster: Callable[..., str]) -> None:
    target = cluster(1, config=ms.service.DispatcherConfig(worker_addresses=["127.0.0.1"]), python="inline")
    for policy in STATIC:
        assert [int(x) for x in tf.data.Dataset.range(20).apply(ms.tf.distribute(policy, target))] == list(range(20))


def test_fixed_lists_divide_infinite_datasets(ours: str, tmp_path: Path) -> None:
    endless = tf.data.Dataset.range(3 * WORKERS).repeat()
    for policy in (ShardingPolicy.DATA, ShardingPolicy.FILE_OR_DATA):
        found = Counter(int(x) for x in endless.apply(ms.tf.distribute(policy, ours)).take(30 * WORKERS))
        # Each worker yields every third number.
        assert {x for x in found if x % WORKERS == 0} <= set(range(0, 3 * WORKERS, WORKERS)) and len(found) >= 3
    files = tf.data.TextLineDataset(lines(tmp_path, WORKERS)).repeat()
    assert len(list(files.apply(ms.tf.distribute(ShardingPolicy.FILE, ours)).take(100))) == 100


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    """Starts a service with two workers in this process."""
    with ms.local(workers=2, inline=True) as running:
        yield running


def test_an_infinite_dataset_is_read_evenly(service: ms.LocalService) -> None:
    endless = tf.data.Dataset.range(20).repeat()
    distributed = endless.apply(ms.tf.distribute("distributed_epoch", service))
    assert distributed.cardinality() == tf.data.INFINITE_CARDINALITY
    found = Counter(int(x) for x in distributed.take(1000))
    assert sorted(found) == list(range(20)) and min(found.values()) > 25


def test_batches_of_an_infinite_dataset_are_full(service: ms.LocalService) -> None:
    endless = tf.data.Dataset.range(5).shuffle(5).repeat().batch(8, drop_remainder=True)
    distributed = endless.apply(ms.tf.distribute("distributed_epoch", service))
    assert [batch.shape for batch in distributed.take(20)] == [(8,)] * 20


def test_an_infinite_dataset_outlives_a_worker(cluster: Callable[..., str]) -> None:
    dispatcher = ms.service.DispatchServer()
    workers = [ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target, python="inline")) for _ in range(3)]
    elements = iter(tf.data.Dataset.range(1).repeat().apply(ms.tf.distribute("distributed_epoch", dispatcher.target, on_lost="ignore")))
    assert [int(next(elements)) for _ in range(20)] == [0] * 20
    for worker in workers[1:]:
        worker.stop()
    assert [int(next(elements)) for _ in range(2000)] == [0] * 2000
    del elements
    workers[0].stop()
    dispatcher.stop()


def of_graph(graph: bytes, spec: Any) -> Any:
    """Returns the dataset of a graph."""
    return tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), spec)


def graph_of(dataset: Any) -> bytes:
    """Returns the serialised graph of a dataset."""
    return bytes(tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.experimental.to_variant(dataset)).numpy())


def test_tasks_start_at_different_places_and_read_all() -> None:
    from millstream._tf_division import turned

    dataset = tf.data.Dataset.range(100)
    passes = [[int(x) for x in of_graph(turned(graph_of(dataset), number), dataset.element_spec)] for number in range(8)]
    assert passes[0] == list(range(100))
    assert all(sorted(found) == list(range(100)) for found in passes)
    starts = sorted(found[0] for found in passes)
    # Eight places on a circle of 100 are at least 5 apart.
    assert min(b - a for a, b in zip(starts, [*starts[1:], starts[0] + 100], strict=True)) >= 5


STARTING: dict[str, Any] = {
    "elements are counted": lambda: tf.data.Dataset.range(100).take(10).repeat(),
    "sources of different sizes are paired": lambda: tf.data.Dataset.zip((tf.data.Dataset.range(10), tf.data.Dataset.range(20))).repeat(),
    "the source is infinite": lambda: tf.data.Dataset.random(3),
}


@pytest.mark.parametrize("name", STARTING)
def test_a_source_keeps_its_start_where(name: str) -> None:
    from millstream._tf_division import turned

    dataset = STARTING[name]().take(5)
    first, second = (list(of_graph(turned(graph_of(dataset), number), dataset.element_spec)) for number in (0, 1))
    assert str(first) == str(second)


def test_pairs_of_equal_sources_stay_together() -> None:
    from millstream._tf_division import turned

    dataset = tf.data.Dataset.zip((tf.data.Dataset.range(30), tf.data.Dataset.range(30, 60)))
    pairs = [tuple(map(int, pair)) for pair in of_graph(turned(graph_of(dataset), 1), dataset.element_spec)]
    assert sorted(pairs) == [(x, x + 30) for x in range(30)] and pairs[0] != (0, 30)


def test_a_selector_is_not_divided(service: ms.LocalService) -> None:
    letters = [tf.data.Dataset.from_tensors(letter).repeat(4) for letter in "ab"]
    for stops in (True, False):
        chosen = tf.data.Dataset.choose_from_datasets(letters, tf.data.Dataset.range(2).repeat(), stop_on_empty_dataset=stops)
        found = chosen.apply(ms.tf.distribute("distributed_epoch", service, num_shards=1))
        assert [bytes(x.numpy()) for x in found] == [bytes(x.numpy()) for x in chosen]
    every = [tf.data.Dataset.range(start, start + 32) for start in (0, 32)]
    chosen = tf.data.Dataset.choose_from_datasets(every, tf.data.Dataset.range(2).repeat(), stop_on_empty_dataset=False)
    assert sorted(int(x) for x in chosen.apply(ms.tf.distribute("distributed_epoch", service))) == list(range(64))
