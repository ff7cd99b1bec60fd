"""Tests of ``ms.service`` that correspond to TensorFlow's tests of ``tf.data.experimental.service``, with the same names."""

from __future__ import annotations

import bisect
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream._connection import connect
from millstream.service import (
    CrossTrainerCache,
    DispatcherConfig,
    DispatchServer,
    ShardingPolicy,
    WorkerConfig,
    WorkerServer,
    distribute,
    from_dataset_id,
    register_dataset,
)

Start = Callable[..., str]


def numbers(dataset: Dataset) -> list[int]:
    return [int(element) for element in dataset]


def test_distribute_basic(cluster: Start, tmp_path: Path) -> None:
    configs = [None, DispatcherConfig(work_dir=str(tmp_path)), DispatcherConfig(0, None, str(tmp_path), True)]
    for config in configs:
        target = cluster(1, config)
        dataset = Dataset.range(10).apply(distribute("parallel_epochs", target))
        assert numbers(dataset) == list(range(10))


def test_the_modules_own_example() -> None:
    dispatcher = DispatchServer()
    dispatcher_address = dispatcher.target.split("://")[1]
    worker = WorkerServer(WorkerConfig(dispatcher_address=dispatcher_address))
    dataset = Dataset.range(10)
    dataset = dataset.apply(distribute(processing_mode="parallel_epochs", service=dispatcher.target))
    assert str([int(x) for x in dataset.as_numpy_iterator()]) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    worker.stop()
    dispatcher.stop()


def test_both_schemes_and_none_name_a_service(cluster: Start) -> None:
    address = cluster(1).split("://")[1]
    for service in (f"millstream://{address}", f"grpc://{address}", address, ("grpc", address)):
        assert numbers(Dataset.range(3).apply(distribute(ShardingPolicy.OFF, service))) == [0, 1, 2]


def test_several_addresses_name_one_service(cluster: Start) -> None:
    address = cluster(1).split("://")[1]
    for service in (f"millstream://127.0.0.1:9,{address}", f"{address}, 127.0.0.1:9"):
        assert numbers(Dataset.range(3).apply(distribute(ShardingPolicy.OFF, service))) == [0, 1, 2]


def test_operations_behind_distribute_run_here(cluster: Start) -> None:
    dataset = Dataset.range(5).map(lambda x: x * x).apply(distribute("parallel_epochs", cluster(2)))
    assert sorted(numbers(dataset.map(lambda x: x + 1))) == [1, 1, 2, 2, 5, 5, 10, 10, 17, 17]


def test_multi_worker_and_dynamic_sharding(cluster: Start) -> None:
    target = cluster(3)
    everything = numbers(Dataset.range(10).apply(distribute("parallel_epochs", target)))
    assert sorted(everything) == sorted(list(range(10)) * 3)
    once = numbers(Dataset.range(1000).apply(distribute("distributed_epoch", target)))
    assert sorted(once) == list(range(1000))


def test_multiple_epochs(cluster: Start) -> None:
    dataset = Dataset.range(3).apply(distribute("parallel_epochs", cluster(1)))
    assert [numbers(dataset) for _ in range(10)] == [[0, 1, 2]] * 10


def test_repeated_dataset(cluster: Start) -> None:
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", cluster(1)))
    assert numbers(dataset.repeat(5)) == list(range(10)) * 5


def test_concurrent_epochs(cluster: Start) -> None:
    target = cluster(1)
    readers = [iter(Dataset.range(10).apply(distribute("parallel_epochs", target))) for _ in range(3)]
    assert [[int(next(reader)) for reader in readers] for _ in range(10)] == [[x] * 3 for x in range(10)]


def test_shared_job_name_multi_iteration(cluster: Start) -> None:
    target = cluster(1)
    one, two = (Dataset.range(10).apply(distribute("parallel_epochs", target, "job_name")) for _ in range(2))
    assert (numbers(one), numbers(two)) == (list(range(10)), [])
    assert (numbers(two), numbers(one)) == (list(range(10)), [])


@pytest.mark.parametrize(
    "then",
    [
        lambda dataset: dataset,
        lambda dataset: dataset.repeat(),
        lambda dataset: dataset.map(lambda number: number + 1),
        lambda dataset: dataset.map(lambda number: number + 1).prefetch(1),
    ],
    ids=["alone", "repeat", "map", "prefetch"],
)
def test_readers_share_a_job_from_the_first_element(cluster: Start, then: Callable[[Dataset], Dataset]) -> None:
    target = cluster(1)
    one, two = (
        iter(then(Dataset.range(1000).apply(distribute("parallel_epochs", target, job_name="shared")))) for _ in range(2)
    )
    for _ in range(3):
        assert next(one) is not None
        assert next(two) is not None


def test_different_job_names(cluster: Start) -> None:
    target = cluster(1)
    for name in ("one", "two"):
        assert numbers(Dataset.range(10).apply(distribute("parallel_epochs", target, job_name=name))) == list(range(10))


def test_from_dataset_id(cluster: Start) -> None:
    target = cluster(1)
    dataset = Dataset.range(10)
    dataset_id = register_dataset(target, dataset)
    for spec in (None, dataset.element_spec):
        assert numbers(from_dataset_id("parallel_epochs", target, dataset_id, spec)) == list(range(10))
    assert from_dataset_id("parallel_epochs", target, dataset_id.encode()).element_spec == dataset.element_spec
    assert register_dataset(target, Dataset.range(20)) != dataset_id


def test_register_with_explicit_dataset_id(cluster: Start) -> None:
    target = cluster(1)
    assert register_dataset(target, Dataset.range(10), dataset_id="dataset_id") == "dataset_id"
    assert numbers(from_dataset_id("parallel_epochs", target, "dataset_id")) == list(range(10))
    with pytest.raises(ms.errors.InvalidArgumentError):
        register_dataset(target, Dataset.from_tensors("text"), None, "dataset_id")


def test_from_dataset_id_not_registered(cluster: Start) -> None:
    with pytest.raises(ms.errors.NotFoundError, match="UnregisteredID"):
        from_dataset_id("parallel_epochs", cluster(1), "UnregisteredID")


def test_from_dataset_id_wrong_element_spec(cluster: Start) -> None:
    target = cluster(1)
    dataset_id = register_dataset(target, Dataset.range(10))
    with pytest.raises(ms.errors.InvalidArgumentError, match="int64"):
        from_dataset_id("parallel_epochs", target, dataset_id, ms.TensorSpec((), ms.string))


def test_from_dataset_id_names_jobs_per_dataset(cluster: Start) -> None:
    target = cluster(2)
    for dataset_id, dataset in (("dataset_1", Dataset.range(20)), ("dataset_2", Dataset.range(20, 40))):
        register_dataset(target, dataset, dataset_id=dataset_id)
    read = [
        numbers(from_dataset_id("distributed_epoch", target, dataset_id, job_name="shared_job"))
        for dataset_id in ("dataset_1", "dataset_2", "dataset_1", "dataset_2")
    ]
    assert sorted(sum(read, [])) == list(range(40))


def test_structures_keep_their_names(cluster: Start) -> None:
    nested = {"a": (np.arange(3), np.arange(3)), "b": np.arange(3)}
    elements = list(Dataset.from_tensor_slices(nested).apply(distribute("parallel_epochs", cluster(1))))
    assert elements == [{"a": (x, x), "b": x} for x in range(3)]


def test_double_distribute(cluster: Start) -> None:
    target = cluster(1)
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", target))
    assert numbers(dataset.apply(distribute("parallel_epochs", target))) == list(range(10))


def test_batch_drops_all_elements(cluster: Start) -> None:
    dataset = Dataset.range(10).batch(1000, drop_remainder=True).apply(distribute("distributed_epoch", cluster(2)))
    assert list(dataset) == []


def test_distribute_large_graph(cluster: Start) -> None:
    large = np.ones((2, 1000, 1000), np.float32)
    dataset = Dataset.from_tensors(large).apply(distribute("parallel_epochs", cluster(1)))
    assert np.array_equal(next(iter(dataset)), large)


@pytest.mark.parametrize("compression", ["AUTO", None, "lz4", "none", "SNAPPY"])
def test_distribute_compression(cluster: Start, compression: str | None) -> None:
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", cluster(1), compression=compression))
    assert numbers(dataset) == list(range(10))


def test_compression_is_discovered_from_the_metadata(cluster: Start) -> None:
    target = cluster(1)
    words = Dataset.from_tensor_slices([chr(code) for code in range(97, 123)]).map(ms.ops.strings_upper)
    for compression in (None, "AUTO"):
        dataset_id = register_dataset(target, words, compression)
        assert "".join(from_dataset_id("parallel_epochs", target, dataset_id)) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize("protocol", [None, "grpc", "quic"])
def test_explicit_data_transfer_protocol(cluster: Start, protocol: str | None) -> None:
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", cluster(1), data_transfer_protocol=protocol))
    assert numbers(dataset) == list(range(10))


def test_unknown_data_transfer_protocol(cluster: Start) -> None:
    with pytest.raises(ms.errors.NotFoundError, match="not available"):
        distribute("parallel_epochs", cluster(0), data_transfer_protocol="unknown")


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("compression", "foo", "AUTO"),
        ("service", 1, "string"),
        ("service", "", "empty"),
        ("service", "a://b://c", "several"),
        ("processing_mode", "invalid", "parallel_epochs"),
        ("processing_mode", None, "ShardingPolicy"),
        ("job_name", "", "empty"),
        ("job_name", 1, "string"),
        ("num_consumers", 2, "both"),
        ("consumer_index", 0, "both"),
    ],
)
def test_arguments_that_cannot_be_are_value_errors(argument: str, value: Any, said: str) -> None:
    arguments = {"processing_mode": "parallel_epochs", "service": "localhost:1", argument: value}
    with pytest.raises(ValueError, match=said):
        distribute(**arguments)
    if argument != "compression":
        with pytest.raises(ValueError, match=said):
            from_dataset_id(dataset_id="1000", **arguments)


def test_coordinated_reads_need_a_name() -> None:
    with pytest.raises(ValueError, match="job_name"):
        distribute("parallel_epochs", "localhost:1", consumer_index=0, num_consumers=2)


def test_a_trainer_has_an_id() -> None:
    for empty in (None, ""):
        with pytest.raises(ValueError, match="trainer_id"):
            CrossTrainerCache(empty)  # type: ignore[arg-type]


def test_fault_tolerance_needs_a_work_dir() -> None:
    with pytest.raises(ValueError, match="work_dir"):
        DispatcherConfig(fault_tolerant_mode=True)


def test_sharding_policies_have_the_numbers_of_tf_data() -> None:
    assert {policy.name: policy.value for policy in ShardingPolicy} == {
        "OFF": 0,
        "DYNAMIC": 1,
        "FILE": 2,
        "DATA": 3,
        "FILE_OR_DATA": 4,
        "HINT": 5,
    }


def test_static_sharding_divides_among_a_list_of_workers(cluster: Start) -> None:
    config = DispatcherConfig(worker_addresses=["127.0.0.1:%port%", "127.0.0.1:%port%"])
    target = cluster(2, config)
    shards = Dataset.range(10).shard(ms.service.SHARD_HINT, 0)
    for policy, dataset in ((ShardingPolicy.DATA, Dataset.range(10)), (ShardingPolicy.HINT, shards)):
        read = numbers(dataset.apply(distribute(policy, target, target_workers="ANY")))
        assert sorted(read) == list(range(10))


def test_cardinality_of_a_distributed_dataset(cluster: Start) -> None:
    target = cluster(1)
    for dataset, known in (
        (Dataset.range(10).repeat(), ms.INFINITE_CARDINALITY),
        (Dataset.range(0), 0),
        (Dataset.range(10), ms.UNKNOWN_CARDINALITY),
    ):
        assert dataset.apply(distribute("parallel_epochs", target)).cardinality() == known


def test_local_workers_alone_are_read_when_asked_for(cluster: Start) -> None:
    target = cluster(2)
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", target, target_workers="local"))
    elements = iter(dataset)
    assert sorted(int(element) for element in elements) == sorted(list(range(10)) * 2)
    assert set(elements.stats()["transports"].values()) == {"memory"}  # type: ignore[attr-defined]
    with pytest.raises(ms.errors.InvalidArgumentError, match="job_name|differ"):
        list(Dataset.range(3).apply(distribute("parallel_epochs", target, "same", target_workers="ANY")))
        list(Dataset.range(3).apply(distribute("parallel_epochs", target, "same", target_workers="LOCAL")))


def test_no_local_worker(processes: ms.LocalService) -> None:
    dataset = Dataset.range(10).apply(distribute("parallel_epochs", processes, target_workers="LOCAL"))
    with pytest.raises(ms.errors.InvalidArgumentError):
        next(iter(dataset))


def test_consumers_in_step_get_elements_of_one_group(cluster: Start) -> None:
    target = cluster(2)
    groups = Dataset.counter().map(lambda x: ms.stack([x * 2, x * 2 + 1])).unbatch()
    consumers = [
        groups.apply(distribute("parallel_epochs", target, "step", consumer_index=index, num_consumers=2))
        for index in range(2)
    ]
    read: list[list[int]] = [[], []]

    def consume(index: int) -> None:
        elements = iter(consumers[index])
        read[index] = [int(next(elements)) for _ in range(50)]

    threads = [threading.Thread(target=consume, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(one % 2, two - one) for one, two in zip(*read, strict=True)] == [(0, 1)] * 50


def read_in_step(datasets: list[Dataset]) -> list[list[Any]]:
    """Returns the elements of each consumer, which reads its dataset to the end in a thread of its own."""
    with ThreadPoolExecutor(len(datasets)) as pool:
        return list(pool.map(lambda dataset: list(dataset), datasets))


@pytest.mark.parametrize("mode", ["parallel_epochs", "distributed_epoch"])
def test_consumers_reach_the_end_in_the_same_step(cluster: Start, mode: str) -> None:
    target, epochs = cluster(2), 2
    numbers = Dataset.range(1001)
    consumers = [numbers.apply(distribute(mode, target, "to the end", consumer_index=index, num_consumers=3)) for index in range(3)]
    for _ in range(epochs):
        read = read_in_step(consumers)
        steps = len(read[0])
        assert [len(elements) for elements in read] == [steps] * 3
        # Each worker leaves out the last elements that fill no round.
        total = 2 * 1001 if mode == "parallel_epochs" else 1001
        assert total - 2 * 2 <= 3 * steps <= total
        if mode == "distributed_epoch":
            everything = [int(element) for elements in read for element in elements]
            assert len(set(everything)) == 3 * steps


def test_buckets_of_a_finite_dataset_across_workers(cluster: Start) -> None:
    target, consumers, size, rows = cluster(2), 3, 4, 3000
    lengths = Dataset.range(1, rows + 1).map(lambda x: x * 7 % 40 + 1)
    texts = lengths.map_python(lambda n: np.full(int(n), n), element_spec=ms.TensorSpec((None,), ms.int64))
    buckets = texts.bucket_by_sequence_length(lambda text: ms.ops.shape(text)[0], [10, 20, 30], [size * consumers] * 4, drop_remainder=True)
    rounds = buckets.unbatch().batch(size)
    how = {"job_name": "buckets", "num_consumers": consumers}
    read = read_in_step([rounds.apply(distribute("distributed_epoch", target, consumer_index=index, **how)) for index in range(consumers)])
    assert len({len(batches) for batches in read}) == 1
    for batches in zip(*read, strict=True):
        assert len({batch.shape for batch in batches}) == 1, "the consumers of a step have batches of different lengths"
        assert len({bisect.bisect_right([10, 20, 30], int(row.max())) for batch in batches for row in batch}) == 1
    # Each worker leaves out at most one incomplete round of each bucket.
    assert rows - 2 * 4 * (size * consumers - 1) <= len(read[0]) * consumers * size <= rows


def test_an_unused_job_is_collected(cluster: Start) -> None:
    config = DispatcherConfig(job_gc_check_interval_ms=50, job_gc_timeout_ms=20)
    target = cluster(1, config)
    workers = connect(target.split("://")[1])
    elements = iter(Dataset.range(1000).repeat().apply(distribute("parallel_epochs", target)))
    assert next(elements) == 0
    assert [worker["tasks"] for worker in workers.workers()] == [1]
    del elements
    while workers.workers()[0]["tasks"]:
        time.sleep(0.01)


def test_a_workers_failure_keeps_its_kind(cluster: Start) -> None:
    dataset = Dataset.range(-1, 5).map(lambda x: 6 // x).apply(distribute("parallel_epochs", cluster(1)))
    elements = iter(dataset)
    assert next(elements) == -6
    with pytest.raises(ms.errors.MillstreamError, match="floor_div|divided") as raised:
        next(elements)
    assert raised.value.worker and raised.value.worker in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy), copy.worker) == (type(raised.value), str(raised.value), raised.value.worker)


def test_servers_stop_twice_join_and_never_start_again() -> None:
    dispatcher = DispatchServer(start=False)
    with pytest.raises(ms.errors.FailedPreconditionError, match="not started"):
        _ = dispatcher.target
    dispatcher.start()
    dispatcher.start()
    worker = WorkerServer(WorkerConfig(dispatcher.target))
    assert dispatcher._num_workers() == 1
    for server in (worker, dispatcher):
        server.stop()
        server._stop()
        server.join()
        with pytest.raises(ms.errors.FailedPreconditionError, match="stopped"):
            server.start()


def test_a_worker_with_an_empty_tag_is_refused() -> None:
    with DispatchServer() as dispatcher, pytest.raises(ms.errors.MillstreamError, match="tag"):
        WorkerServer(WorkerConfig(dispatcher.target, tags=[""]))


def test_a_worker_advertises_the_port_it_was_given(cluster: Start) -> None:
    with DispatchServer() as dispatcher, WorkerServer(WorkerConfig(dispatcher.target, "localhost:%port%")) as worker:
        host, _, port = worker.address.partition(":")
        assert host == "localhost" and port.isdecimal()
        assert numbers(Dataset.range(3).apply(distribute("parallel_epochs", dispatcher))) == [0, 1, 2]


def test_endless_repeat_passes_over_what_others_read(cluster: Start) -> None:
    target = cluster(1)

    def shared() -> Dataset:
        read = distribute("parallel_epochs", target, job_name="repeated", max_outstanding_requests=1)
        return Dataset.range(10).apply(read).repeat()

    one, other = iter(shared()), iter(shared())
    assert sorted(int(next(one)) for _ in range(30)) == sorted([*range(10)] * 3)
    assert int(next(other)) in range(10)


def test_endless_repeat_of_an_empty_job_ends(cluster: Start) -> None:
    nothing = Dataset.range(10).filter(lambda x: x > 10)
    assert numbers(nothing.apply(distribute("parallel_epochs", cluster(1))).repeat()) == []


def test_named_jobs_go_on_in_datasets_made_again(cluster: Start) -> None:
    dataset = Dataset.range(5).apply(distribute("parallel_epochs", cluster(1), job_name="made again"))
    epochs = [numbers(dataset.map(lambda x: x + 1).batch(1).unbatch()) for _ in range(3)]
    assert epochs == [[1, 2, 3, 4, 5]] * 3
    assert numbers(dataset) == [0, 1, 2, 3, 4]


def test_local_workers_are_read_before_local_operations(cluster: Start) -> None:
    local = distribute("parallel_epochs", cluster(1), target_workers="LOCAL")
    assert numbers(Dataset.range(3).apply(local).prefetch(1)) == [0, 1, 2]
    assert numbers(Dataset.range(3).apply(local).map(lambda x: x + 1).repeat(2)) == [1, 2, 3, 1, 2, 3]


def test_errors_keep_their_class_before_local_operations(cluster: Start) -> None:
    target = cluster(1)
    spec = ms.TensorSpec((), ms.int64)
    failing = Dataset.range(3).map_python(lambda x: 1 // 0, element_spec=spec).apply(distribute("parallel_epochs", target))
    with pytest.raises(ms.errors.UserFunctionError, match="division") as direct:
        list(failing)
    with pytest.raises(ms.errors.UserFunctionError, match="division") as behind:
        list(failing.map(lambda x: x).batch(2))
    assert str(behind.value) == str(direct.value)
    assert "1 // 0" in behind.value.remote_traceback
    list(Dataset.range(3).apply(distribute("parallel_epochs", target, "taken", target_workers="ANY")).prefetch(1))
    with pytest.raises(ms.errors.InvalidArgumentError):
        list(Dataset.range(3).apply(distribute("parallel_epochs", target, "taken", target_workers="LOCAL")).prefetch(1))
