"""Divides the graph of a ``tf.data`` dataset among workers: into shares, by starting places, or by a number of the worker.

A source is a dataset of the graph that has no other dataset as its input. This module changes graphs, and does not know what runs them.
"""

from __future__ import annotations

from typing import Any

from .errors import InvalidArgumentError

__all__ = ["POLICIES", "check_divisible", "placed", "shared", "turned"]

#: The numbers that TensorFlow gives to the policies that divide a dataset among a fixed list of workers.
POLICIES = {"file_or_data": 0, "file": 1, "data": 2, "hint": 3}

#: The part of a source by which the starting places of two successive tasks differ. The golden ratio spreads any number of places evenly.
_TURN = 0.6180339887498949

#: Operations that count elements. The start of a source stays as it is, because the elements at the start have a meaning.
_COUNTING = {"SkipDataset", "TakeDataset", "TakeWhileDataset"}


def shared(graph: bytes, count: int, index: int) -> bytes:
    """Returns the graph with share ``index`` of ``count`` of each source."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(graph)
    for source in _sources(definition):
        _sharded(definition, _followed(definition, source), source, count, index)
    return bytes(definition.SerializeToString())


def check_divisible(graph: bytes) -> None:
    """Checks that each source can be divided into shares.

    Raises:
        InvalidArgumentError: A source does not state its types.
    """
    import tensorflow as tf

    for source in _sources(tf.compat.v1.GraphDef.FromString(graph)):
        _types(source)


def turned(graph: bytes, number: int) -> bytes:
    """Returns the graph in which each source starts at the place of task ``number`` and continues at its beginning after its end.

    A source stays as it is if its size is unknown or infinite, if the dataset counts elements, or if a ``zip`` pairs sources of different sizes.
    """
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(graph)
    # TensorFlow itself counts elements for `enumerate`, and each task counts its own elements.
    sources = [source for source in _sources(definition) if not _is_replicated(source)]
    sizes = {source.name: _size(definition, source) for source in sources}
    operations = {node.op for node in definition.node}
    if operations & _COUNTING or ("ZipDataset" in operations and len(set(sizes.values())) > 1):
        return graph
    for source in sources:
        if sizes[source.name] > 1:
            start = int(sizes[source.name] * (number * _TURN % 1.0))
            _rotated(definition, _followed(definition, source), source, start)
    return bytes(definition.SerializeToString())


def placed(variant: Any, spec: Any, policy: int, count: int, index: int) -> Any:
    """Returns the share of worker ``index`` of ``count`` under a policy of ``POLICIES``. TensorFlow itself divides the dataset.

    Raises:
        tf.errors.NotFoundError: The policy is FILE, and the dataset reads no files.
    """
    import tensorflow as tf

    if count == 1 and policy != POLICIES["hint"]:
        return variant
    components = tf.nest.flatten(spec, expand_composites=True)
    try:
        return tf.raw_ops.AutoShardDataset(
            input_dataset=variant,
            num_workers=count,
            index=index,
            auto_shard_policy=policy,
            num_replicas=0,
            output_types=[component.dtype for component in components],
            output_shapes=[component.shape for component in components],
        )
    except tf.errors.NotFoundError as error:
        # TensorFlow's message contains the whole node of the source.
        operation = error.message.partition('op: "')[2].partition('"')[0] or "source"
        raise tf.errors.NotFoundError(
            None,
            None,
            f"the dataset cannot be divided by files: its {operation} reads no files; use the sharding policy DATA, FILE_OR_DATA or DYNAMIC",
        ) from None


def _sources(definition: Any) -> list[Any]:
    """Returns the sources of a graph that hold data. A source that only selects among datasets holds no data."""
    datasets = {node.name: node for node in definition.node if "Dataset" in node.op}
    inputs = {name: [taken for taken in map(_bare, node.input) if taken in datasets] for name, node in datasets.items()}
    selectors: set[str] = set()
    for name, node in datasets.items():
        if node.op == "DirectedInterleaveDataset":
            _collect(inputs[name][0], inputs, selectors)
    return [node for name, node in datasets.items() if not inputs[name] and name not in selectors]


def _is_replicated(source: Any) -> bool:
    # A look at a missing attribute would add the attribute to the node.
    return "replicate_on_split" in source.attr and source.attr["replicate_on_split"].b


def _collect(name: str, inputs: dict[str, list[str]], into: set[str]) -> None:
    """Adds a dataset and all of its inputs to a set."""
    if name not in into:
        into.add(name)
        for taken in inputs[name]:
            _collect(taken, inputs, into)


def _bare(taken: str) -> str:
    """Returns the name of the node in an input."""
    return taken.split(":")[0].lstrip("^")


def _followed(definition: Any, source: Any) -> str:
    """Lets all readers of a source read another node, which the caller adds. Returns the name of this node."""
    name = f"{source.name}/divided"
    for node in definition.node:
        for place, taken in enumerate(node.input):
            if taken in (source.name, f"{source.name}:0"):
                node.input[place] = name
    return name


def _sharded(definition: Any, name: str, source: Any, count: int, index: int) -> None:
    constants = [_constant(definition, f"{name}/{what}", value) for what, value in (("count", count), ("index", index))]
    share = _dataset(definition, name, "ShardDataset", [source.name, *constants], source)
    share.attr["require_non_empty"].b = False


def _rotated(definition: Any, name: str, source: Any, start: int) -> None:
    number = _constant(definition, f"{name}/start", start)
    parts = [_dataset(definition, f"{name}/{op}", op, [source.name, number], source).name for op in ("SkipDataset", "TakeDataset")]
    _dataset(definition, name, "ConcatenateDataset", parts, source)


def _dataset(definition: Any, name: str, op: str, inputs: list[str], source: Any) -> Any:
    """Adds a dataset of the same elements as a source."""
    made = definition.node.add(name=name, op=op, input=inputs)
    types, shapes = _types(source)
    made.attr["output_types"].CopyFrom(types)
    made.attr["output_shapes"].CopyFrom(shapes)
    return made


def _constant(definition: Any, name: str, value: int) -> str:
    import tensorflow as tf

    constant = definition.node.add(name=name, op="Const")
    constant.attr["dtype"].type = tf.int64.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
    return name


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


def _size(definition: Any, source: Any) -> int:
    """Returns the number of elements of a source, or a negative number if the number is unknown or infinite."""
    import tensorflow as tf

    alone = tf.compat.v1.GraphDef()
    alone.CopyFrom(definition)
    for node in alone.node:
        if node.op == "_Retval":
            node.input[0] = source.name
    variant = tf.raw_ops.DatasetFromGraph(graph_def=alone.SerializeToString())
    return int(tf.raw_ops.DatasetCardinality(input_dataset=variant))
