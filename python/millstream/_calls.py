"""Calls of native operations on tensors of a function.

Owns the step from a tensor to the result of an operation. Refuses to know which operations there are.
"""

from __future__ import annotations

from typing import Any

from ._tensor import Tensor, convert_to_tensor, symbolic
from .errors import InvalidArgumentError

__all__ = ["called_native"]


def called_native(operation: str, argument: Any, *, makes_components: bool = False, **parameters: Any) -> Any:
    """Returns the result of an operation that changes one component, as tensors of the same function.

    Args:
        operation: The name of the operation.
        argument: A tensor of a function of a dataset.
        makes_components: Whether the operation replaces the component by several with names of their own.
        **parameters: The operation's parameters besides its component.

    Raises:
        InvalidArgumentError: The argument is not a tensor of a function.
    """
    tensor = convert_to_tensor(argument) if isinstance(argument, list) else argument
    if not isinstance(tensor, Tensor) or tensor._scope is None:
        raise InvalidArgumentError(f"{operation}: expected a tensor of a function of a dataset, as Dataset.map calls it, found {argument!r}")
    described, path = tensor._scope.call(operation, tensor, parameters, makes_components=makes_components)
    return symbolic(described, path, tensor._scope)
