"""Raises the errors of a service in TensorFlow's graphs, with their own error codes.

TensorFlow converts every exception of Python code in a graph to ``tf.errors.UnknownError``. A failed iteration therefore ends without an exception,
and a following operation fails with the right code. The operation has no outputs. TensorFlow's C interface for kernels
(``tensorflow/c/kernels.h``), which can fail with any code, registers the operation.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .errors import MillstreamError

__all__ = ["code_of", "dataset_of"]

_OPERATION = b"MillstreamFailure"
#: The code and the message of each failed iteration, by its number, until the following operation reports the failure.
_FAILED: dict[int, tuple[int, str]] = {}
_NUMBERS = itertools.count(1)
#: The seconds of one wait for an element. After each wait TensorFlow can cancel the iteration.
_PATIENCE_S = 0.05


def dataset_of(elements: Callable[[], Iterable[Any]], signature: tuple[Any, ...], packed: Callable[..., Any]) -> Any:
    """Returns a ``tf.data.Dataset`` of the elements of an iteration.

    The iteration yields tuples of tensors with the ``signature``, and ``packed`` converts these tuples to elements. The dataset fails with the code
    of the iteration's error. A wait occupies a separate thread of the dataset, and no thread of TensorFlow. Each wait ends after ``_PATIENCE_S`` and
    is repeated, so that TensorFlow can cancel the iteration.
    """
    import tensorflow as tf

    # The placeholder for an absent element has no items, so the spec allows any size.
    loose = tuple(tf.TensorSpec(None if part.shape.rank is None else [None] * part.shape.rank, part.dtype) for part in signature)
    absent = (False, *(_nothing(part) for part in loose))
    flat = (tf.TensorSpec((), tf.bool), *loose)

    def shaped(_: Any, *parts: Any) -> Any:
        for part, spec in zip(parts, signature, strict=True):
            part.set_shape(spec.shape)
        return packed(*parts)

    def iterated(make: Callable[..., Iterator[Any]], *args: Any) -> Any:
        found = tf.data.Dataset.from_generator(make, args=args, output_signature=flat)
        return found.filter(lambda has_come, *_: has_come).map(shaped)

    if not _is_registered():
        return _apart(iterated(lambda: _polled(elements(), absent)))

    def until_failure(number: Any) -> Iterator[Any]:
        try:
            yield from _polled(elements(), absent)
        except MillstreamError as error:
            _FAILED[int(number)] = (code_of(error), _said(error))

    def iteration(number: Any) -> Any:
        return iterated(until_failure, number)

    def failure(number: Any) -> Any:
        # The filter passes no element. `flat_map` only gives the dataset the right element type.
        return tf.data.Dataset.from_tensors(number).filter(_fails).flat_map(iteration)

    def numbered(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda: next(_NUMBERS), [], tf.int64), ())

    iterations = tf.data.Dataset.from_tensors(0).map(numbered)
    return _apart(iterations.flat_map(lambda number: iteration(number).concatenate(failure(number))))


def _polled(elements: Iterable[Any], absent: tuple[Any, ...]) -> Iterator[Any]:
    """Yields the elements, each marked as present. Yields ``absent`` after each wait without an element."""
    iterator: Any = iter(elements)
    try:
        while True:
            found = iterator.within(_PATIENCE_S, absent)
            yield absent if found is absent else (True, *found)
    except StopIteration:
        return
    finally:
        # Closing also ends the wait of a thread in this iterator.
        iterator.close()


def _nothing(spec: Any) -> Any:
    """Returns a tensor without items. A scalar has one item."""
    import tensorflow as tf

    dims = (0,) * (1 if spec.shape.rank is None else spec.shape.rank)
    return np.full(dims, b"", object) if spec.dtype == tf.string else np.zeros(dims, spec.dtype.as_numpy_dtype)


def _apart(dataset: Any) -> Any:
    """Returns the dataset with a separate thread, on which its functions run."""
    import tensorflow as tf

    spec = dataset.element_spec
    components = tf.nest.flatten(spec, expand_composites=True)
    variant = tf.raw_ops.PrivateThreadPoolDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        num_threads=tf.constant(1, tf.int64),
        output_types=[component.dtype for component in components],
        output_shapes=[component.shape for component in components],
    )
    return tf.data.experimental.from_variant(variant, spec)


def code_of(error: MillstreamError) -> int:
    """Returns TensorFlow's code of an error: the code of the original TensorFlow error, or the code of the error's name."""
    import tensorflow as tf

    if isinstance(error.__cause__, tf.errors.OpError):
        code = int(error.__cause__.error_code)
    else:
        kinds = (getattr(tf.errors, base.__name__, None) for base in type(error).__mro__)
        kind = next(filter(None, kinds), tf.errors.UnknownError)
        code = int(kind(None, None, "").error_code)
    # TensorFlow treats OUT_OF_RANGE as the normal end of a dataset, so an error needs another code.
    return int(tf.errors.INVALID_ARGUMENT) if code == tf.errors.OUT_OF_RANGE else code


def _said(error: MillstreamError) -> str:
    """Returns the message of TensorFlow's error on the worker without its traceback, or the whole message of any other error."""
    import tensorflow as tf

    if not isinstance(error.__cause__, tf.errors.OpError):
        return str(error)
    parts = [error.__cause__.message, f"record: {error.origin}" if error.origin else ""]
    return f"worker {error.worker}: {'; '.join(filter(None, parts))}"


def _fails(number: Any) -> Any:
    """Returns a tensor that is always false. The operation before the tensor fails if the iteration has failed."""
    import tensorflow as tf

    # A function of a dataset always has a default graph.
    operation = tf.compat.v1.get_default_graph().create_op(_OPERATION.decode(), [number], [])
    with tf.control_dependencies([operation]):
        return tf.constant(False)


_Pointer = ctypes.c_void_p
_INTERFACE: dict[str, tuple[Any, list[Any]]] = {
    "TF_NewStatus": (_Pointer, []),
    "TF_SetStatus": (None, [_Pointer, ctypes.c_int, ctypes.c_char_p]),
    "TF_GetCode": (ctypes.c_int, [_Pointer]),
    "TF_DeleteStatus": (None, [_Pointer]),
    "TF_NewOpDefinitionBuilder": (_Pointer, [ctypes.c_char_p]),
    "TF_OpDefinitionBuilderAddInput": (None, [_Pointer, ctypes.c_char_p]),
    "TF_OpDefinitionBuilderSetIsStateful": (None, [_Pointer, ctypes.c_bool]),
    "TF_OpDefinitionBuilderSetShapeInferenceFunction": (None, [_Pointer, _Pointer]),
    "TF_RegisterOpDefinition": (None, [_Pointer, _Pointer]),
    "TF_NewKernelBuilder": (_Pointer, [ctypes.c_char_p, ctypes.c_char_p, _Pointer, _Pointer, _Pointer]),
    "TF_RegisterKernelBuilder": (None, [ctypes.c_char_p, _Pointer, _Pointer]),
    "TF_GetInput": (None, [_Pointer, ctypes.c_int, ctypes.POINTER(_Pointer), _Pointer]),
    "TF_TensorData": (_Pointer, [_Pointer]),
    "TF_DeleteTensor": (None, [_Pointer]),
    "TF_OpKernelContext_Failure": (None, [_Pointer, _Pointer]),
}


@functools.cache
def _interface() -> Any:
    """Returns the functions of TensorFlow's C interface; ``None`` if a function is missing."""
    import tensorflow as tf

    try:
        interface = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"))
        for name, (result, arguments) in _INTERFACE.items():
            function = getattr(interface, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, OSError):
        return None
    return interface


def _compute(_kernel: Any, context: Any) -> None:
    """Implements the operation, which fails if the iteration has failed."""
    interface = _interface()
    status, tensor = interface.TF_NewStatus(), _Pointer()
    interface.TF_GetInput(context, 0, ctypes.byref(tensor), status)
    if interface.TF_GetCode(status) == 0:
        number = ctypes.cast(interface.TF_TensorData(tensor), ctypes.POINTER(ctypes.c_int64)).contents.value
        interface.TF_DeleteTensor(tensor)
        failed = _FAILED.pop(number, None)
        if failed is not None:
            code, message = failed
            interface.TF_SetStatus(status, code, message.encode(errors="replace").replace(b"\0", b" "))
    if interface.TF_GetCode(status) != 0:
        interface.TF_OpKernelContext_Failure(context, status)
    interface.TF_DeleteStatus(status)


def _infer_shapes(_context: Any, _status: Any) -> None:
    """Infers no shapes, because the operation has no outputs."""


# TensorFlow calls these callbacks until this process ends, so they must never be collected.
_Callback = ctypes.CFUNCTYPE(None, _Pointer, _Pointer)
_COMPUTE, _INFER_SHAPES = _Callback(_compute), _Callback(_infer_shapes)


@functools.cache
def _is_registered() -> bool:
    """Registers the operation once. Returns whether the operation is available."""
    interface = _interface()
    if interface is None:
        return False
    status = interface.TF_NewStatus()
    try:
        operation = interface.TF_NewOpDefinitionBuilder(_OPERATION)
        interface.TF_OpDefinitionBuilderAddInput(operation, b"iteration: int64")
        interface.TF_OpDefinitionBuilderSetIsStateful(operation, True)
        interface.TF_OpDefinitionBuilderSetShapeInferenceFunction(operation, ctypes.cast(_INFER_SHAPES, _Pointer))
        interface.TF_RegisterOpDefinition(operation, status)
        if interface.TF_GetCode(status) != 0:
            return False
        kernel = interface.TF_NewKernelBuilder(_OPERATION, b"CPU", None, ctypes.cast(_COMPUTE, _Pointer), None)
        interface.TF_RegisterKernelBuilder(_OPERATION, kernel, status)
        return bool(interface.TF_GetCode(status) == 0)
    finally:
        interface.TF_DeleteStatus(status)
