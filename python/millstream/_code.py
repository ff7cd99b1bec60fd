"""Packs Python code for workers. Code is pickled by value, or named as ``module:function``, and has a header with its requirements.

Code that runs only in this process is not pickled. If code is too large for a definition, workers on this host read it from a file in memory.

Only definitions of datasets carry code, and only processes whose role may run code on workers can register definitions. The trainer never
unpickles data from a worker.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import importlib
import io
import itertools
import json
import os
import pickletools
import platform
import sys
import types
import uuid
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from ._own_modules import ON_STALE_CODE, check, digests
from .errors import InvalidArgumentError

__all__ = ["FunctionPickler", "Held", "Limits", "Shelf", "captured", "named_modules", "packed", "unpacked"]

#: The size in bytes above which `packed` warns that the code has probably captured data.
_WARN_BYTES = 1 << 20
#: The maximum number of bytes of code in a definition.
_BYTES_MAX = 15 << 20
#: The maximum number of pickle opcodes in which `named_modules` searches for names of modules.
_PARTS_READ = 1 << 16
#: The constant that cloudpickle writes in place of the name of a code's file.
_NO_FILE = "<dynamic-code>"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of the processes in which workers run Python code. A limit of ``None`` uses the default of the worker.

    Attributes:
        deadline_s: The maximum time in seconds for one call, or for one element of an iterable; 300 by default. The worker kills a process
            that exceeds the deadline.
        memory_bytes: The maximum memory in bytes of a process together with the processes that it starts, without shared memory; half of the
            machine's memory by default. The worker kills a process that exceeds this limit, or that has more than 256 processes.
        recycle_after: The number of calls after which the worker replaces a process by a new process; by default a process is never replaced.
        attempts: The maximum number of attempts for an element whose process is killed or crashes; 3 by default.
        processes: The number of processes that read one iterable together; 1 by default. ``torch.utils.data.get_worker_info()`` returns the
            number of each process. Functions run in one process for each concurrent call; for functions this limit only sets the number that
            ``get_worker_info()`` returns.
        on_stale_code: The reaction of a worker whose copy of one of the program's own modules differs from the trainer's copy. ``"refuse"``
            fails, and names the module, its file and both digests. ``"warn"`` continues with the worker's copy. The default is the value of
            ``MILLSTREAM_ON_STALE_CODE``, or ``"refuse"``. Code whose modules have changed runs in new processes.
    """

    deadline_s: float | None = None
    memory_bytes: int | None = None
    recycle_after: int | None = None
    attempts: int | None = None
    processes: int | None = None
    on_stale_code: str | None = None

    def __post_init__(self) -> None:
        if self.on_stale_code not in (None, *ON_STALE_CODE):
            raise InvalidArgumentError(f"on_stale_code={self.on_stale_code!r}: use one of {', '.join(ON_STALE_CODE)}")
        wrong = [name for name, value in self.said().items() if value < 0 or (name in ("deadline_s", "attempts") and value == 0)]
        if wrong:
            raise InvalidArgumentError(f"{', '.join(wrong)}: must be above 0")

    def said(self) -> dict[str, float]:
        """Returns the limits that are set, by name."""
        limits = dataclasses.asdict(self)
        del limits["on_stale_code"]
        return {name: value for name, value in limits.items() if value is not None}

    def stale_code(self) -> str:
        """Returns the reaction to modules that differ: ``on_stale_code``, or the value of ``MILLSTREAM_ON_STALE_CODE``."""
        said = self.on_stale_code or os.environ.get("MILLSTREAM_ON_STALE_CODE") or ON_STALE_CODE[0]
        if said not in ON_STALE_CODE:
            raise InvalidArgumentError(f"MILLSTREAM_ON_STALE_CODE={said!r}: use one of {', '.join(ON_STALE_CODE)}")
        return said


class Shelf:
    """Files in memory for code that is too large for a definition.

    Workers on this host read the files from this process, until this object is closed or dropped. The files disappear with the process.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        self.close = weakref.finalize(self, _closed, self._files)

    def put(self, payload: bytes) -> str:
        """Stores code in a new file, and returns the path at which a worker can read the file."""
        file = os.memfd_create("millstream-shelf")
        self._files.append(file)
        left = memoryview(payload)
        while left:
            left = left[os.write(file, left) :]
        return f"/proc/{os.getpid()}/fd/{file}"


def _closed(files: list[int]) -> None:
    while files:
        os.close(files.pop())


#: The functions of `Held`, by their keys.
_HELD: dict[str, Callable[..., Any]] = {}


class Held:
    """A function that runs only in this process, and is not pickled. The function is available as long as this object exists."""

    def __init__(self, called: Callable[..., Any]) -> None:
        key = uuid.uuid4().hex
        _HELD[key] = called
        weakref.finalize(self, _HELD.pop, key, None)
        #: The code that refers to the function in a definition.
        self.code = json.dumps({**_this_python(), "held": key}).encode() + b"\n"


def _this_python() -> dict[str, str]:
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "implementation": sys.implementation.name,
        "cloudpickle": cloudpickle.__version__,
        "platform": platform.machine(),
    }


def packed(
    value: Callable[..., Any] | str,
    *arguments: Any,
    limits: Limits | None = None,
    shelf: Shelf | None = None,
    seeded: bool = False,
    warns: bool = True,
    name: str | None = None,
) -> bytes:
    """Packs a function together with its first arguments. The function may be the name ``module:function`` of a function on the workers.

    Large code goes to the ``shelf``, if there is one; otherwise a warning follows, if ``warns``. A ``seeded`` function draws by a seed of its
    own, and is told its pass. Messages show the ``name``.

    Raises:
        InvalidArgumentError: The function cannot be pickled, or is too large.
    """
    named = value if isinstance(value, str) else None
    shown = name or repr(value)
    try:
        payload = _pickled((value, arguments), None if shelf is not None else _BYTES_MAX)
    except _TooLargeError:
        raise InvalidArgumentError(
            f"{shown} takes more than the {_BYTES_MAX} bytes that can be sent: it has captured data. Have a function read it on the "
            "workers ('module:function', or one that is called there), or use workers of this host, which may read it from this "
            "process: the service that ms.local returns, or ms.DataLoader(num_workers=...)"
        ) from None
    except Exception as error:
        raise InvalidArgumentError(
            f"{shown} cannot be sent to workers: {type(error).__name__}: {error}. Make the objects that it refers to picklable, create the "
            "objects in a function on the worker, or name a function that workers can import: 'module:function'"
        ) from error
    is_large = len(payload) > _WARN_BYTES
    if shelf is None and warns:
        captured(shown, len(payload), 4)
    limits = limits or Limits()
    modules = named_modules(payload) if named is None else [named.partition(":")[0]]
    header: dict[str, Any] = {
        **_this_python(),
        "named": named,
        "modules": modules,
        # Workers import a named function from their own modules, so no digests are compared.
        "own": digests(modules) if named is None else {},
        "on_stale_code": limits.stale_code(),
        "limits": limits.said(),
        "seeded": seeded,
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    if is_large and shelf is not None:
        header["file"], payload = shelf.put(payload), b""
    return json.dumps(header).encode() + b"\n" + payload


class _TooLargeError(Exception):
    """The code has more bytes than a definition may have."""


class _Bytes(io.BytesIO):
    """Memory that refuses more than a number of bytes."""

    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any) -> int:
        if self._limit is not None and self.tell() + memoryview(data).nbytes > self._limit:
            raise _TooLargeError
        return super().write(data)


def _pickled(value: Any, limit: int | None) -> bytes:
    with _Bytes(limit) as file:
        FunctionPickler(file).dump(value)
        return file.getvalue()


def _code_with_file(code: types.CodeType) -> Any:
    """Pickles code as cloudpickle does, but with the name of its file, so that a traceback of a worker shows the user's line.

    Version 3.1.3 of cloudpickle writes a constant in place of the name.
    """
    construct, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return construct, tuple(code.co_filename if argument == _NO_FILE else argument for argument in arguments)


class FunctionPickler(cloudpickle.Pickler):  # type: ignore[misc]  # The package has no types.
    """The pickler of functions."""

    dispatch_table = collections.ChainMap({types.CodeType: _code_with_file}, cloudpickle.Pickler.dispatch_table)


def captured(name: str, size: int, depth: int = 3) -> None:
    """Warns about code that is so large that it has most likely captured data."""
    if size > _WARN_BYTES:
        warnings.warn(f"{name} takes {size} bytes: has it captured data?", stacklevel=depth)


def named_modules(payload: bytes) -> list[str]:
    """Returns the imported modules whose names occur in the code, because a worker probably imports these modules."""
    own = __name__.partition(".")[0]
    parts = itertools.islice(pickletools.genops(payload), _PARTS_READ)
    texts = {argument for _, argument, _ in parts if isinstance(argument, str)}
    return sorted(name for name in texts if name in sys.modules and name.partition(".")[0] not in ("__main__", own))


def unpacked(code: bytes) -> Callable[..., Any]:
    """Returns the packed function, with its first arguments bound. The caller of the function passes the remaining arguments.

    Raises:
        RuntimeError: Another version of Python packed the code, the code is damaged, or one of its modules differs in this process.
    """
    head, _, payload = code.partition(b"\n")
    header, here = json.loads(head), _this_python()
    if "held" in header:
        try:
            return _HELD[header["held"]]
        except KeyError:
            raise RuntimeError("the code belongs to a loader of another process, or to a loader that was closed: create the dataset again") from None
    if "file" in header:
        try:
            payload = Path(header["file"]).read_bytes()
        except OSError as error:
            raise RuntimeError(f"the code cannot be read from the program that created it: {error}: run the worker on the same host") from error
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise RuntimeError("the code is not what was sent: expected another SHA-256")
    for name in ("python", "implementation"):
        if header[name] != here[name]:
            raise RuntimeError(
                f"the trainer runs {header['implementation']} {header['python']}, this worker {here['implementation']} "
                f"{here['python']}: pickled code needs the same version on both"
            )
    check(header.get("own", {}), header.get("on_stale_code", ""))
    value, arguments = cloudpickle.loads(payload)
    if isinstance(value, str):
        module, _, name = value.partition(":")
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    called: Callable[..., Any] = functools.partial(value, *arguments) if arguments else value
    return called
