"""Functions of TensorFlow that call, choose or repeat other functions.

Owns their translation: both branches of a condition are computed, and Python code runs where ``Dataset.map_python`` runs it.
Refuses to know how Python code reaches workers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._dtypes import as_dtype
from .._python_calls import called_python, fitted
from .._tensor import Tensor, convert_to_tensor
from ..errors import UnimplementedError
from ._functions import constant_value, finished, is_symbolic
from ._refusal import refuses
from .nest import flatten, map_structure, pack_sequence_as

__all__ = ["cond", "function", "map_fn", "numpy_function", "print", "py_function", "vectorized_map", "where", "while_loop"]


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    **ignored: Any,
) -> Callable[..., Any]:
    """Returns the function unchanged: nothing is compiled here.

    Args:
        func: The function.
        input_signature: Accepted as in TensorFlow; has no effect.
        autograph: Accepted as in TensorFlow; has no effect: Python's ``if`` and ``for`` cannot depend on an element.
        jit_compile: Accepted as in TensorFlow; has no effect.
        reduce_retracing: Accepted as in TensorFlow; has no effect.
        **ignored: TensorFlow's experimental arguments; they have no effect.

    Example:
        >>> tf.function(lambda x: x + 1)(2)
        3
    """
    return (lambda inner: inner) if func is None else func


def print(*inputs: Any, **kwargs: Any) -> None:
    """Prints arrays as they are, also within tuples. Within a function of a dataset it prints once, when the function is recorded.

    Args:
        *inputs: The values.
        **kwargs: ``output_stream``, ``sep`` and ``end``, as for Python's ``print``; others have no effect.

    Example:
        >>> tf.print(tf.constant([1, 2]), "a")
        [1 2] a
    """
    known = {"sep": kwargs.get("sep", " "), "end": kwargs.get("end", "\n")}
    stream = kwargs.get("output_stream")
    builtins.print(*(_printed(value) for value in inputs), file=stream if hasattr(stream, "write") else None, **known)


def _printed(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_printed, value))})"
    return str(value)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Selects items of ``x`` where the condition holds, else of ``y``.

    Args:
        condition: Booleans.
        x: A tensor.
        y: A tensor of the same dtype.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new tensor; of constants alone without ``x`` and ``y``, the places that hold.

    Raises:
        ValueError: Only one of ``x`` and ``y`` is given.
        UnimplementedError: The places of a tensor of a function are asked for.

    Example:
        >>> tf.where([True, False], 1, 2).tolist()
        [1, 2]
    """
    if (x is None) != (y is None):
        raise ValueError("where: expected both x and y or neither, found one of them")
    if x is None:
        if is_symbolic(condition):
            raise UnimplementedError("tf.where: how many places hold is known only when there is an element: use Dataset.map_python")
        return np.argwhere(np.asarray(condition)).astype(np.int64)
    if is_symbolic(x, y):
        return ops.where(condition, x, y)
    if is_symbolic(condition):
        # Two plain numbers have no other dtype than their own, which is of 32 bits.
        return ops.where(condition, constant_value(x), constant_value(y))
    return finished(ops.where(np.asarray(condition), constant_value(x), constant_value(y)))


def cond(pred: Any, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None, name: str | None = None) -> Any:
    """Selects the result of one of two functions.

    A condition that is known calls one function. A condition that depends on the element calls both, computes both results for every
    element, and selects one: so both must succeed, and have the same structure, dtypes and shapes.

    Args:
        pred: A Boolean scalar.
        true_fn: The function for a true condition.
        false_fn: The function for a false condition.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The result.

    Raises:
        TypeError: A function is missing.
        ValueError: The results are nested otherwise.

    Example:
        >>> double_odd = lambda x: tf.cond(x % 2 == 1, lambda: x * 2, lambda: x)
        >>> [int(x) for x in tf.data.Dataset.range(4).map(double_odd)]
        [0, 2, 2, 6]
    """
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError(f"cond: expected functions as true_fn and false_fn, found {true_fn!r} and {false_fn!r}")
    if not is_symbolic(pred):
        return true_fn() if bool(np.asarray(pred)) else false_fn()
    return map_structure(lambda one, other: ops.where(pred, one, other), true_fn(), false_fn())


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Applies a function to each item along the leading axis, whose length must be known.

    Args:
        fn: A function of one item of each tensor.
        elems: Tensors of one leading length, nested.
        dtype: Accepted as in TensorFlow; has no effect.
        parallel_iterations: Accepted as in TensorFlow; has no effect.
        back_prop: Accepted as in TensorFlow; has no effect.
        swap_memory: Accepted as in TensorFlow; has no effect.
        infer_shape: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.
        fn_output_signature: Accepted as in TensorFlow; has no effect.

    Returns:
        The stacked results.

    Raises:
        UnimplementedError: The length is known only when there is an element.

    Example:
        >>> tf.map_fn(lambda x: x * x, [1, 2, 3]).tolist()
        [1, 4, 9]
    """
    tensors = elems
    if not is_symbolic(elems):
        tensors = constant_value(elems) if isinstance(elems, list) else map_structure(constant_value, elems)
    leaves = flatten(tensors)
    lengths = {_leading(leaf) for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise UnimplementedError(
            f"tf.map_fn: expected one known leading length, found {lengths}: compute with whole tensors, or use Dataset.map_python"
        )
    count = int(lengths.pop() or 0)
    made = [fn(pack_sequence_as(tensors, [leaf[index] for leaf in leaves])) for index in builtins.range(count)]
    if not made:
        raise UnimplementedError("tf.map_fn: expected at least one item, found none")
    return map_structure(lambda *items: _stacked(list(items)), *made)


def _leading(leaf: Any) -> int | None:
    shape = leaf.shape
    return None if shape is None or not len(shape) else shape[0]


def _stacked(items: list[Any]) -> Any:
    return ops.stack(items) if is_symbolic(items) else np.stack([np.asarray(constant_value(item)) for item in items])


def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Applies a function to each item along the leading axis, as ``tf.map_fn`` does.

    Args:
        fn: A function of one item of each tensor.
        elems: Tensors of one leading length, nested.
        fallback_to_while_loop: Accepted as in TensorFlow; has no effect.
        warn: Accepted as in TensorFlow; has no effect.

    Returns:
        The stacked results.

    Example:
        >>> tf.vectorized_map(lambda x: x + 1, [1, 2]).tolist()
        [2, 3]
    """
    return map_fn(fn, elems)


class _WithNumpy(np.ndarray[Any, Any]):
    """An array with the method by which programs get the array of an eager tensor."""

    def numpy(self) -> Any:
        return np.asarray(self)[()]


def _as_eager(func: Callable[..., Any], *arguments: Any) -> Any:
    """Runs where the pipeline does: calls a function with arrays that have ``numpy()``."""
    given = [np.asarray(argument, object if isinstance(argument, str | bytes) else None).view(_WithNumpy) for argument in arguments]
    made = func(*given)
    plain = [np.asarray(item)[()] if isinstance(item, _WithNumpy) else item for item in (made if isinstance(made, tuple | list) else [made])]
    return plain if isinstance(made, tuple | list) else plain[0]


def numpy_function(
    func: Callable[..., Any] | None = None, inp: Sequence[Any] | None = None, Tout: Any = None, stateful: bool = True, name: str | None = None
) -> Any:
    """Calls a Python function with arrays, in the middle of a function of a dataset.

    On workers the function runs in a Python process, as ``Dataset.map_python`` runs it; the element travels to the process and back.

    Args:
        func: A function of arrays. Without it, a decorator is returned.
        inp: The arguments, of which one at least is a tensor of the element.
        Tout: The dtype of the result, or a sequence of dtypes.
        stateful: Accepted as in TensorFlow; has no effect.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The result, of unknown shape, or a list of results.

    Raises:
        ValueError: ``Tout`` is missing.

    Example:
        >>> numbers = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(lambda v: v * 10, [x], tf.int64) + 1)
        >>> [int(x) for x in numbers]
        [1, 11, 21]
    """
    return _python(func, inp, Tout, "numpy_function", lambda inner: inner)


def py_function(func: Callable[..., Any] | None = None, inp: Sequence[Any] | None = None, Tout: Any = None, name: str | None = None) -> Any:
    """Calls a Python function with arrays that have ``numpy()``, in the middle of a function of a dataset.

    Args:
        func: A function of arrays. Without it, a decorator is returned.
        inp: The arguments, of which one at least is a tensor of the element.
        Tout: The dtype of the result, or a sequence of dtypes.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The result, of unknown shape, or a list of results.

    Raises:
        ValueError: ``Tout`` is missing.

    Example:
        >>> numbers = tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda v: v.numpy() * 10, [x], tf.int64))
        >>> [int(x) for x in numbers]
        [0, 10, 20]
    """
    return _python(func, inp, Tout, "py_function", lambda inner: _Eager(inner))


class _Eager:
    """A function that is called with arrays that have ``numpy()``."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, *arguments: Any) -> Any:
        return _as_eager(self.func, *arguments)


def _python(func: Any, inp: Any, tout: Any, name: str, prepared: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    if tout is None:
        raise ValueError(f"{name}: expected the dtype of the results as Tout, found none")
    if func is None:
        return lambda inner: lambda *arguments: _python(inner, arguments, tout, name, prepared)
    is_several = isinstance(tout, list | tuple)
    dtypes = list(tout) if is_several else [tout]
    if not dtypes:
        raise UnimplementedError(f"tf.{name}: expected at least one result, found none: a call without results would never run")
    given = list(inp or ())
    if not is_symbolic(given):
        made = prepared(func)(*(constant_value(value) for value in given))
        results = [fitted(item, as_dtype(dtype)) for item, dtype in zip(made if is_several else [made], dtypes, strict=True)]
    else:
        results = called_python(prepared(func), [value if isinstance(value, Tensor) else convert_to_tensor(constant_value(value)) for value in given], dtypes)
    return results if is_several else results[0]


@refuses("tf.while_loop", "native functions have no loops whose length depends on an element: use tf.map_fn, Dataset.scan or Dataset.map_python")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: int | None = None,
    name: str | None = None,
) -> Any:
    """Is refused: native functions have no loops.

    Args:
        cond: The condition.
        body: The body.
        loop_vars: The variables.
        shape_invariants: The shapes of the variables.
        parallel_iterations: Iterations at a time.
        back_prop: Accepted as in TensorFlow.
        swap_memory: Accepted as in TensorFlow.
        maximum_iterations: The largest number of iterations.
        name: Accepted as in TensorFlow.

    Returns:
        Nothing: it raises ``UnimplementedError``.
    """
