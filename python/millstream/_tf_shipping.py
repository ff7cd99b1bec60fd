"""The native forms of a ``tf.data`` dataset: for each sharding policy, a graph of Millstream in which workers run the dataset with TensorFlow.

Owns the meaning of each policy for a dataset of TensorFlow. This module does not know services.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from . import _tf_worker
from ._code import packed
from ._millstream import Graph
from ._spec import TensorSpec, plain
from ._tf_division import POLICIES, check_divisible
from ._tf_graph import Carried, serialised
from .errors import InvalidArgumentError, UnimplementedError
from .service import ShardingPolicy

__all__ = ["NUM_SHARDS", "Shipped", "cardinality", "native_policy", "traced"]

#: The default number of shares into which the sources of a dataset are divided among workers.
NUM_SHARDS = 16

_INFINITE, _UNKNOWN = -1, -2

#: The number of elements of the source that tells each worker of a fixed list its number. No worker reads more than two elements.
_NUMBERED = 1 << 40


@dataclasses.dataclass(frozen=True)
class Shipped:
    """A dataset that is ready to travel.

    Attributes:
        carried: The graph.
        spec: TensorFlow's spec of an element.
        count: The number of elements, -1 for an infinite dataset, or another negative number for an unknown number.
        num_shards: The number of shares of each source under DYNAMIC.
    """

    carried: Carried
    spec: Any
    count: int
    num_shards: int = NUM_SHARDS

    @staticmethod
    def of(graph: bytes, count: int, spec: Any, num_shards: int) -> Shipped:
        """Makes the dataset of a serialised graph."""
        if num_shards < 1:
            raise InvalidArgumentError(f"num_shards={num_shards}: must be at least 1")
        return Shipped(serialised(graph), spec, count, num_shards)

    @property
    def _known_count(self) -> int:
        return self.count if self.count in (0, _INFINITE) else _UNKNOWN

    def form(self, policy: ShardingPolicy, warns: bool = True) -> Graph:
        """Returns the graph of Millstream for a policy. Issues a warning if the graph is large, and ``warns`` is true.

        Raises:
            UnimplementedError: The dataset reads a service itself, and the policy divides the dataset.
            InvalidArgumentError: A component of an element is not a tensor, a source cannot be divided, or a Python function cannot be pickled.
        """
        if policy is ShardingPolicy.OFF:
            return Graph.iterable(self._described(), self._code(_tf_worker.iterate, warns), self._known_count)
        if self.carried.reads_service:
            raise UnimplementedError(
                f"the sharding policy {policy.name} cannot divide a dataset that is already distributed, because each worker reads the service in "
                "an order of its own: distribute the dataset again with ShardingPolicy.OFF, or once only"
            )
        if policy is not ShardingPolicy.DYNAMIC:
            numbers = Graph.source("range", start=0, stop=_NUMBERED, step=1).then("shard", count=None, index=0, require_non_empty=False)
            numbers = numbers.then("batch", size=2, drop_remainder=True).then("take", count=1)
            code = self._code(_tf_worker.iterate_placed, warns, POLICIES[policy.name.lower()])
            return numbers.flat_map_python(self._described(), code)
        check_divisible(self.carried.graph)
        if self.count == _INFINITE:
            tasks = Graph.source("counter", start=0, step=1).split_size(1)
            return tasks.flat_map_python(self._described(), self._code(_tf_worker.iterate_from, warns))
        shares = Graph.source("range", start=0, stop=self.num_shards, step=1).split_size(1)
        return shares.flat_map_python(self._described(), self._code(_tf_worker.iterate_share, warns, self.num_shards))

    def _code(self, function: Callable[..., Any], warns: bool, *arguments: Any) -> bytes:
        return packed(function, self.carried, self.spec, *arguments, warns=warns, name="the graph of the tf.data dataset")

    def _described(self) -> tuple[Any, ...]:
        import tensorflow as tf

        return ("tuple", [_described(component) for component in tf.nest.flatten(self.spec, expand_composites=True)])


def traced(dataset: Any) -> tuple[Any, Any]:
    """Returns the graph and the number of elements of a dataset: bytes and an int, or tensors if the dataset is made in a function of TensorFlow.

    Raises:
        InvalidArgumentError: The dataset is not a ``tf.data.Dataset``.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise InvalidArgumentError(
            f"expected a tf.data.Dataset, found {type(dataset).__module__}.{type(dataset).__qualname__}: use ms.service for datasets of Millstream"
        )
    variant = tf.data.experimental.to_variant(dataset)
    if tf.is_symbolic_tensor(variant):
        return _graph(variant), tf.raw_ops.DatasetCardinality(input_dataset=variant)
    # A function that is being traced would make a tensor without a value.
    with tf.init_scope():
        return _graph(variant).numpy(), int(tf.raw_ops.DatasetCardinality(input_dataset=variant))


def _graph(variant: Any) -> Any:
    import tensorflow as tf

    return tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=0, strip_device_assignment=True)


def native_policy(policy: ShardingPolicy) -> ShardingPolicy:
    """Returns the policy under which workers read the form of a policy. TensorFlow itself divides a dataset among a fixed list of workers."""
    return policy if policy in (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC) else ShardingPolicy.HINT


def cardinality(count: int, policy: ShardingPolicy, num_consumers: int | None) -> int:
    """Returns the number of elements that a reader knows of a distributed dataset: 0, -1 for infinite or -2 for unknown, as in TensorFlow."""
    if count == 0:
        return 0
    whole = (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC, ShardingPolicy.DATA)
    return _INFINITE if count == _INFINITE and (policy in whole or num_consumers is not None) else _UNKNOWN


def _described(component: Any) -> tuple[Any, ...]:
    """Returns the spec of a component as plain tuples."""
    if not hasattr(component, "shape") or not hasattr(component, "dtype") or component.dtype.name in ("resource", "variant"):
        raise InvalidArgumentError(f"expected elements that are tensors, found {component!r}: a worker can send only tensors")
    text = component.dtype.name == "string"
    dims = None if component.shape.rank is None else component.shape.as_list()
    return plain(TensorSpec(dims, "bytes" if text else component.dtype.name))
