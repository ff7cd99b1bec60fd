"""Code of Python on its way to workers: pickled by value, or named as ``module:function``, with a header that says what it needs.

Only definitions of datasets carry it, which none may register who may not run code on workers. Nothing that comes from a worker is
ever unpickled.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle

from .errors import InvalidArgumentError

__all__ = ["packed", "unpacked"]

#: Code of more bytes has most likely captured data.
_WARN_BYTES = 1 << 20
#: A definition may have so many.
_BYTES_MAX = 15 << 20


def _this_python() -> dict[str, str]:
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "implementation": sys.implementation.name,
        "cloudpickle": cloudpickle.__version__,
        "platform": platform.machine(),
    }


def packed(value: Callable[..., Any] | str, *arguments: Any) -> bytes:
    """A function, or the name ``module:function`` of one that workers have, and what it is called with before anything else.

    Raises:
        InvalidArgumentError: It cannot be pickled, or is too large.
    """
    named = value if isinstance(value, str) else None
    try:
        payload: bytes = cloudpickle.dumps((value, arguments))
    except Exception as error:
        raise InvalidArgumentError(
            f"{value!r} cannot be sent to workers: {type(error).__name__}: {error}. Make what it holds picklable, have a "
            "function make it there, or name a function that workers have: 'module:function'"
        ) from error
    if len(payload) > _BYTES_MAX:
        raise InvalidArgumentError(
            f"{value!r} takes {len(payload)} bytes, at most {_BYTES_MAX} can be sent: it has captured data, which is "
            "better read on the workers"
        )
    if len(payload) > _WARN_BYTES:
        warnings.warn(f"{value!r} takes {len(payload)} bytes: has it captured data?", stacklevel=3)
    header = {**_this_python(), "named": named, "sha256": hashlib.sha256(payload).hexdigest()}
    return json.dumps(header).encode() + b"\n" + payload


def unpacked(code: bytes) -> Callable[..., Any]:
    """What was packed, as a function of what it is called with besides.

    Raises:
        RuntimeError: It was packed by another Python, or does not come whole.
    """
    head, _, payload = code.partition(b"\n")
    header, here = json.loads(head), _this_python()
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise RuntimeError("the code is not what was sent")
    for name in ("python", "implementation"):
        if header[name] != here[name]:
            raise RuntimeError(
                f"the trainer runs {header['implementation']} {header['python']}, this worker {here['implementation']} "
                f"{here['python']}: pickled code needs the same version on both"
            )
    value, arguments = cloudpickle.loads(payload)
    if isinstance(value, str):
        module, _, name = value.partition(":")
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    return lambda *more: value(*arguments, *more)
