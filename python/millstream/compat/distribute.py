"""Distributed input, named as in ``tf.distribute``: replicas in one process, and their datasets.

Owns the strategy's names. Refuses to know how input is divided: ``_distributed_input`` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _distributed_input as _input
from .._dataset import Dataset
from . import cluster_resolver

__all__ = [
    "DistributedDataset", "DistributedIterator", "DistributedValues", "InputContext", "InputOptions", "InputReplicationMode",
    "MirroredStrategy", "ReduceOp", "cluster_resolver", "experimental",
]  # fmt: skip

DistributedDataset = _input.DistributedDataset
DistributedIterator = _input.DistributedIterator
DistributedValues = _input.PerReplica
InputContext = _input.InputContext
InputOptions = _input.InputOptions
InputReplicationMode = _input.InputReplicationMode
ReduceOp = SimpleNamespace(MEAN="MEAN", SUM="SUM")
experimental = SimpleNamespace(ValueContext=_input.ValueContext)


class MirroredStrategy:
    """Replicas of one program, in this process: their input, and functions called for one after the other.

    Args:
        devices: The names of the devices, one for each replica.
    """

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        self.extended = SimpleNamespace(worker_devices=tuple(devices or ("CPU:0",)))

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return len(self.extended.worker_devices)

    def experimental_distribute_dataset(
        self, dataset: Dataset, options: _input.InputOptions | None = None
    ) -> _input.DistributedDataset:
        """Divides a dataset among the replicas, as ``millstream.distribute_dataset`` does.

        Args:
            dataset: The dataset.
            options: Options of the input.

        Returns:
            The distributed dataset.
        """
        return _input.distribute_dataset(dataset, self.num_replicas_in_sync, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[_input.InputContext], Dataset], options: _input.InputOptions | None = None
    ) -> _input.DistributedDataset:
        """Distributes the datasets that a function makes, as ``millstream.distribute_datasets_from_function`` does.

        Args:
            dataset_fn: A function of an ``InputContext`` that returns a dataset.
            options: Options of the input.

        Returns:
            The distributed dataset.
        """
        return _input.distribute_datasets_from_function(dataset_fn, self.num_replicas_in_sync, options)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_values_from_function(self, value_fn: Callable[[_input.ValueContext], Any]) -> Any:
        """Makes a value for each replica, as ``millstream.distribute_values_from_function`` does.

        Args:
            value_fn: A function of a ``ValueContext``.

        Returns:
            The values.
        """
        return _input.distribute_values_from_function(value_fn, self.num_replicas_in_sync)

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a function for each replica, as ``millstream.run_replicas`` does.

        Args:
            fn: The function.
            args: The arguments, a ``PerReplica`` or a common value each.
            kwargs: The arguments by name.

        Returns:
            The results.
        """
        return _input.run_replicas(fn, args, kwargs)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Returns the values of the replicas, as ``millstream.local_results`` does.

        Args:
            value: The values.
        """
        return _input.local_results(value)

    def reduce(self, reduce_op: str, value: Any, axis: int | None = None) -> Any:
        """Adds or averages over replicas, and over an axis of each.

        Args:
            reduce_op: ``SUM`` or ``MEAN``.
            value: The values.
            axis: The axis.

        Returns:
            The sum or the mean.
        """
        parts = [np.asarray(part) for part in _input.local_results(value)]
        if axis is None:
            total = np.sum(parts, axis=0)
            return total if reduce_op == "SUM" else total / self.num_replicas_in_sync
        total = np.sum([part.sum(axis) for part in parts], axis=0)
        return total if reduce_op == "SUM" else total / sum(part.shape[axis] for part in parts)
