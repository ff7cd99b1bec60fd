"""Functions that workers call for a ``tf.data`` dataset. They yield the elements of the whole dataset, of a share, or from a position on.

The trainer pickles these functions by their names. This module does not know how elements reach the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._tf_division import placed, shared, turned
from ._tf_failure import is_registered
from ._tf_graph import Carried, with_functions

__all__ = ["iterate", "iterate_from", "iterate_placed", "iterate_share"]


def iterate(carried: Carried, spec: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of all elements."""
    return _elements(carried, with_functions(carried), spec)


def iterate_share(carried: Carried, spec: Any, num_shards: int, index: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of all elements of one share of the sources."""
    return _elements(carried, shared(with_functions(carried), num_shards, int(index)), spec)


def iterate_from(carried: Carried, spec: Any, number: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of an infinite dataset from the starting place of a task."""
    return _elements(carried, turned(with_functions(carried), int(number)), spec)


def iterate_placed(carried: Carried, spec: Any, policy: int, numbers: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the components of the elements of one worker of a fixed list.

    ``numbers`` holds the first two numbers that belong to this worker if the workers take the numbers from 0 in turn.
    """
    first, second = (int(number) for number in numbers)
    return _elements(carried, with_functions(carried), spec, (policy, second - first, first))


def _elements(carried: Carried, graph: bytes, spec: Any, place: tuple[int, int, int] | None = None) -> Iterator[tuple[Any, ...]]:
    """Yields the components of a graph's elements. ``carried`` keeps the functions of the graph registered until the end."""
    import tensorflow as tf

    if carried.reads_service:
        # The graph contains the operation that reports failures of the service.
        is_registered()
    try:
        # A worker may share its machine with a trainer, which uses the machine's GPUs.
        with tf.device("CPU:0"):
            variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
            if place is not None:
                variant = placed(variant, spec, *place)
            elements = iter(tf.data.experimental.from_variant(variant, spec))
        for element in elements:
            # A `None` in an element has a spec, but no component.
            yield tuple(part.numpy() for part in tf.nest.flatten(element, expand_composites=True) if part is not None)
    except tf.errors.OpError as error:
        if type(error) is tf.errors.OpError:
            raise
        # The new exception has no frames of TensorFlow.
        raise type(error)(None, None, _marked(error.message)) from None


def _marked(message: str) -> str:
    """Returns a message whose further lines are marked, because the trainer takes an indented line, or a line with a type, for a traceback."""
    first, *further = list(filter(None, (line.strip() for line in message.splitlines()))) or [""]
    return "\n".join([first, *(f"| {line}" for line in further)])
