"""Runs ``tf.data`` datasets on the workers of a service. The trainer sends the graph, and TensorFlow runs the graph on the workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from ._code import packed
from ._dataset import Dataset
from ._millstream import Graph
from ._tf_errors import raising_errors_of_tensorflow
from ._tf_failure import dataset_of
from .errors import InvalidArgumentError
from .service import CrossTrainerCache, ShardingPolicy, _policy
from .service import distribute as _distribute

__all__ = ["distribute"]

#: The default number of shares into which the sources of a dataset are divided among workers.
NUM_SHARDS = 16

#: The TensorFlow operations that call Python functions of the program that created the graph.
_PYTHON = {"EagerPyFunc", "GeneratorDataset", "PyFunc", "PyFuncStateless"}


@raising_errors_of_tensorflow
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
    on_lost: str = "warn",
) -> Callable[[Any], Any]:
    """Runs all operations before this transformation on the workers of a service. Pass the result to ``tf.data.Dataset.apply``.

    The arguments are those of ``tf.data.experimental.service.distribute``. The result is a ``tf.data.Dataset`` of the same ``element_spec``.

    Policies that divide a dataset divide its sources into ``num_shards`` shares. One worker reads each share and runs the whole pipeline on the
    share. Batches and counts, such as the count of ``take``, therefore apply to a share. An infinite dataset cannot be divided.

    As with TensorFlow's service, the cardinality of the result is unknown unless it is 0 or infinite. Keras counts the steps in the first epoch,
    and then warns that the input ran out of data. To avoid the warning, repeat the result and pass ``steps_per_epoch`` to ``fit``.
    TensorFlow's strategies do not divide a named job again.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``.
        service: The address of the service, as for ``ms.service.distribute``.
        job_name: A name by which several readers share a job.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read.
        max_outstanding_requests: The maximum number of elements of all workers that are in flight or wait in the reader.
        data_transfer_protocol: The transport, as for ``ms.service.distribute``.
        compression: The compression over the network: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        cross_trainer_cache: The id of this trainer in a cross-trainer cache, by which trainers share computed elements.
        target_workers: The workers to read from: ``"AUTO"``, ``"ANY"`` or ``"LOCAL"`` (this process).
        num_shards: The number of shares of each source.
        on_lost: ``"warn"``, ``"raise"`` or ``"ignore"``, as for ``ms.service.distribute``.

    Returns:
        The transformation.

    Raises:
        InvalidArgumentError: The dataset calls Python functions, has elements that are not tensors, or is infinite although the policy
            divides it. As all errors here, the error is also the one of this name in ``tf.errors``.
    """
    policy = _policy(processing_mode)
    if num_shards < 1:
        raise InvalidArgumentError(f"num_shards={num_shards}: must be at least 1")
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
        on_lost,
    )

    @raising_errors_of_tensorflow
    def apply(dataset: Any) -> Any:
        import tensorflow as tf

        count = int(dataset.cardinality())
        is_endless = count == tf.data.INFINITE_CARDINALITY
        graph, spec = _serialised(dataset), dataset.element_spec
        components = tf.nest.flatten(spec, expand_composites=True)
        described = ("tuple", [_described(component) for component in components])
        if policy is ShardingPolicy.OFF:
            code = packed(_iterate, graph, spec)
            shipped = Graph.iterable(described, code, count if count <= 0 else tf.data.UNKNOWN_CARDINALITY)
        elif is_endless:
            raise InvalidArgumentError(
                "an infinite dataset cannot be divided among workers: repeat it after distribute, or use ShardingPolicy.OFF"
            )
        else:
            code = packed(_iterate_share, graph, spec, num_shards)
            shipped = Graph.source("range", start=0, stop=num_shards, step=1).split_size(1).flat_map_python(described, code)
        native = Dataset(shipped).apply(distributed)
        taken = _taken(native, spec, components)
        known = 0 if count == 0 and policy is not ShardingPolicy.HINT else native.cardinality()
        if known != tf.data.UNKNOWN_CARDINALITY:
            taken = taken.apply(tf.data.experimental.assert_cardinality(known))
        if job_name is not None:
            options = tf.data.Options()
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
            taken = taken.with_options(options)
        return taken

    return apply


def _serialised(dataset: Any) -> bytes:
    import tensorflow as tf

    graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=0, strip_device_assignment=True
    ).numpy()
    definition = tf.compat.v1.GraphDef.FromString(graph)
    calls = sorted({node.op for node in _nodes(definition)} & _PYTHON)
    if calls:
        raise InvalidArgumentError(
            f"the dataset calls Python functions ({', '.join(calls)}), which its graph does not contain: pass ms.distribute a function that "
            "returns the dataset, so that Python runs on the workers"
        )
    return _canonical(definition)


def _canonical(definition: Any) -> bytes:
    """Removes differences between graphs of equal datasets: numbered names of functions, and names of seed generators.

    A service then recognises equal datasets of different programs as the same dataset.
    """
    for node in _nodes(definition):
        # TensorFlow uses the metadata only for profiles.
        if "metadata" in node.attr and "Dataset" in node.op:
            node.attr["metadata"].s = b""
    _rename_functions(definition)
    constants = [node.attr["value"].tensor for node in _nodes(definition) if "value" in node.attr]
    handles = [handle for constant in constants for handle in constant.resource_handle_val]
    names = sorted({handle.name for handle in handles}, key=[handle.name for handle in handles].index)
    for handle in handles:
        handle.name = str(names.index(handle.name))
    # A name identifies a generator within a process. The hash of the graph makes the name unique among graphs.
    own = hashlib.sha256(definition.SerializeToString(deterministic=True)).hexdigest()
    for handle in handles:
        handle.name = f"millstream/{own}/{handle.name}"
    return bytes(definition.SerializeToString(deterministic=True))


def _nodes(definition: Any) -> list[Any]:
    return [*definition.node, *(node for function in definition.library.function for node in function.node_def)]


def _rename_functions(definition: Any) -> None:
    """Renames functions by their numbers in the order of calls, and removes functions that are never called."""
    functions = {function.signature.name: function for function in definition.library.function}
    numbered: dict[str, str] = {}

    def visit(nodes: Any) -> None:
        for node in nodes:
            for called in _called(node, functions):
                if called not in numbered:
                    numbered[called] = f"millstream_{len(numbered)}"
                    visit(functions[called].node_def)

    visit(definition.node)
    kept = [functions[name] for name in numbered]
    for node in (*definition.node, *(node for function in kept for node in function.node_def)):
        node.op = numbered.get(node.op, node.op)
        for reference in _references(node.attr):
            reference.name = numbered.get(reference.name, reference.name)
    for function in kept:
        function.signature.name = numbered[function.signature.name]
        for gradient in ("forward_function_name", "backward_function_name"):
            function.attr.pop(gradient, None)
    library = type(definition.library)(function=kept)
    definition.library.CopyFrom(library)


def _called(node: Any, functions: dict[str, Any]) -> list[str]:
    """Returns the names of the functions that a node refers to, always in the same order."""
    names = [node.op, *(reference.name for reference in _references(node.attr))]
    return [name for name in names if name in functions]


def _references(attributes: Any) -> Iterator[Any]:
    """Yields the references to functions in attributes, and in the attributes of these references."""
    for name in sorted(attributes):
        value = attributes[name]
        for reference in [value.func] if value.HasField("func") else list(value.list.func):
            yield reference
            yield from _references(reference.attr)


def _described(component: Any) -> tuple[Any, ...]:
    """Returns the spec of a component as plain tuples."""
    from ._spec import TensorSpec, plain

    if not hasattr(component, "shape") or not hasattr(component, "dtype") or component.dtype.name in ("resource", "variant"):
        raise InvalidArgumentError(f"expected elements that are tensors, found {component!r}: a worker can send only tensors")
    text = component.dtype.name == "string"
    dims = None if component.shape.rank is None else component.shape.as_list()
    return plain(TensorSpec(dims, "bytes" if text else component.dtype.name))


def _iterate(graph: bytes, spec: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of all elements. Runs on a worker."""
    import tensorflow as tf

    # A worker may share its machine with a trainer, which uses the machine's GPUs.
    with tf.device("CPU:0"):
        variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
        elements = iter(tf.data.experimental.from_variant(variant, spec))
    try:
        for element in elements:
            yield tuple(tensor.numpy() for tensor in tf.nest.flatten(element, expand_composites=True))
    except tf.errors.OpError as error:
        if type(error) is tf.errors.OpError:
            raise
        # The new exception has no frames of TensorFlow, and no indented lines: the trainer finds the type of an exception by the indentation.
        lines = (line.strip() for line in error.message.splitlines())
        raise type(error)(None, None, "\n".join(filter(None, lines))) from None


def _iterate_share(graph: bytes, spec: Any, num_shards: int, index: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of all elements of one share of the sources. Runs on a worker."""
    return _iterate(_shared(graph, num_shards, int(index)), spec)


def _shared(graph: bytes, num_shards: int, index: int) -> bytes:
    """Returns the graph with one share of each source. A source is a dataset that has no other dataset as its input."""
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
    """Returns the types and shapes of the elements of a source.

    Raises:
        InvalidArgumentError: The source's operation does not state its types and shapes.
    """
    attributes = source.attr
    for types in ("output_types", "Toutput_types"):
        if types in attributes and "output_shapes" in attributes:
            return attributes[types], attributes["output_shapes"]
    raise InvalidArgumentError(f"a {source.op} cannot be divided among workers: use ShardingPolicy.OFF")


def _taken(dataset: Dataset, spec: Any, components: list[Any]) -> Any:
    """Returns the elements of a service as a TensorFlow dataset."""
    import tensorflow as tf

    def packed(*parts: Any) -> Any:
        return tf.nest.pack_sequence_as(spec, list(parts), expand_composites=True)

    return dataset_of(lambda: dataset, tuple(components), packed)
