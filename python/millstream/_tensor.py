"""Symbolic tensors: the arguments of a dataset's functions. The recorded operations run natively, on workers or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._captures import ForeignTensor, Parts, calling, meaning
from ._constants import fitted, is_constant
from ._dtypes import DType, as_dtype
from ._millstream import Expr, Graph
from ._numpy_names import FUNCTIONS, NO_ARRAY, UFUNCS
from ._refusals import refusals_of_dtypes
from ._scope import Schedule, Scope
from ._spec import TensorShape
from ._structure import leaf
from ._tracing import tracing
from .errors import InvalidArgumentError, MillstreamError, UnimplementedError

__all__ = ["Tensor", "convert_to_tensor"]


class Tensor:
    """A symbolic tensor, which represents a component of future elements. Operators and the functions of ``ms.ops`` return new tensors.

    A symbolic tensor has no value. Millstream calls a function of a dataset once to record its operations, and executes the operations natively
    for every element.
    """

    __slots__ = ("_own_expr", "_own_path", "_own_scope")
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:
        # Defined by ``_operators``, below.
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...

    def __init__(self, expr: Expr, scope: Scope | None = None, path: str | None = None) -> None:
        self._own_expr = expr
        self._own_scope = scope
        self._own_path = path

    # Within an inner function, a tensor of the outer function's element is a part of the inner function's element.

    @property
    def _expr(self) -> Expr:
        return meaning(self._own_scope, self._own_expr)[1]

    @property
    def _scope(self) -> Scope | None:
        return meaning(self._own_scope, self._own_expr)[0]

    @property
    def _path(self) -> str | None:
        return self._own_path if self._scope is self._own_scope else None

    def _made(self, expr: Expr, *others: Tensor) -> Tensor:
        scopes = [tensor._scope for tensor in (self, *others) if tensor._scope is not None]
        if any(scope.graph is not scopes[0].graph for scope in scopes):
            raise ForeignTensor(*scopes)
        return Tensor(expr, scopes[0] if scopes else None)

    def _unary(self, name: str) -> Tensor:
        return self._made(self._expr.unary(name))

    def _binary(self, name: str, other: Any) -> Tensor:
        _, other = tensors_of(self, other)
        return self._made(self._expr.binary(name, other._expr), other)

    def _swapped(self, name: str, other: Any) -> Tensor:
        first, _ = tensors_of(other, self)
        return first._binary(name, self)

    def _reduced(self, name: str, axis: Any, keepdims: bool) -> Tensor:
        axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
        return self._made(self._expr.reduce(name, axes, keepdims))

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor in a function of a dataset has no value yet, so Python cannot test it: use ms.where, & and |"
        )

    def __iter__(self) -> Any:
        raise TypeError("a tensor in a function of a dataset has no value yet, so Python cannot iterate over it: use ms.ops, or unbatch the dataset")

    def __len__(self) -> int:
        shape = self.shape
        if not shape or shape[0] is None:
            raise TypeError(f"the length of a tensor of shape {shape} is known only when an element exists: use ops.shape(x)[0]")
        return shape[0]

    def _has_no_value(self, *_: Any) -> Any:
        raise TypeError("a tensor in a function of a dataset has no value yet, so Python cannot convert it to a number: use its operators, or cast")

    __int__ = __float__ = __complex__ = __index__ = __round__ = _has_no_value

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(NO_ARRAY)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Tensor:
        """Converts a numpy function to the corresponding operation. Refuses other numpy functions."""
        known = UFUNCS.get(ufunc.__name__)
        if known is None or method != "__call__" or options:
            raise TypeError(f"np.{ufunc.__name__}: {NO_ARRAY}")
        first, *others = tensors_of(*inputs)
        return first._binary(known, others[0]) if others else first._unary(known)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Tensor:
        """Converts a numpy function to the corresponding operation. Refuses other numpy functions."""
        from . import ops

        known = getattr(ops, FUNCTIONS.get(func.__name__, ""), None)
        if known is None:
            raise TypeError(f"np.{func.__name__}: {NO_ARRAY}")
        return known(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<ms.Tensor {self._path!r}>" if self._path is not None else "<ms.Tensor>"

    def _described(self) -> tuple[str, tuple[int | None, ...] | None]:
        # An expression without an argument is constant, so any dataset can determine its spec.
        scope = self._scope or Scope(Graph.source("range", start=0, stop=1, step=1))
        _, code, dims = scope.described(self._expr)
        return code, dims

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor's items."""
        return as_dtype(self._described()[0])

    @property
    def shape(self) -> TensorShape | None:
        """The shape; ``None`` if the rank is unknown. A size of ``None`` is known only for an element; ``ops.shape`` computes it."""
        dims = self._described()[1]
        return None if dims is None else TensorShape(dims)

    def __getitem__(self, places: Any) -> Tensor:
        listed = list(places) if isinstance(places, tuple) else [places]
        if len(listed) == 1 and isinstance(listed[0], Tensor):
            return self.gather(listed[0])
        listed = self._without_ellipsis(listed)
        taken = [place for place in listed if place is not None]
        part = self._made(self._expr.index(taken)) if taken else self
        # An integer index removes its axis from the result.
        axes = [place for place in listed if place is None or isinstance(place, slice)]
        for axis in [axis for axis, place in enumerate(axes) if place is None]:
            part = part._made(part._expr.expand_dims(axis))
        return part

    def _without_ellipsis(self, listed: list[Any]) -> list[Any]:
        """Replaces an ellipsis in the indices by full slices."""
        at = [index for index, place in enumerate(listed) if place is Ellipsis]
        if not at:
            return listed
        shape, others = self.shape, sum(place is not None for place in listed) - len(at)
        if len(at) > 1:
            raise InvalidArgumentError("expected at most one ellipsis in the index, found several")
        if shape is None and at[0] < len(listed) - 1:
            raise UnimplementedError("an ellipsis before other indices needs a known rank, but the rank of the tensor is unknown: write slices")
        left_out = 0 if shape is None else len(shape) - others
        return [*listed[: at[0]], *[slice(None)] * left_out, *listed[at[0] + 1 :]]

    def __neg__(self) -> Tensor:
        return self._unary("neg")

    def __invert__(self) -> Tensor:
        return self._unary("not")

    def __abs__(self) -> Tensor:
        return self._unary("abs")

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._binary("ne", other)

    def cast(self, dtype: Any, *, saturate: bool = False) -> Tensor:
        """Converts the tensor to another dtype, like ``tf.cast`` or ``tf.saturate_cast``.

        Args:
            dtype: The dtype of the result.
            saturate: Whether a value outside of the dtype's range becomes the nearest value in the range.

        Returns:
            The new tensor.
        """
        return self._made(self._expr.cast(as_dtype(dtype).code, saturate))

    astype = cast

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Computes the sum of the items along axes.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.

        Returns:
            The new tensor.
        """
        return self._reduced("sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Computes the mean of floats along axes.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.

        Returns:
            The new tensor.
        """
        return self._reduced("mean", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Returns the largest item along axes.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.
        """
        return self._reduced("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Returns the smallest item along axes.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.
        """
        return self._reduced("min", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Returns whether any item along axes is true.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.
        """
        return self._reduced("any", axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Returns whether all items along axes are true.

        Args:
            axis: The axes to reduce; all axes by default.
            keepdims: Whether the result keeps the reduced axes, with a size of 1.
        """
        return self._reduced("all", axis, keepdims)

    def clip(self, low: Any, high: Any) -> Tensor:
        """Limits each item to a range.

        Args:
            low: The smallest value of the range.
            high: The largest value of the range.

        Returns:
            The new tensor.
        """
        _, low, high = tensors_of(self, low, high)
        return self._made(self._expr.clip(low._expr, high._expr), low, high)

    def gather(self, indices: Any, axis: int = 0) -> Tensor:
        """Selects items by their indices along an axis.

        Args:
            indices: A tensor of integers.
            axis: The axis along which items are selected.

        Returns:
            The new tensor.
        """
        indices = convert_to_tensor(indices)
        return self._made(self._expr.gather(indices._expr, axis), indices)

    def reshape(self, *shape: Any) -> Tensor:
        """Arranges the items in another shape.

        Args:
            *shape: The new sizes, or a sequence of the sizes. One size may be -1, and is then computed from the number of items.

        Returns:
            The new tensor.
        """
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._made(self._expr.reshape(list(sizes)))

    def transpose(self, *axes: Any) -> Tensor:
        """Reorders the axes of the tensor.

        Args:
            *axes: The axes in their new order, or a sequence of the axes; the reversed order by default.

        Returns:
            The new tensor.
        """
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self._made(self._expr.transpose(list(order or [])))

    def split(self, separator: str | None = None) -> Tensor:
        """Splits a string at a separator.

        Args:
            separator: The separator; white space by default.

        Returns:
            The new tensor.
        """
        return self._made(self._expr.split(separator))


def _operators() -> None:
    names = {
        "add": "add",
        "sub": "sub",
        "mul": "mul",
        "truediv": "div",
        "floordiv": "floor_div",
        "mod": "mod",
        "pow": "pow",
        "and": "and",
        "or": "or",
        "xor": "xor",
    }
    for method, name in names.items():
        setattr(Tensor, f"__{method}__", lambda self, other, name=name: self._binary(name, other))
        setattr(Tensor, f"__r{method}__", lambda self, other, name=name: self._swapped(name, other))
    for name in ("lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", lambda self, other, name=name: self._binary(name, other))


_operators()


def convert_to_tensor(value: Any) -> Tensor:
    """Converts a value to a symbolic tensor: a constant, or a stack of a list of tensors. Returns symbolic tensors unchanged."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float | str):
        return Tensor(Expr.literal(value))
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        tensors = [convert_to_tensor(item) for item in value]
        return tensors[0]._made(Expr.stack([tensor._expr for tensor in tensors], 0), *tensors)
    code, dims, data = leaf(np.asarray(value))
    return Tensor(Expr.tensor(code, list(dims), data))


def alike(*values: Any) -> list[Any]:
    """Returns the operands of one operation. Constants take the dtype of the first tensor, unless they lose their value."""
    first = next((value for value in values if isinstance(value, Tensor)), None)
    are_constant = [is_constant(value) and next(_symbolic(value), None) is None for value in values]
    if first is None or not any(are_constant):
        return list(values)
    try:
        dtype = first.dtype
    except (MillstreamError, ValueError, TypeError):
        # The dataset refuses the computation of the tensor, and says why.
        return list(values)
    return [fitted(value, dtype) if takes else value for value, takes in zip(values, are_constant, strict=True)]


def tensors_of(*values: Any) -> list[Tensor]:
    """Converts the operands of one operation to tensors of one dtype, as ``alike`` does."""
    return [convert_to_tensor(value) for value in alike(*values)]


def stacked(tensors: Any) -> Any:
    """Converts a list of tensors to one tensor, as sources expect. A list that a function returns is a tuple instead."""
    return convert_to_tensor(tensors) if isinstance(tensors, list) else tensors


class _Untraceable:
    """A placeholder for a component that functions cannot compute with. Any use raises an error."""

    __slots__ = ("_what",)
    _what: str

    def __init__(self, what: str) -> None:
        object.__setattr__(self, "_what", what)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise UnimplementedError(f"functions of a dataset cannot compute with {self._what}")

    # Python looks up operators in the class, and never asks __getattr__ for them.
    __getattr__ = __getitem__ = __iter__ = __len__ = __bool__ = __int__ = __float__ = __index__ = _refuse
    __neg__ = __abs__ = __invert__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __array__ = __array_ufunc__ = __array_function__ = __call__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def argument(graph: Graph, parts: Parts | None = None) -> Any:
    """Returns an element of the dataset as symbolic tensors, in the structure of the elements.

    Args:
        graph: The dataset.
        parts: The parts into which the elements are divided. The function receives the first part.
    """
    scope = Scope(graph)
    if parts is None or parts.is_whole:
        return symbolic(graph.spec, "", scope)
    return symbolic(graph.spec[1][0], parts.opened(scope), scope)


def symbolic(described: tuple[Any, ...], path: str, scope: Scope) -> Any:
    """Returns tensors without values for a spec: those of the component at a path of the element."""
    kind = described[0]
    below = f"{path}." if path else ""
    if kind == "tensor":
        return Tensor(Expr.column(path), scope, path)
    if kind == "dict":
        return {name: symbolic(item, f"{below}{name}", scope) for name, item in described[1]}
    if kind in ("tuple", "list"):
        items = [symbolic(item, f"{below}{index}", scope) for index, item in enumerate(described[1])]
        return tuple(items) if kind == "tuple" else items
    return None if kind == "none" else _Untraceable(f"a {kind} tensor")


def called(function: Callable[..., Any], graph: Graph, parts: Parts | None = None) -> Any:
    """Calls a function with the symbolic element of a dataset, and returns the result. The components of a tuple are separate arguments.

    Args:
        function: The function.
        graph: The dataset.
        parts: The parts into which the elements are divided. The function receives the first part.

    Raises:
        InvalidArgumentError: The function is not callable.
    """
    if not callable(function):
        raise InvalidArgumentError(f"expected a function of an element, found {function!r} of type {type(function).__name__}")
    made = argument(graph, parts)
    with tracing(), calling(graph):
        return function(*made) if isinstance(made, tuple) else function(made)


def applied(graph: Graph, result: Any, schedule: Schedule = lambda graph: graph) -> Graph:
    """Returns the dataset of a function's results. An outer list becomes a tuple, as in TensorFlow, and an inner list becomes a tensor.

    Args:
        graph: The dataset.
        result: Tensors and constants, nested in tuples and dicts.
        schedule: Changes each operation after it is added.

    Raises:
        InvalidDtypeError: An operation of the function does not accept the dtype of a tensor.
        InvalidArgumentError: The function computes with a shape or an argument that an operation does not accept.
    """
    for tensor in _symbolic(result):
        _check_scope(tensor._scope, graph)
    with refusals_of_dtypes(graph, lambda other: _added(other, result, schedule)):
        return _added(graph, result, schedule)


def _added(graph: Graph, result: Any, schedule: Schedule) -> Graph:
    if isinstance(result, list):
        result = tuple(result)
    scope = scope_of(result) or Scope(graph)
    graph = scope.replayed(graph, schedule)

    def of(value: Any) -> Expr:
        return scope.expr(_made(value)._expr)

    if isinstance(result, dict) and not any(map(_nests, result.values())):
        return schedule(graph.map_exprs([(str(name), of(item)) for name, item in result.items()]))
    if isinstance(result, tuple) and not any(map(_nests, result)):
        return schedule(graph.map_tuple([of(item) for item in result]))
    if not isinstance(result, dict | tuple):
        return schedule(graph.map_expr(of(result)))
    leaves = list(_leaves(result, ""))
    if not scope.is_extended and [path for path, _ in leaves] == [path for path, _ in _paths(graph.spec, "")]:
        changed = [(path, tensor._expr) for path, tensor in leaves if tensor._path != path]
        return schedule(graph.with_components(changed)) if changed else graph
    return schedule(graph.map_nested(_nesting(result), [of(tensor) for _, tensor in leaves]))


def filtered(graph: Graph, condition: Any, operation: str) -> Graph:
    """The dataset of the elements for which a condition holds.

    Args:
        graph: The dataset.
        condition: A tensor of a function of its elements.
        operation: The method of the graph: ``filter_expr`` or ``take_while_expr``.
    """
    tensor = convert_to_tensor(condition)
    scope = tensor._scope or Scope(graph)
    _check_scope(scope, graph)

    def kept(graph: Graph) -> Graph:
        made: Graph = getattr(scope.replayed(graph, lambda made: made), operation)(scope.expr(tensor._expr))
        return made

    with refusals_of_dtypes(graph, kept):
        return scope.restored(kept(graph)) if scope.is_extended else kept(graph)


def _check_scope(scope: Scope | None, graph: Graph) -> None:
    """Checks that a tensor belongs to the element of a dataset.

    Raises:
        ForeignTensor: The tensor belongs to another element.
    """
    if scope is not None and scope.graph is not graph:
        raise ForeignTensor(scope)


def _symbolic(value: Any) -> Iterator[Tensor]:
    """Yields the tensors of a structure that belong to an element."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _symbolic(part)


def _nests(value: Any) -> bool:
    return value is None or isinstance(value, dict | tuple)


def _made(value: Any) -> Tensor:
    """Converts a part of a function's result to a tensor. Constants have the dtype of TensorFlow."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, list) and scope_of(value) is not None:
        return convert_to_tensor(value)
    code, dims, data = leaf(value)
    return Tensor(Expr.tensor(code, list(dims), data))


def _nesting(value: Any) -> tuple[Any, ...]:
    if isinstance(value, dict):
        return ("dict", [(str(name), _nesting(item)) for name, item in value.items()])
    if isinstance(value, tuple):
        return ("tuple", [_nesting(item) for item in value])
    return ("none",) if value is None else ("tensor", "bool", ())


def _leaves(value: Any, path: str) -> Any:
    below = f"{path}." if path else ""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{below}{name}")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{below}{index}")
    elif value is not None:
        yield path, _made(value)


def _paths(described: tuple[Any, ...], path: str) -> Any:
    below = f"{path}." if path else ""
    if described[0] == "dict":
        for name, item in described[1]:
            yield from _paths(item, f"{below}{name}")
    elif described[0] == "tuple":
        for index, item in enumerate(described[1]):
            yield from _paths(item, f"{below}{index}")
    else:
        yield path, described[0]


def scope_of(value: Any) -> Scope | None:
    """Returns the scope of the symbolic tensors in a structure; ``None`` if the structure contains no symbolic tensor."""
    if isinstance(value, Tensor):
        return value._scope
    parts: Sequence[Any] = list(value.values()) if isinstance(value, dict) else value
    if isinstance(value, dict | tuple | list):
        return next((scope for part in parts if (scope := scope_of(part)) is not None), None)
    return None
