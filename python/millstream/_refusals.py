"""Tells wrong dtypes from other mistakes in the functions of datasets, so that each mistake raises the error that tf.data raises.

Refuses to know which operations accept which dtypes: an operation that refuses a tensor of any shape refuses its dtype.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ._millstream import Graph
from .errors import InvalidArgumentError, InvalidDtypeError

__all__ = ["refusals_of_dtypes"]


@contextlib.contextmanager
def refusals_of_dtypes(graph: Graph, again: Callable[[Graph], Graph]) -> Iterator[None]:
    """Raises the refusal of a dtype as an ``InvalidDtypeError``, and other refusals as they are.

    Args:
        graph: The dataset that the function was called for.
        again: Adds what the function computes to another dataset.
    """
    try:
        yield
    except InvalidArgumentError as error:
        if type(error) is not InvalidArgumentError or not _is_of_dtype(graph, again):
            raise
        raise InvalidDtypeError(error.message) from error


def _is_of_dtype(graph: Graph, again: Callable[[Graph], Graph]) -> bool:
    try:
        again(Graph.load("any", _shapeless(graph.spec)))
    except InvalidArgumentError:
        return True
    return False


def _shapeless(described: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a spec with the same dtypes, whose tensors have shapes of any rank."""
    kind = described[0]
    if kind == "tensor":
        return (kind, described[1], None)
    if kind == "dict":
        return (kind, [(name, _shapeless(part)) for name, part in described[1]])
    return (kind, [_shapeless(part) for part in described[1]]) if kind in ("tuple", "list") else described
