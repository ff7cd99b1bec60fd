"""Tests of distributed input: the parts of global batches that replicas receive are those of TensorFlow's tutorial."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, InputContext, InputOptions, InputReplicationMode, distribute_dataset
from millstream._distributed_input import batch_sizes_for_worker


def steps(distributed: ms.DistributedDataset) -> list[Any]:
    """Returns the rows that each replica received in each step."""
    return [tuple(part.tolist() for part in ms.local_results(step)) for step in distributed]


def ones(count: int) -> Dataset:
    return Dataset.from_tensors(([1.0], [1.0])).repeat(count)


def train_step(inputs: Any) -> Any:
    features, labels = inputs
    return labels - np.float32(0.3) * features


def test_one_replica_gets_global_batches_as_they_are() -> None:
    distributed = distribute_dataset(ones(100).batch(16), 1)
    losses = [ms.run_replicas(train_step, args=(x,)) for x in distributed]
    assert [loss.shape for loss in losses] == [(16, 1)] * 6 + [(4, 1)]
    assert all(loss.dtype == np.float32 and np.allclose(loss, 0.7) for loss in losses)
    features, labels = next(iter(distributed))
    assert features.tolist() == labels.tolist() == [[1.0]] * 16


def test_the_uneven_last_batch_is_split_as_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    steps_per_loop = 5
    dataset = Dataset.range(9).batch(4)
    distributed_iterator = iter(distribute_dataset(dataset, ["GPU:0", "CPU:0"]))
    for _ in range(steps_per_loop):
        optional_data = distributed_iterator.get_next_as_optional()
        if not optional_data.has_value():
            break
        per_replica_results = ms.run_replicas(lambda x: x, args=(optional_data.get_value(),))
        print(f"({', '.join(map(str, ms.local_results(per_replica_results)))})")
    assert capsys.readouterr().out == "([0 1], [2 3])\n([4 5], [6 7])\n([8], [])\n"
    with pytest.raises(ms.errors.OutOfRangeError):
        distributed_iterator.get_next()


def test_outputs_are_ordered_by_their_index(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = Dataset.range(24).enumerate().batch(6)

    def predict(index: Any, inputs: Any) -> Any:
        return index, 2 * inputs

    result = {}
    for index, inputs in distribute_dataset(dataset, 3):
        output_index, outputs = ms.run_replicas(predict, args=(index, inputs))
        indices = [int(a) for part in ms.local_results(output_index) for a in part]
        values = [int(a) for part in ms.local_results(outputs) for a in part]
        result.update(zip(indices, values, strict=True))
    print(result)
    expected = (
        "{0: 0, 1: 2, 2: 4, 3: 6, 4: 8, 5: 10, 6: 12, 7: 14, 8: 16, 9: 18, 10: 20, 11: 22, 12: 24, 13: 26, 14: 28, "
        "15: 30, 16: 32, 17: 34, 18: 36, 19: 38, 20: 40, 21: 42, 22: 44, 23: 46}\n"
    )
    assert capsys.readouterr().out == expected


def test_a_step_prints_what_each_replica_has() -> None:
    step = next(iter(distribute_dataset(Dataset.from_tensor_slices([1, 2, 3, 4]).repeat().batch(4), 2)))
    assert str(step) == "PerReplica:{\n  0: [1 2],\n  1: [3 4]\n}"
    tutorial = distribute_dataset(Dataset.from_tensors([2.0]).repeat(100).batch(4), 2)
    squares = ms.run_replicas(np.square, args=(next(iter(tutorial)),))
    assert [part.tolist() for part in squares.values] == [[[4.0], [4.0]]] * 2


def test_specs_say_what_each_replica_gets() -> None:
    distributed = distribute_dataset(Dataset.from_tensors(([1.0], [2])).repeat(100).batch(16), 2)
    expected = (
        "(PerReplicaSpec(TensorSpec(shape=(None, 1), dtype=ms.float32, name=None), "
        "TensorSpec(shape=(None, 1), dtype=ms.float32, name=None)), "
        "PerReplicaSpec(TensorSpec(shape=(None, 1), dtype=ms.int32, name=None), "
        "TensorSpec(shape=(None, 1), dtype=ms.int32, name=None)))"
    )
    assert repr(distributed.element_spec) == repr(iter(distributed).element_spec) == expected
    static = distribute_dataset(Dataset.range(9).batch(4, drop_remainder=True), 2)
    assert static.element_spec == ms.PerReplicaSpec(*[ms.TensorSpec([2], ms.int64)] * 2)
    assert distribute_dataset(Dataset.range(3).batch(2), 1).element_spec == ms.TensorSpec([None], ms.int64)


@pytest.mark.parametrize(
    ("dataset", "replicas", "expected"),
    [
        # The declared batch size determines the parts, also for a batch that is not full.
        (lambda: Dataset.range(6).batch(16), 4, [([0, 1, 2, 3], [4, 5], [], [])]),
        (lambda: Dataset.range(7).batch(7), 3, [([0, 1, 2], [3, 4], [5, 6])]),
        # Rows of consecutive batches are joined, as by rebatch.
        (lambda: Dataset.range(3).batch(2).repeat(2), 2, [([0], [1]), ([2], [0]), ([1], [2])]),
        # Without a known batch size each batch is cut into equal parts.
        (lambda: Dataset.range(5).batch(5).map(lambda x: x + 1), 4, [([1, 2], [3, 4], [5], [])]),
        (lambda: Dataset.range(3).batch(3), 4, [([0], [1], [2], [])]),
        # With static shapes an incomplete step is dropped.
        (lambda: Dataset.range(9).batch(4, drop_remainder=True), 2, [([0, 1], [2, 3]), ([4, 5], [6, 7])]),
        (lambda: Dataset.range(0).batch(4), 2, []),
    ],
)
def test_global_batches_are_split_as_upstream_splits_them(dataset: Any, replicas: int, expected: list[Any]) -> None:
    assert steps(distribute_dataset(dataset(), replicas)) == expected


def test_several_workers_have_upstreams_sizes() -> None:
    assert batch_sizes_for_worker(7, 2, 2, 0) == [2, 2, 2, 1]
    assert batch_sizes_for_worker(7, 2, 2, 1) == [2, 1, 2, 2]
    for parts in range(1, 5):
        for rows in range(parts, 20):
            sizes = [batch_sizes_for_worker(rows, parts, 1, worker) for worker in range(parts)]
            # In every step all trainers together take one global batch.
            assert [sum(step) for step in zip(*sizes, strict=True)] == [rows] * parts
            assert max(map(max, sizes)) - min(map(min, sizes)) <= 1


def test_several_workers_share_a_dataset_without_overlap() -> None:
    def read(policy: ms.AutoShardPolicy, worker: int) -> list[int]:
        options = ms.Options()
        options.experimental_distribute.auto_shard_policy = policy
        dataset = Dataset.range(12).batch(4).with_options(options)
        found = steps(distribute_dataset(dataset, 2, num_workers=2, worker_index=worker))
        return [row for step in found for part in step for row in part]

    for policy in (ms.AutoShardPolicy.AUTO, ms.AutoShardPolicy.DATA):
        assert [read(policy, worker) for worker in range(2)] == [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7]]
    assert read(ms.AutoShardPolicy.OFF, 0) == read(ms.AutoShardPolicy.OFF, 1) == list(range(12))
    with pytest.raises(ms.errors.InvalidArgumentError, match="file"):
        read(ms.AutoShardPolicy.FILE, 0)


def test_a_function_makes_datasets_by_worker_or_replica() -> None:
    asked: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        asked.append(context)
        size = context.get_per_replica_batch_size(8)
        return Dataset.range(20).shard(context.num_input_pipelines, context.input_pipeline_id).batch(size).prefetch(2)

    one = ms.distribute_datasets_from_function(dataset_fn, 2, num_workers=2, worker_index=1)
    assert asked == [InputContext(2, 1, 4)]
    assert steps(one) == [([1, 3], [5, 7]), ([9, 11], [13, 15]), ([17, 19], [])]
    asked.clear()
    options = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    each = ms.distribute_datasets_from_function(dataset_fn, 2, options)
    assert asked == [InputContext(2, 0, 2), InputContext(2, 1, 2)]
    assert steps(each)[0] == ([0, 2, 4, 6], [1, 3, 5, 7])


def test_values_are_made_for_each_replica() -> None:
    values = ms.distribute_values_from_function(lambda context: (context.replica_id_in_sync_group, 1.0), 3)
    assert [part.values for part in values] == [(0, 1, 2), (1.0, 1.0, 1.0)]
    single = ms.distribute_values_from_function(lambda context: np.float32(1.0), 1)
    assert [ms.run_replicas(lambda x: x, args=(single,)) for _ in range(4)] == [1.0] * 4
    assert ms.local_results(5) == (5,) and ms.run_replicas(lambda x: x + 1, args=(5,)) == 6


def test_a_generator_is_a_source() -> None:
    rng = np.random.default_rng(1)

    def input_gen() -> Any:
        while True:
            yield rng.random(4)

    dataset = Dataset.from_generator(input_gen, output_types=(ms.float32), output_shapes=[4])
    iterator = iter(distribute_dataset(dataset, 1))
    assert [ms.run_replicas(lambda x: x, args=(next(iterator),)).shape for _ in range(4)] == [(4,)] * 4


def test_a_service_is_read_by_all_replicas(cluster: Any) -> None:
    dataset = Dataset.range(9).batch(4).apply(ms.service.distribute("distributed_epoch", cluster(1), "job"))
    # Readers of a named job share its elements, so the dataset is not divided.
    distributed = distribute_dataset(dataset, 2, num_workers=2, worker_index=0)
    rows = [row for step in steps(distributed) for part in step for row in part]
    assert sorted(rows) == list(range(9))


def test_ragged_rows_and_text_are_split_too() -> None:
    text = distribute_dataset(Dataset.from_tensor_slices(["a", "b", "c"]).batch(2).map(lambda x: x), 2)
    assert steps(text) == [(["a"], ["b"]), (["c"], [])]
    words = Dataset.from_tensors(ms.Ragged.from_rows([[1, 2], [3], [4, 5, 6]], np.int64))
    (step,) = distribute_dataset(words, 2)
    assert [part.to_list() for part in step.values] == [[[1, 2], [3]], [[4, 5, 6]]]


def test_what_cannot_be_is_refused() -> None:
    per_replica = InputReplicationMode.PER_REPLICA
    with pytest.raises(ValueError, match="PER_WORKER"):
        InputOptions(experimental_fetch_to_device=True, experimental_replication_mode=per_replica)
    with pytest.raises(ValueError, match="PER_REPLICA"):
        InputOptions(experimental_place_dataset_on_device=True)
    with pytest.raises(ValueError, match="distribute_datasets_from_function"):
        distribute_dataset(Dataset.range(3), 1, InputOptions(experimental_replication_mode=per_replica))
    with pytest.raises(ValueError, match="divisible"):
        InputContext(1, 0, 3).get_per_replica_batch_size(16)
    with pytest.raises(ValueError, match="workers are 0 to 1"):
        distribute_dataset(Dataset.range(3), 1, num_workers=2, worker_index=2)
    with pytest.raises(ValueError, match="batch the dataset"):
        list(distribute_dataset(Dataset.range(3), 2))
    with pytest.raises(TypeError, match="not a dataset"):
        ms.distribute_datasets_from_function(lambda context: 1, 1)  # type: ignore[arg-type,return-value]
