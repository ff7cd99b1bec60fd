"""Errors of a service within TensorFlow's graphs, with the codes that they have.

What Python raises in a graph is ``tf.errors.UnknownError`` to who runs it, whatever it was. So what is iterated over only ends, and an
operation behind it fails with the code of what ended it. The operation has no outputs and is registered by TensorFlow's interface
for kernels in C (``tensorflow/c/kernels.h``), which can fail with any code. Refuses to know what is iterated over.
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
#: What failed, by the number of its iteration, from its end until the operation has said so, which is next.
_FAILED: dict[int, tuple[int, str]] = {}
_NUMBERS = itertools.count(1)
#: How long an element is waited for before TensorFlow is asked whether it is still wanted.
_PATIENCE_S = 0.05


def dataset_of(elements: Callable[[], Iterable[Any]], signature: tuple[Any, ...], packed: Callable[..., Any]) -> Any:
    """Returns a ``tf.data.Dataset`` of an iteration's tuples of tensors of the ``signature``, which ``packed`` turns into elements.

    It fails with the code of the error that the iteration raises. A wait holds a thread of the dataset's own and none of TensorFlow's. The wait
    is resumed after ``_PATIENCE_S``, so that TensorFlow can notice that the element is not wanted any more.
    """
    import tensorflow as tf

    # An element that has not come has no items, whatever it will have.
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
        # Nothing passes the filter: what stands behind it is there for its type.
        return tf.data.Dataset.from_tensors(number).filter(_fails).flat_map(iteration)

    def numbered(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda: next(_NUMBERS), [], tf.int64), ())

    iterations = tf.data.Dataset.from_tensors(0).map(numbered)
    return _apart(iterations.flat_map(lambda number: iteration(number).concatenate(failure(number))))


def _polled(elements: Iterable[Any], absent: tuple[Any, ...]) -> Iterator[Any]:
    """The elements, each marked as come, and what is ``absent`` as often as none came in time."""
    iterator: Any = iter(elements)
    try:
        while True:
            found = iterator.within(_PATIENCE_S, absent)
            yield absent if found is absent else (True, *found)
    except StopIteration:
        return
    finally:
        # A thread that waits for it is told at once, too.
        iterator.close()


def _nothing(spec: Any) -> Any:
    """A tensor without items, if its rank allows that."""
    import tensorflow as tf

    dims = (0,) * (1 if spec.shape.rank is None else spec.shape.rank)
    return np.full(dims, b"", object) if spec.dtype == tf.string else np.zeros(dims, spec.dtype.as_numpy_dtype)


def _apart(dataset: Any) -> Any:
    """The dataset with a thread of its own, on which its functions are called."""
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
    """The code that an error had where TensorFlow raised it; else the one whose name it has."""
    import tensorflow as tf

    if isinstance(error.__cause__, tf.errors.OpError):
        code = int(error.__cause__.error_code)
    else:
        kind = getattr(tf.errors, type(error).__name__, tf.errors.UnknownError)
        code = int(kind(None, None, "").error_code)
    # To be out of range is to be at the end, which an error is not.
    return int(tf.errors.INVALID_ARGUMENT) if code == tf.errors.OUT_OF_RANGE else code


def _said(error: MillstreamError) -> str:
    """What TensorFlow said on the worker, without how it got there; else all that there is to say."""
    import tensorflow as tf

    if not isinstance(error.__cause__, tf.errors.OpError):
        return str(error)
    parts = [error.__cause__.message, f"record: {error.origin}" if error.origin else ""]
    return f"worker {error.worker}: {'; '.join(filter(None, parts))}"


def _fails(number: Any) -> Any:
    """Whether an iteration has failed: never, since the operation fails then."""
    import tensorflow as tf

    # Within what a dataset calls there is always a graph.
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
    """The functions of TensorFlow's interface in C; ``None`` where it has none of them."""
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
    """The operation: fails if the iteration has."""
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
    """Of no outputs."""


# TensorFlow calls them as long as this process lives.
_Callback = ctypes.CFUNCTYPE(None, _Pointer, _Pointer)
_COMPUTE, _INFER_SHAPES = _Callback(_compute), _Callback(_infer_shapes)


@functools.cache
def _is_registered() -> bool:
    """Whether there is the operation, which is registered once."""
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
