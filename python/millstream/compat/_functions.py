"""Functions of tensors with TensorFlow's signatures, made from short descriptions.

Owns signatures, docstrings and the immediate evaluation of functions whose operands have values. Refuses to know the computations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._dataset import Dataset
from .._millstream import Graph
from .._structure import leaf
from .._tensor import Tensor, alike

__all__ = ["checked", "constant_value", "finished", "is_symbolic", "operand", "operands", "traced"]

#: Explanations of parameters that many functions share.
_PARAMETERS = {
    "axis": "The axis or axes; all by default.",
    "clip_value_max": "The largest value.",
    "clip_value_min": "The least value.",
    "condition": "Booleans.",
    "default_value": "The value of other keys.",
    "dtype": "The dtype of the result.",
    "input": "A tensor.",
    "input_tensor": "A tensor.",
    "inputs": "A sequence of tensors.",
    "keepdims": "Whether the axes stay, with one item.",
    "layout": "Accepted as in TensorFlow; has no effect.",
    "message": "The text of the error.",
    "name": "Accepted as in TensorFlow; has no effect.",
    "out_type": "The dtype of the result.",
    "output_type": "The dtype of the result.",
    "pattern": "A regular expression.",
    "shape": "The sizes of the dimensions.",
    "tensor": "A tensor.",
    "unit": "``BYTE`` or ``UTF8_CHAR``.",
    "values": "A sequence of tensors.",
    "x": "A tensor.",
    "y": "A tensor of the same dtype.",
}


def is_symbolic(*values: Any) -> bool:
    """Returns whether a structure holds a tensor of a function, which has no value yet."""
    for value in values:
        if isinstance(value, Tensor):
            return True
        parts = list(value.values()) if isinstance(value, dict) else value
        if isinstance(value, dict | list | tuple) and is_symbolic(*parts):
            return True
    return False


def constant_value(value: Any) -> Any:
    """Returns a value as an array; numbers of Python become 32 bits wide, as in TensorFlow."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    code, dims, items = leaf(value)
    if isinstance(items, list):
        return np.array([item if code == "bytes" else item.decode() for item in items], object).reshape(dims)
    from .._dtypes import as_dtype

    return np.frombuffer(items, as_dtype(code).as_numpy_dtype).reshape(dims)


def operands(*values: Any) -> list[Any]:
    """Returns the operands of one function.

    A number of Python stays as it is beside a tensor or an array, and takes the dtype of it. Without one, it becomes 32 bits wide.
    Arrays and lists beside a tensor take its dtype, unless they lose their value.
    """
    values = tuple(alike(*values))
    has_dtype = any(isinstance(value, Tensor | np.ndarray | np.generic) for value in values)
    return [value if isinstance(value, Tensor) or (has_dtype and _is_number(value)) else constant_value(value) for value in values]


def operand(value: Any) -> Any:
    """Returns the only operand of a function."""
    return operands(value)[0] if not is_symbolic(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def checked(tensor: Tensor, holds: Tensor, message: str) -> Tensor:
    """Returns a tensor whose computation fails, with a text, where a condition does not hold.

    No operation of expressions fails with a given text, so that the text is parsed as a number.
    """
    number = ops.strings_to_number(ops.where(holds, "0", message), "int64")
    return ops.where(number == np.int64(0), tensor, tensor)


def finished(result: Any) -> Any:
    """Returns a result: a tensor that depends on no element is replaced by its value."""
    if isinstance(result, dict):
        return {key: finished(item) for key, item in result.items()}
    if isinstance(result, tuple | list):
        return type(result)(finished(item) for item in result)
    if not isinstance(result, Tensor) or result._scope is not None:
        return result
    once = Graph.source("range", start=0, stop=1, step=1)
    return Dataset(once.map_expr(result._expr)).get_single_element()


def traced(
    name: str,
    signature: str,
    compute: Callable[..., Any],
    meaning: str,
    example: str = "",
    *,
    tensors: Sequence[str] = ("x",),
    parameters: dict[str, str] | None = None,
) -> Any:
    """Makes a function with a signature of TensorFlow.

    Args:
        name: The name of the function as a program writes it.
        signature: The parameters with their defaults, as Python writes them.
        compute: The computation; takes the parameters by position, without ``name``.
        meaning: The first sentence of the docstring.
        example: A doctest, with ``tf`` for ``millstream.compat``.
        tensors: The parameters that are operands.
        parameters: Explanations of parameters of this function.

    Returns:
        The function. Its result has a value where all its operands have one.
    """
    described = inspect.signature(eval(f"lambda {signature}: None"))

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = described.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {key: value for key, value in bound.arguments.items() if key != "name"}
        converted = operands(*(given[key] for key in tensors))
        given.update(zip(tensors, converted, strict=True))
        return finished(compute(*given.values()))

    short = name.rpartition(".")[2]
    function.__name__ = short
    function.__qualname__ = short
    function.__signature__ = described  # type: ignore[attr-defined]
    explained = {**_PARAMETERS, **(parameters or {})}
    lines = [meaning, "", "Args:", *(f"    {key}: {explained[key]}" for key in described.parameters)]
    lines += ["", "Returns:", "    The new tensor."]
    if example:
        lines += ["", "Example:", *(f"    {line}" for line in example.strip().splitlines())]
    function.__doc__ = "\n".join(lines)
    return function
