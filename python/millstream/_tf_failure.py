"""Raises the errors of a service in TensorFlow's graphs, with their own error codes.

TensorFlow converts every exception of Python code in a graph to ``tf.errors.UnknownError``. A failed iteration therefore ends without an exception,
and a following operation fails with the right code. A kernel of TensorFlow's C interface (``tensorflow/c/kernels.h``) can fail with any code. But
TensorFlow replaces ``UNAVAILABLE`` by ``INTERNAL``, except for operations that communicate. So the kernel implements one of these under a label.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from .errors import MillstreamError

__all__ = ["code_of", "failure_of", "is_failure", "is_registered", "next_number", "record"]

#: The operation that the kernel implements: it communicates, takes three tensors of int32, and returns two.
_OPERATION, _INT32, _OUTPUTS = "CollectiveAssignGroupV2", 3, 2

#: The name of the operation in messages, and the label by which TensorFlow finds the kernel.
_NAME, _LABEL = "MillstreamFailure", b"millstream"
#: The code and the message of each failed iteration, by its number, until the following operation reports the failure.
_FAILED: dict[int, tuple[int, str]] = {}
_NUMBERS = itertools.count(1)


def next_number() -> Any:
    """Returns the number of a new iteration, as TensorFlow calls it."""
    return np.int32(next(_NUMBERS))


def record(number: int, error: MillstreamError) -> None:
    """Stores the failure of an iteration, which the operation after the iteration reports."""
    _FAILED[number] = (code_of(error), _said(error))


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


def failure_of(number: Any) -> Any:
    """Returns a tensor that is always false. The operation before the tensor fails if the iteration has failed."""
    import tensorflow as tf

    inputs = [tf.zeros((1, 1), tf.int32), tf.constant(0, tf.int32), number]
    label = {"_kernel": tf.compat.v1.AttrValue(s=_LABEL)}
    # A function of a dataset always has a default graph.
    operation = tf.compat.v1.get_default_graph().create_op(_OPERATION, inputs, [tf.int32] * _OUTPUTS, name=_NAME, attrs=label)
    with tf.control_dependencies([operation]):
        return tf.constant(False)


def is_failure(node: Any) -> bool:
    """Returns whether a node of a graph is the operation, so that the graph reads a service."""
    return node.op == _OPERATION and "_kernel" in node.attr and node.attr["_kernel"].s == _LABEL


_Pointer = ctypes.c_void_p
_INTERFACE: dict[str, tuple[Any, list[Any]]] = {
    "TF_NewStatus": (_Pointer, []),
    "TF_SetStatus": (None, [_Pointer, ctypes.c_int, ctypes.c_char_p]),
    "TF_GetCode": (ctypes.c_int, [_Pointer]),
    "TF_DeleteStatus": (None, [_Pointer]),
    "TF_NewKernelBuilder": (_Pointer, [ctypes.c_char_p, ctypes.c_char_p, _Pointer, _Pointer, _Pointer]),
    "TF_KernelBuilder_Label": (None, [_Pointer, ctypes.c_char_p]),
    "TF_RegisterKernelBuilder": (None, [ctypes.c_char_p, _Pointer, _Pointer]),
    "TF_GetInput": (None, [_Pointer, ctypes.c_int, ctypes.POINTER(_Pointer), _Pointer]),
    "TF_TensorData": (_Pointer, [_Pointer]),
    "TF_AllocateOutput": (_Pointer, [_Pointer, ctypes.c_int, ctypes.c_int, _Pointer, ctypes.c_int, ctypes.c_size_t, _Pointer]),
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
    interface.TF_GetInput(context, 2, ctypes.byref(tensor), status)
    failed = None
    if interface.TF_GetCode(status) == 0:
        number = ctypes.cast(interface.TF_TensorData(tensor), ctypes.POINTER(ctypes.c_int32)).contents.value
        interface.TF_DeleteTensor(tensor)
        failed = _FAILED.pop(number, None)
    if failed is not None:
        code, message = failed
        interface.TF_SetStatus(status, code, message.encode(errors="replace").replace(b"\0", b" "))
    for output in range(_OUTPUTS):
        if interface.TF_GetCode(status) == 0:
            interface.TF_DeleteTensor(interface.TF_AllocateOutput(context, output, _INT32, None, 0, 4, status))
    if interface.TF_GetCode(status) != 0:
        interface.TF_OpKernelContext_Failure(context, status)
    interface.TF_DeleteStatus(status)


# TensorFlow calls this callback until this process ends, so the callback must never be collected.
_COMPUTE = ctypes.CFUNCTYPE(None, _Pointer, _Pointer)(_compute)


@functools.cache
def is_registered() -> bool:
    """Registers the kernel once. Returns whether the kernel is available."""
    interface = _interface()
    if interface is None:
        return False
    status = interface.TF_NewStatus()
    try:
        kernel = interface.TF_NewKernelBuilder(_OPERATION.encode(), b"CPU", None, ctypes.cast(_COMPUTE, _Pointer), None)
        interface.TF_KernelBuilder_Label(kernel, _LABEL)
        interface.TF_RegisterKernelBuilder(_NAME.encode(), kernel, status)
        return bool(interface.TF_GetCode(status) == 0)
    finally:
        interface.TF_DeleteStatus(status)
