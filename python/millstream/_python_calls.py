"""Calls of Python functions on tensors of a dataset's function, between native computations.

Owns the code that workers run for such a call. Refuses to know how the code reaches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._code import packed
from ._dtypes import DType, as_dtype
from ._tensor import convert_to_tensor, symbolic
from .errors import InvalidArgumentError

__all__ = ["beside", "called_python", "fitted"]


def called_python(function: Callable[..., Any], arguments: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """Returns the results of a Python function as tensors of the function that the arguments belong to.

    The whole element goes to the process that runs the function, and comes back with the results.

    Args:
        function: A function of arrays that returns one value for each dtype: a sequence, or a value if there is one dtype.
        arguments: Tensors and constants, of which at least one is a tensor of a function.
        dtypes: The dtypes of the results, whose shapes are not known.

    Raises:
        InvalidArgumentError: No argument is a tensor of a function.
    """
    tensors = [convert_to_tensor(argument) for argument in arguments]
    scope = next((tensor._scope for tensor in tensors if tensor._scope is not None), None)
    if scope is None:
        raise InvalidArgumentError("a call of Python code: expected a tensor of the element among its inputs, found constants alone")
    kinds = [as_dtype(dtype) for dtype in dtypes]
    output = ("tuple", [("tensor", kind.code, None) for kind in kinds])
    spec, path = scope.call_python(tensors, output, lambda names, name: packed(beside, function, names, name, [kind.name for kind in kinds]))
    return list(symbolic(spec, path, scope))


def beside(function: Callable[..., Any], names: Sequence[str], name: str, dtypes: Sequence[str], element: dict[str, Any]) -> dict[str, Any]:
    """Runs where the pipeline does: replaces the arguments in an element by the results.

    Args:
        function: The function.
        names: The components that hold its arguments.
        name: The component that will hold its results.
        dtypes: The dtypes of the results.
        element: The components by name.
    """
    made = function(*(element[entry] for entry in names))
    results = list(made) if isinstance(made, tuple | list) and len(dtypes) > 1 else [made]
    if len(results) != len(dtypes):
        raise InvalidArgumentError(f"the Python function: expected {len(dtypes)} results, found {len(results)}")
    kept = {entry: value for entry, value in element.items() if entry not in names}
    return {**kept, name: tuple(fitted(value, as_dtype(dtype)) for value, dtype in zip(results, dtypes, strict=True))}


def fitted(value: Any, dtype: DType) -> Any:
    """Returns a result in its dtype: numbers of Python take it, arrays of another dtype are an error as in TensorFlow."""
    if dtype.code in ("string", "bytes"):
        return _text(value, dtype.code)
    if isinstance(value, np.ndarray | np.generic) and as_dtype(value.dtype) != dtype:
        raise InvalidArgumentError(f"the Python function: expected a result of {dtype!r}, found {as_dtype(value.dtype)!r}")
    return np.asarray(value, dtype.as_numpy_dtype)


def _text(value: Any, code: str) -> Any:
    if isinstance(value, bytes) and code == "string":
        return value.decode()
    if isinstance(value, str) and code == "bytes":
        return value.encode()
    if isinstance(value, np.ndarray | list | tuple):
        items = np.asarray(value, object)
        made = np.empty(items.size, object)
        made[:] = [_text(item, code) for item in items.reshape(-1)]
        return made.reshape(items.shape)
    return value
