"""Distributes the input of a trainer among its replicas, step by step, in the same way as ``tf.distribute``.

In each step every replica receives its part of a global batch. Values stay in the received memory. The caller copies values to the replicas'
devices.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._composites import Ragged
from ._dataset import Dataset
from ._optional import Optional
from ._options import AutoShardPolicy
from ._spec import TensorSpec
from .errors import OutOfRangeError

__all__ = [
    "DistributedDataset",
    "DistributedIterator",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "PerReplica",
    "PerReplicaSpec",
    "ValueContext",
    "batch_sizes_for_worker",
    "distribute_dataset",
    "distribute_datasets_from_function",
    "distribute_values_from_function",
    "local_results",
    "run_replicas",
]

_END = object()

#: The extension's name for each policy by which a dataset is divided among trainers.
_DIVISIONS = {
    AutoShardPolicy.AUTO: "files_or_elements",
    AutoShardPolicy.FILE: "files",
    AutoShardPolicy.DATA: "elements",
    AutoShardPolicy.HINT: "hint",
}


class InputReplicationMode(enum.Enum):
    """Whether ``distribute_datasets_from_function`` calls its function once for each trainer, or once for each replica."""

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@dataclasses.dataclass(frozen=True)
class InputOptions:
    """The options of the distribution. Names and defaults are those of ``tf.distribute.InputOptions``.

    ``experimental_fetch_to_device`` (``experimental_prefetch_to_device`` in older versions) and ``experimental_place_dataset_on_device`` are
    accepted as in TensorFlow, and have no effect: values stay on the host. ``experimental_per_replica_buffer_size`` is the number of steps that
    are prefetched.
    """

    experimental_fetch_to_device: bool | None = None
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1
    experimental_prefetch_to_device: bool | None = None

    def __post_init__(self) -> None:
        per_replica = self.experimental_replication_mode is InputReplicationMode.PER_REPLICA
        if per_replica and (self.experimental_fetch_to_device or self.experimental_prefetch_to_device):
            raise ValueError("experimental_fetch_to_device can only be used with InputReplicationMode.PER_WORKER")
        if self.experimental_place_dataset_on_device and not per_replica:
            raise ValueError("experimental_place_dataset_on_device can only be used with InputReplicationMode.PER_REPLICA")
        if self.experimental_per_replica_buffer_size < 1:
            raise ValueError("experimental_per_replica_buffer_size must be at least 1")


@dataclasses.dataclass(frozen=True)
class InputContext:
    """The number of input pipelines, the number of this pipeline, and the number of replicas of all pipelines."""

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    @classmethod
    def from_resolver(cls, resolver: Any, replicas: int | None = None) -> InputContext:
        """Finds the place of this process in a cluster. Chiefs and workers share the data; an evaluator reads all of it.

        Args:
            resolver: A resolver of ``ms.resolvers``, or of ``tf.distribute.cluster_resolver``.
            replicas: The number of replicas of each process; by default the number of its accelerators, at least one.

        Returns:
            The context.

        Raises:
            ValueError: The resolver does not know the task of this process, or the task reads no data.

        Example:
            >>> spec = ms.resolvers.ClusterSpec({"chief": ["a:1"], "worker": ["b:1", "c:1"]})
            >>> resolver = ms.resolvers.SimpleClusterResolver(spec, task_type="worker", task_id=0)
            >>> ms.InputContext.from_resolver(resolver, replicas=2)
            InputContext(num_input_pipelines=3, input_pipeline_id=1, num_replicas_in_sync=6)
        """
        from ._resolvers.place import place_of

        return cls(*place_of(resolver, replicas))

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Divides a global batch size by the number of replicas.

        Args:
            global_batch_size: The number of rows of all replicas in a step.

        Returns:
            The number of rows of one replica.

        Raises:
            ValueError: The global batch size is not divisible by the number of replicas.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"the global_batch_size {global_batch_size} is not divisible by num_replicas_in_sync {self.num_replicas_in_sync}"
            )
        return global_batch_size // self.num_replicas_in_sync


@dataclasses.dataclass(frozen=True)
class ValueContext:
    """The number of the replica for which a function returns a value, and the number of all replicas."""

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1


class PerReplica:
    """One value for each replica of this trainer, in the order of the replicas, like ``tf.distribute.DistributedValues``."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)

    def __repr__(self) -> str:
        listed = ",\n".join(f"  {index}: {value}" for index, value in enumerate(self.values))
        return f"PerReplica:{{\n{listed}\n}}"


class PerReplicaSpec:
    """The specs of the values of a ``PerReplica``."""

    __slots__ = ("_value_specs",)

    def __init__(self, *value_specs: Any) -> None:
        self._value_specs = value_specs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerReplicaSpec) and self._value_specs == other._value_specs

    def __hash__(self) -> int:
        return hash(self._value_specs)

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self._value_specs))})"


class DistributedDataset:
    """A dataset that all replicas of this trainer read step by step.

    The dataset can be iterated over several times, and has an ``element_spec``. A step has the structure of the dataset's elements, with a
    ``PerReplica`` in each leaf. With only one replica a step is the element itself.
    """

    def __init__(self, element_spec: Any, steps: Callable[[], Iterator[Any]]) -> None:
        self._element_spec = element_spec
        self._steps = steps

    @property
    def element_spec(self) -> Any:
        """The spec of a step."""
        return self._element_spec

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self._element_spec, self._steps())


class DistributedIterator:
    """One pass of a ``DistributedDataset``."""

    def __init__(self, element_spec: Any, steps: Iterator[Any]) -> None:
        self._element_spec = element_spec
        self._steps = steps

    @property
    def element_spec(self) -> Any:
        """The spec of a step."""
        return self._element_spec

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        return next(self._steps)

    def get_next(self) -> Any:
        """Returns the next step of the iterator.

        Returns:
            The values of the step, with a ``PerReplica`` in each leaf.

        Raises:
            OutOfRangeError: The dataset has ended.
        """
        step = next(self._steps, _END)
        if step is _END:
            raise OutOfRangeError("the iterator is at its end: no step is left")
        return step

    def get_next_as_optional(self) -> Optional[Any]:
        """Returns the next step of the iterator, or an empty ``Optional`` at the end.

        Returns:
            An ``Optional`` of the step.
        """
        step = next(self._steps, _END)
        return Optional.empty() if step is _END else Optional.from_value(step)


def batch_sizes_for_worker(
    global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int
) -> list[int]:
    """Returns the sizes of the parts into which a trainer's batches are cut, in turn.

    In each step the replicas of all trainers together take one global batch. The parts of the replicas differ by at most one row.
    """
    parts = num_workers * num_replicas_per_worker
    size, larger = divmod(global_batch_size, parts)
    sizes = [size + 1] * larger + [size] * (parts - larger)
    offset = worker_index * num_replicas_per_worker
    return sizes[offset:] + sizes[:offset]


def distribute_dataset(
    dataset: Dataset,
    replicas: int | Sequence[Any] = 1,
    options: InputOptions | None = None,
    *,
    num_workers: int = 1,
    worker_index: int = 0,
) -> DistributedDataset:
    """Splits global batches among the replicas of a trainer, like TensorFlow's ``experimental_distribute_dataset``.

    A batch of the dataset contains the rows of all replicas in a step. If the last operation of the dataset that changes rows is ``batch``, the
    parts are those of TensorFlow: the sizes differ by at most one row. At the end the first replicas then receive full parts, and the last
    replicas receive empty arrays. Otherwise every batch is cut into equal parts, and the last part may be smaller. With ``drop_remainder`` an
    incomplete step is dropped.

    ``Options.experimental_distribute.auto_shard_policy`` decides how several trainers divide the dataset: by files, or by elements. With a
    division by elements each trainer computes the whole dataset and keeps only its own elements. A dataset that reads a named job is not
    divided, because trainers share the job. A trainer does not notice the end of another trainer's data.

    Args:
        dataset: A dataset of global batches.
        replicas: The number of this trainer's replicas, or a sequence of the replicas.
        options: The options of the distribution.
        num_workers: The number of trainers. All trainers must have the same number of replicas.
        worker_index: The number of this trainer, from 0.

    Returns:
        The distributed dataset.

    Raises:
        ValueError: The options apply only to ``distribute_datasets_from_function``, or ``worker_index`` is out of range.
        InvalidArgumentError: The dataset cannot be divided as requested.
    """
    options = options or InputOptions()
    if options.experimental_replication_mode is InputReplicationMode.PER_REPLICA:
        raise ValueError("InputReplicationMode.PER_REPLICA is only supported by distribute_datasets_from_function")
    count = _counted(replicas, num_workers, worker_index)
    rows = dataset._graph.batch_size
    shared = _share(dataset, num_workers, worker_index)
    if count * num_workers == 1:
        return _grouped([_ahead(shared, 1, options)], 1, dataset.element_spec)
    sizes = [0] if rows is None else batch_sizes_for_worker(rows, num_workers, count, worker_index)
    if min(sizes) == 0:
        return _cut(shared, count, num_workers, rows)
    cut = _ahead(shared.rebatch(sizes), count, options)
    whole = num_workers == 1 and _is_static(dataset.element_spec)
    return _grouped([cut], count, _of_rows(cut.element_spec, sizes[0] if whole and len(set(sizes)) == 1 else None), whole)


def distribute_datasets_from_function(
    dataset_fn: Callable[[InputContext], Dataset],
    replicas: int | Sequence[Any] = 1,
    options: InputOptions | None = None,
    *,
    num_workers: int = 1,
    worker_index: int = 0,
) -> DistributedDataset:
    """Calls a function that returns the dataset of this trainer, or of each replica. The batches have the rows of one replica.

    Millstream does not divide the dataset: the function divides the dataset by its ``InputContext``.

    Args:
        dataset_fn: A function that takes an ``InputContext`` and returns a dataset.
        replicas: The number of this trainer's replicas, or a sequence of the replicas.
        options: The options of the distribution.
        num_workers: The number of trainers.
        worker_index: The number of this trainer, from 0.

    Returns:
        The distributed dataset.
    """
    options = options or InputOptions()
    count = _counted(replicas, num_workers, worker_index)
    apart = count if options.experimental_replication_mode is InputReplicationMode.PER_REPLICA else 1
    datasets = []
    for index in range(apart):
        pipeline = worker_index * apart + index
        dataset = dataset_fn(InputContext(num_workers * apart, pipeline, num_workers * count))
        if not isinstance(dataset, Dataset):
            raise TypeError(f"the function returned {dataset!r}, which is not a dataset")
        datasets.append(_ahead(dataset, count // apart, options))
    spec = datasets[0].element_spec
    return _grouped(datasets, count, spec, num_workers == 1 and _is_static(spec))


def distribute_values_from_function(
    value_fn: Callable[[ValueContext], Any],
    replicas: int | Sequence[Any] = 1,
    *,
    num_workers: int = 1,
    worker_index: int = 0,
) -> Any:
    """Calls a function for the value of each replica of this trainer.

    Args:
        value_fn: A function that takes a ``ValueContext`` and returns a value.
        replicas: The number of this trainer's replicas, or a sequence of the replicas.
        num_workers: The number of trainers.
        worker_index: The number of this trainer, from 0.

    Returns:
        The values in the structure of the function's results, with a ``PerReplica`` in each leaf.
    """
    count = _counted(replicas, num_workers, worker_index)
    contexts = [ValueContext(worker_index * count + index, num_workers * count) for index in range(count)]
    return _regrouped([value_fn(context) for context in contexts])


def run_replicas(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Calls a function with the values of each replica, one replica after the other.

    Args:
        function: The function.
        args: The arguments of the function. Each argument is a ``PerReplica``, or a common value for all replicas.
        kwargs: The keyword arguments of the function.

    Returns:
        The results, with a ``PerReplica`` in each leaf.
    """
    named = kwargs or {}
    leaves = [leaf for value in (*args, *named.values()) for leaf in _leaves(value)]
    counts = {len(leaf.values) for leaf in leaves if isinstance(leaf, PerReplica)}
    if not counts:
        return function(*args, **named)
    if len(counts) > 1:
        raise ValueError(f"expected arguments for the same number of replicas, found {sorted(counts)} replicas")

    def of(index: int) -> Callable[[Any], Any]:
        return lambda leaf: leaf.values[index] if isinstance(leaf, PerReplica) else leaf

    results = [
        function(*_mapped(of(index), tuple(args)), **_mapped(of(index), named)) for index in range(counts.pop())
    ]
    return results[0] if len(results) == 1 else _regrouped(results)


def local_results(value: Any) -> tuple[Any, ...]:
    """Returns the values of this trainer's replicas as a tuple, like TensorFlow's ``experimental_local_results``.

    Args:
        value: A ``PerReplica``, or a single value.
    """
    counts = {len(leaf.values) for leaf in _leaves(value) if isinstance(leaf, PerReplica)}
    if not counts:
        return (value,)

    def of(index: int) -> Callable[[Any], Any]:
        return lambda leaf: leaf.values[index] if isinstance(leaf, PerReplica) else leaf

    return tuple(_mapped(of(index), value) for index in range(counts.pop()))


def _counted(replicas: int | Sequence[Any], num_workers: int, worker_index: int) -> int:
    count = replicas if isinstance(replicas, int) else len(replicas)
    if count < 1:
        raise ValueError(f"{count} replicas: expected at least one replica")
    if not 0 <= worker_index < num_workers:
        raise ValueError(f"worker {worker_index} of {num_workers}: workers are 0 to {num_workers - 1}")
    return count


def _share(dataset: Dataset, num_workers: int, worker_index: int) -> Dataset:
    policy = dataset.options().experimental_distribute.auto_shard_policy
    # Readers of a named job already share its elements.
    is_shared = dataset._reading is not None and dataset._reading.request["job_name"] is not None
    if num_workers == 1 or is_shared or policy is AutoShardPolicy.OFF:
        return dataset
    return dataset._then(dataset._graph.sharded(_DIVISIONS[policy], num_workers, worker_index))


def _ahead(dataset: Dataset, elements: int, options: InputOptions) -> Dataset:
    # The reader of a service already prefetches.
    if dataset._reading is not None:
        return dataset
    return dataset.prefetch(elements * options.experimental_per_replica_buffer_size)


def _grouped(datasets: list[Dataset], count: int, spec: Any, drops_parts: bool = False) -> DistributedDataset:
    """Groups ``count`` elements into a step. The elements come from one dataset, or from one dataset for each replica."""

    def steps() -> Iterator[Any]:
        readers = [iter(dataset) for dataset in datasets]
        while True:
            elements = [next(readers[index % len(readers)], _END) for index in range(count)]
            there = [element for element in elements if element is not _END]
            if not there or (drops_parts and len(there) < count):
                return
            yield _step([_mapped(_empty, there[0]) if element is _END else element for element in elements])

    return DistributedDataset(_step_spec(spec, count), steps)


def _cut(dataset: Dataset, count: int, num_workers: int, rows: int | None) -> DistributedDataset:
    """Cuts each element of a dataset into parts, which are views of the element."""

    def steps() -> Iterator[Any]:
        parts = count * num_workers
        for element in dataset:
            there = max((_rows(leaf) for leaf in _leaves(element)), default=0)
            size = -(-(rows or there) // parts)
            cuts = [_mapped(_part(index * size, size), element) for index in range(parts)]
            for first in range(0, parts, count):
                yield _step(cuts[first : first + count])

    return DistributedDataset(_step_spec(_of_rows(dataset.element_spec, None), count), steps)


def _rows(leaf: Any) -> int:
    if not getattr(leaf, "shape", None) and not isinstance(leaf, Ragged):
        raise ValueError("a scalar element cannot be split among replicas: batch the dataset by the global batch size")
    return len(leaf)


def _part(start: int, size: int) -> Callable[[Any], Any]:
    def part(leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            first, last = min(start, len(leaf)), min(start + size, len(leaf))
            return _ragged_rows(leaf, first, last)
        return leaf[start : start + size]

    return part


def _ragged_rows(ragged: Ragged, first: int, last: int) -> Ragged:
    splits = []
    for inner in ragged.nested_row_splits:
        cut = inner[first : last + 1]
        splits.append(cut - cut[0])
        first, last = int(cut[0]), int(cut[-1])
    return Ragged(ragged.values[first:last], *splits)


def _empty(leaf: Any) -> Any:
    return _part(0, 0)(leaf) if getattr(leaf, "shape", None) or isinstance(leaf, Ragged) else leaf


def _step(elements: list[Any]) -> Any:
    return elements[0] if len(elements) == 1 else _regrouped(elements)


def _step_spec(spec: Any, count: int) -> Any:
    return spec if count == 1 else _mapped(lambda leaf: PerReplicaSpec(*[leaf] * count), spec)


def _of_rows(spec: Any, rows: int | None) -> Any:
    def changed(leaf: Any) -> Any:
        if not isinstance(leaf, TensorSpec) or not leaf.shape:
            return leaf
        return TensorSpec((rows, *leaf.shape[1:]), leaf.dtype, leaf.name)

    return _mapped(changed, spec)


def _is_static(spec: Any) -> bool:
    return all(
        isinstance(leaf, TensorSpec) and leaf.shape is not None and None not in leaf.shape for leaf in _leaves(spec)
    )


def _regrouped(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {name: _regrouped([value[name] for value in values]) for name in first}
    if type(first) in (tuple, list):
        return type(first)(_regrouped(list(items)) for items in zip(*values, strict=True))
    return PerReplica(values)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _mapped(function, item) for name, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_mapped(function, item) for item in value)
    return function(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if type(value) in (tuple, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
