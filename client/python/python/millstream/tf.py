"""``tf.data`` datasets on the workers of a service. The graph is shipped, and run by TensorFlow on the workers.

Known fault: under policies that divide a dataset, workers that are processes of their own hang in TensorFlow, since shares are read in the worker itself;
those of ``ms.local(inline=True)`` do not. ``ShardingPolicy.OFF`` reads in a process that the worker supervises, and works on all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._millstream import Graph
from .code import packed
from .dataset import Dataset
from .errors import InvalidArgumentError
from .service import CrossTrainerCache, ShardingPolicy, _policy
from .service import distribute as _distribute

__all__ = ["distribute"]

#: Into how many shares a dataset is divided that is dealt out to workers.
NUM_SHARDS = 16

#: Operations that call functions of the program that made the graph.
_PYTHON = {"EagerPyFunc", "GeneratorDataset", "PyFunc", "PyFuncStateless"}


def distribute(
    processing_mode: ShardingPolicy | str,
    service: Any,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    num_shards: int = NUM_SHARDS,
) -> Callable[[Any], Any]:
    """``tf.data.experimental.service.distribute``, with the same arguments: a transformation for ``tf.data.Dataset.apply``, whose
    result is a ``tf.data.Dataset`` of the same ``element_spec``. What stands before it runs on the workers of a service.

    Under policies that divide a dataset its sources are divided into ``num_shards`` shares, each of which one worker reads with
    everything behind them; so batches and counts, as of ``take``, are of a share, and what is without end cannot be divided.

    Raises:
        InvalidArgumentError: The dataset calls Python, or has elements that are no tensors, or is to be divided and has no end.
    """
    policy = _policy(processing_mode)
    if num_shards < 1:
        raise InvalidArgumentError(f"num_shards={num_shards}: there is at least one")
    distributed = _distribute(
        policy,
        service,
        job_name,
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        data_transfer_protocol,
        compression,
        cross_trainer_cache,
        target_workers,
    )

    def apply(dataset: Any) -> Any:
        import tensorflow as tf

        is_endless = bool(dataset.cardinality() == tf.data.INFINITE_CARDINALITY)
        graph, spec = _serialised(dataset), dataset.element_spec
        components = tf.nest.flatten(spec, expand_composites=True)
        described = ("tuple", [_described(component) for component in components])
        if policy is ShardingPolicy.OFF:
            code = packed(_iterate, graph, spec)
            shipped = Graph.iterable(described, code, -1 if is_endless else -2)
        elif is_endless:
            raise InvalidArgumentError(
                "a dataset without end cannot be divided among workers: repeat it behind distribute, or use ShardingPolicy.OFF"
            )
        else:
            code = packed(_iterate_share, graph, spec, num_shards)
            shipped = Graph.range(0, num_shards, 1).split_size(1).flat_map_python(described, code)
        taken = _taken(Dataset(shipped).apply(distributed), spec, components)
        if is_endless:
            taken = taken.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
        return taken

    return apply


def _serialised(dataset: Any) -> bytes:
    import tensorflow as tf

    graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=0, strip_device_assignment=True
    ).numpy()
    definition = tf.compat.v1.GraphDef.FromString(graph)
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    calls = sorted({node.op for node in nodes} & _PYTHON)
    if calls:
        raise InvalidArgumentError(
            f"the dataset calls Python ({', '.join(calls)}), which its graph does not carry: give ms.distribute a function that "
            "makes the dataset, and Python runs on the workers too"
        )
    return bytes(graph)


def _described(component: Any) -> tuple[Any, ...]:
    """A component as plain tuples."""
    from .spec import TensorSpec, plain

    if not hasattr(component, "shape") or not hasattr(component, "dtype") or component.dtype.name in ("resource", "variant"):
        raise InvalidArgumentError(f"elements of {component!r} are no tensors: they cannot leave a worker")
    text = component.dtype.name == "string"
    dims = None if component.shape.rank is None else component.shape.as_list()
    return plain(TensorSpec(dims, "bytes" if text else component.dtype.name))


def _iterate(graph: bytes, spec: Any) -> Iterator[tuple[Any, ...]]:
    """On a worker: the components of all elements."""
    import tensorflow as tf

    # Workers share a machine with trainers, whose devices they leave alone.
    with tf.device("CPU:0"):
        variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
        elements = iter(tf.data.experimental.from_variant(variant, spec))
    for element in elements:
        yield tuple(tensor.numpy() for tensor in tf.nest.flatten(element, expand_composites=True))


def _iterate_share(graph: bytes, spec: Any, num_shards: int, index: Any) -> Iterator[tuple[Any, ...]]:
    """On a worker: the same of one share of the sources."""
    return _iterate(_shared(graph, num_shards, int(index)), spec)


def _shared(graph: bytes, num_shards: int, index: int) -> bytes:
    """The graph with one share of each of its sources: of the datasets that are made of no other one."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(graph)
    datasets = {node.name for node in definition.node if "Dataset" in node.op}
    sources = [
        node
        for node in definition.node
        if node.name in datasets and not any(taken.split(":")[0].lstrip("^") in datasets for taken in node.input)
    ]
    for source in sources:
        name = f"{source.name}/share"
        for node in definition.node:
            for place, taken in enumerate(node.input):
                if taken in (source.name, f"{source.name}:0"):
                    node.input[place] = name
        constants = {}
        for what, value in (("count", num_shards), ("index", index)):
            constant = definition.node.add(name=f"{name}/{what}", op="Const")
            constant.attr["dtype"].type = tf.int64.as_datatype_enum
            constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
            constants[what] = constant.name
        share = definition.node.add(name=name, op="ShardDataset", input=[source.name, *constants.values()])
        share.attr["require_non_empty"].b = False
        types, shapes = _types(source)
        share.attr["output_types"].CopyFrom(types)
        share.attr["output_shapes"].CopyFrom(shapes)
    return bytes(definition.SerializeToString())


def _types(source: Any) -> tuple[Any, Any]:
    """What a source yields.

    Raises:
        InvalidArgumentError: It is of a kind that does not say it.
    """
    attributes = source.attr
    for types in ("output_types", "Toutput_types"):
        if types in attributes and "output_shapes" in attributes:
            return attributes[types], attributes["output_shapes"]
    raise InvalidArgumentError(f"a {source.op} cannot be divided among workers: use ShardingPolicy.OFF")


def _taken(dataset: Dataset, spec: Any, components: list[Any]) -> Any:
    """The elements of a service as a dataset of TensorFlow."""
    import tensorflow as tf

    flat = tf.data.Dataset.from_generator(lambda: iter(dataset), output_signature=tuple(components))
    return flat.map(lambda *parts: tf.nest.pack_sequence_as(spec, list(parts), expand_composites=True))
