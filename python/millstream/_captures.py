"""Functions within functions: an inner function of a dataset uses tensors of the outer function's element.

Owns the zip of the inner dataset with the outer element, and what the outer tensors mean meanwhile: parts of the zipped element.
Refuses to know which operations call functions.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence

from ._millstream import Expr, Graph
from ._scope import Scope, paths
from .errors import UnimplementedError

__all__ = ["ForeignTensor", "Parts", "calling", "check_innermost", "meaning", "resolved"]

#: Begins no name of a component, so that all components of an element move below another one.
_NO_MARK = "\x02"


class ForeignTensor(UnimplementedError):
    """A function uses a tensor of another function's element.

    Attributes:
        scopes: The elements that the tensors of one operation belong to.
    """

    def __init__(self, *scopes: Scope) -> None:
        super().__init__(
            "a function uses a tensor of another function's element: zip the dataset with that tensor, for example "
            "ms.Dataset.zip(dataset, ms.Dataset.from_tensors(x).repeat()), and take both as arguments of the function"
        )
        self.scopes = scopes


#: Where the elements of outer functions are within the element of the innermost function.
_captured: contextvars.ContextVar[dict[Scope, tuple[Scope, str]]] = contextvars.ContextVar("millstream_captured", default={})  # noqa: B039
#: The dataset whose function is called.
_innermost: contextvars.ContextVar[Graph | None] = contextvars.ContextVar("millstream_innermost", default=None)


def meaning(scope: Scope | None, expr: Expr) -> tuple[Scope | None, Expr]:
    """Returns an expression over the innermost element, if its own element is captured there; else both as they are."""
    captured = _captured.get()
    while scope is not None and (found := captured.get(scope)) is not None:
        inner, path = found
        scope, expr = inner, scope.expr(expr).below(path, _NO_MARK)
    return scope, expr


def check_innermost(scope: Scope) -> Graph:
    """Returns the dataset of the one element of a function, for a dataset that is built from it.

    Raises:
        ForeignTensor: An inner function builds the dataset.
    """
    innermost = _innermost.get()
    if innermost is not None and innermost is not scope.graph:
        raise ForeignTensor(scope)
    return scope.graph


@contextlib.contextmanager
def calling(graph: Graph) -> Iterator[None]:
    """Marks a dataset as the one whose function is called."""
    token = _innermost.set(graph)
    try:
        yield
    finally:
        _innermost.reset(token)


class Parts:
    """The parts of an element: the element of a dataset, and the outer elements that its function uses, with their positions."""

    def __init__(self, outer: Sequence[Scope]) -> None:
        self._outer = outer

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing but the element of the dataset."""
        return not self._outer

    def opened(self, scope: Scope, path: str = "") -> str:
        """Captures the outer elements until ``resolved`` returns.

        Args:
            scope: The element of the function.
            path: The component of the element that has the parts.

        Returns:
            The component that is the element of the dataset.
        """
        if self.is_whole:
            return path
        below = f"{path}." if path else ""
        where = {outer: (scope, f"{below}{index}") for index, outer in enumerate(self._outer, 1)}
        _captured.set({**_captured.get(), **where})
        return f"{below}0"


def resolved(graph: Graph, add: Callable[[Graph, Parts], Graph], *, keeps: bool = False) -> Graph:
    """Adds an operation with a function to a dataset, zipped with the outer elements that the function uses.

    Args:
        graph: The dataset.
        add: Adds the operation, to the dataset or to the zipped dataset of the parts.
        keeps: Whether the operation yields elements as they are, so that the outer elements are dropped after it.

    Raises:
        UnimplementedError: The function uses an element in an operation that has no parts, for example as the key of a group.
    """
    outer: list[Scope] = []
    given = graph
    while True:
        token = _captured.set(_captured.get())
        try:
            made = add(given, Parts(outer))
        except ForeignTensor as error:
            # Another element than that of the calling function is captured there first.
            new = [scope for scope in error.scopes if scope.graph is _innermost.get() and scope not in outer]
            if not new and _innermost.get() is None:
                raise UnimplementedError(error.message) from None
            if not new:
                raise
            outer += new[:1]
            given = Graph.joined([graph, *(scope.whole.then("repeat", count=None) for scope in outer)], "zip", names=None)
        else:
            return made if not keeps or not outer else _first(made, graph)
        finally:
            _captured.reset(token)


def _first(made: Graph, graph: Graph) -> Graph:
    columns = [Expr.column(f"0.{path}" if path else "0") for path in paths(graph.spec)]
    return made.map_nested(graph.spec, columns)
