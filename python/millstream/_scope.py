"""The element that a function of a dataset computes with, and the native operations that the function calls on parts of it.

Owns the graph that such operations extend: the element becomes the component ``__element__`` of a dict, beside a component for each operation.
Refuses to know which operations there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._millstream import Expr, Graph
from .errors import UnimplementedError

if TYPE_CHECKING:
    from ._tensor import Tensor

__all__ = ["Schedule", "Scope", "paths"]

_ELEMENT = "__element__"
#: Begins the name of a component beside the element. No component of a user's element begins with it.
_BESIDE = "\x01"

#: Changes the operation that was added last: its threads and its order.
Schedule = Callable[[Graph], Graph]


class Scope:
    """The element of one call of a function. Tensors of the function belong to it."""

    __slots__ = ("_current", "_results", "_steps", "graph")

    def __init__(self, graph: Graph) -> None:
        #: The dataset whose elements the function is called with.
        self.graph = graph
        self._current = graph
        self._steps: list[Callable[[Graph], Graph]] = []
        #: The number of operations that were called.
        self._results = 0

    @property
    def is_extended(self) -> bool:
        """Whether the function called a native operation."""
        return bool(self._steps)

    @property
    def whole(self) -> Graph:
        """The element and the results of the operations that were called, as a dataset."""
        return self._current

    def expr(self, expr: Expr) -> Expr:
        """Returns an expression over the element as an expression over what the element became."""
        return expr.below(_ELEMENT, _BESIDE) if self.is_extended else expr

    def described(self, expr: Expr) -> tuple[Any, ...]:
        """Returns the spec of what an expression yields, as plain tuples."""
        spec: tuple[Any, ...] = self._current.map_expr(self.expr(expr)).spec
        return spec

    def call(self, operation: str, argument: Tensor, parameters: dict[str, Any], *, makes_components: bool) -> tuple[tuple[Any, ...], str]:
        """Calls a native operation on a tensor of the function.

        Args:
            operation: The name of an operation that changes one component.
            argument: The tensor.
            parameters: The operation's parameters besides its component.
            makes_components: Whether the operation replaces the component by several components with names of their own.

        Returns:
            The spec of the result, and the path by which expressions name it.
        """
        if not self.is_extended:
            self._nest()
        name = f"__result{self._results}__"
        self._results += 1
        below = argument._expr.below(_ELEMENT, _BESIDE)
        self._add(lambda graph: graph.with_components([(name, below)]))
        others = [entry for entry, _ in self._current.spec[1] if entry != name]
        self._add(lambda graph: graph.then(operation, component=name, **parameters))
        if makes_components:
            self._gather(name, others)
        result = next(spec for entry, spec in self._current.spec[1] if entry == name)
        return result, f"{_BESIDE}{name}"

    def call_python(
        self, arguments: Sequence[Tensor], output: tuple[Any, ...], code: Callable[[list[str], str], bytes]
    ) -> tuple[tuple[Any, ...], str]:
        """Calls Python code on tensors of the function.

        Args:
            arguments: The tensors.
            output: The spec of the result, as plain tuples.
            code: Makes the code of a function of a dict of components, which returns the dict with the result instead of the arguments. Takes
                the names of the arguments and of the result.

        Returns:
            The spec of the result, and the path by which expressions name it.
        """
        if not self.is_extended:
            self._nest()
        name = f"__result{self._results}__"
        self._results += 1
        given = [(f"{name}{index}", argument._expr.below(_ELEMENT, _BESIDE)) for index, argument in enumerate(arguments)]
        names = [entry for entry, _ in given]
        if given:
            self._add(lambda graph: graph.with_components(given))
        kept = [(entry, spec) for entry, spec in self._current.spec[1] if entry not in names]
        made, packed = ("dict", [*kept, (name, output)]), code(names, name)
        self._add(lambda graph: graph.map_python(made, packed))
        return output, f"{_BESIDE}{name}"

    def replayed(self, graph: Graph, schedule: Schedule) -> Graph:
        """Adds the operations that the function called to a dataset.

        Args:
            graph: The dataset that the function was called for.
            schedule: Changes each operation after it is added.
        """
        for step in self._steps:
            graph = schedule(step(graph))
        return graph

    def restored(self, graph: Graph) -> Graph:
        """Returns a dataset of the elements before the operations were called."""
        return graph.map_nested(self.graph.spec, [Expr.column(_below(_ELEMENT, path)) for path in paths(self.graph.spec)])

    def _add(self, step: Callable[[Graph], Graph]) -> None:
        self._current = step(self._current)
        self._steps.append(step)

    def _nest(self) -> None:
        """Makes the element a component of a dict."""
        spec = self.graph.spec
        columns = [Expr.column(path) for path in paths(spec)]
        self._add(lambda graph: graph.map_nested(("dict", [(_ELEMENT, spec)]), columns))

    def _gather(self, name: str, others: list[str]) -> None:
        """Makes the components that are new one component, a dict."""
        entries = self._current.spec[1]
        made = [(entry, spec) for entry, spec in entries if entry not in others]
        kept = [(entry, spec) for entry, spec in entries if entry in others]
        nested = ("dict", [*kept, (name, ("dict", made))])
        columns = [
            Expr.column(_below(entry, path)) for entry, spec in [*kept, *made] for path in paths(spec)
        ]
        self._add(lambda graph: graph.map_nested(nested, columns))


def _below(entry: str, path: str) -> str:
    return f"{entry}.{path}" if path else entry


def paths(described: tuple[Any, ...], path: str = "") -> Iterator[str]:
    """Yields the paths of the tensors of a spec."""
    kind = described[0]
    if kind == "tensor":
        yield path
    elif kind == "dict":
        for name, item in described[1]:
            yield from paths(item, _below(path, name) if path else name)
    elif kind in ("tuple", "list"):
        for index, item in enumerate(described[1]):
            yield from paths(item, _below(path, str(index)) if path else str(index))
    elif kind != "none":
        raise UnimplementedError(
            f"a function of a dataset whose elements hold a {kind} tensor cannot call native operations: "
            "use the methods of Dataset, such as parse_example and decode_image"
        )
