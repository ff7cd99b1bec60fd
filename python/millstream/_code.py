"""Python code on its way to workers: pickled by value, or named as ``module:function``, with a header that lists its needs.

Code that runs in this process alone is not pickled. Workers of this host read code that is too large for a definition from a file in memory.

Only definitions of datasets carry it, which none may register who may not run code on workers. Nothing that comes from a worker is
ever unpickled.
"""

from __future__ import annotations

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
import uuid
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from ._own_modules import ON_STALE_CODE, check, digests
from .errors import InvalidArgumentError

__all__ = ["Held", "Limits", "Shelf", "captured", "packed", "this_python", "unpacked"]

#: Code of more bytes has most likely captured data.
_WARN_BYTES = 1 << 20
#: A definition may have so many.
_BYTES_MAX = 15 << 20
#: Parts of pickled code in which names of modules are looked for.
_PARTS_READ = 1 << 16


@dataclasses.dataclass(frozen=True)
class Limits:
    """What limits the processes in which workers run Python's code. What is ``None`` is as the workers have it.

    Attributes:
        deadline_s: Seconds that one call, or one element of an iterable, may take: 300. Its process is ended then.
        memory_bytes: Bytes that one process, with those that it starts, may have in memory besides what it shares: half of what the
            machine has. Ended too, and so is one with more than 256 processes.
        recycle_after: Calls after which a process is replaced by a fresh one: never.
        attempts: How often an element is begun at most, if its process is killed or crashes: 3 times.
        processes: Processes that read one iterable together, each of which is told its number by
            ``torch.utils.data.get_worker_info()``: 1. For functions it is what that says; there are as many as calls at once.
        on_stale_code: What a worker does when one of the program's own modules, which code names and workers import, is another there than
            in the trainer: ``"refuse"`` fails and names the module, its file and both digests; ``"warn"`` goes on with the worker's. By
            default what ``MILLSTREAM_ON_STALE_CODE`` says, else ``"refuse"``. Code whose modules changed gets processes that import them.
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
        """Returns the treatment of modules that differ: the given one, else that of the environment."""
        said = self.on_stale_code or os.environ.get("MILLSTREAM_ON_STALE_CODE") or ON_STALE_CODE[0]
        if said not in ON_STALE_CODE:
            raise InvalidArgumentError(f"MILLSTREAM_ON_STALE_CODE={said!r}: use one of {', '.join(ON_STALE_CODE)}")
        return said


class Shelf:
    """Files in memory with code that is too large for a definition.

    Workers of this host read them from this process, until this object is closed or dropped. The files end with the process.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        self.close = weakref.finalize(self, _closed, self._files)

    def put(self, payload: bytes) -> str:
        """Where a worker finds it."""
        file = os.memfd_create("millstream-shelf")
        self._files.append(file)
        left = memoryview(payload)
        while left:
            left = left[os.write(file, left) :]
        return f"/proc/{os.getpid()}/fd/{file}"


def _closed(files: list[int]) -> None:
    while files:
        os.close(files.pop())


#: What is run in this process alone.
_HELD: dict[str, Callable[..., Any]] = {}


class Held:
    """A function for this process alone, which is called as it is: nothing it holds is copied. Known as long as this lives."""

    def __init__(self, called: Callable[..., Any]) -> None:
        key = uuid.uuid4().hex
        _HELD[key] = called
        weakref.finalize(self, _HELD.pop, key, None)
        #: What stands for it in a definition.
        self.code = json.dumps({**this_python(), "held": key}).encode() + b"\n"


def this_python() -> dict[str, str]:
    """Returns what the header of code says of the interpreter that packed the code."""
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
    """Packs a function, or the name ``module:function`` of one that workers have, with its first arguments.

    Large code goes to the ``shelf``, if there is one; otherwise a warning follows, if ``warns``. A ``seeded`` function draws by a seed of its
    own, and is told its pass. Messages show the ``name``.

    Raises:
        InvalidArgumentError: It cannot be pickled, or is too large.
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
            f"{shown} cannot be sent to workers: {type(error).__name__}: {error}. Make what it holds picklable, have a "
            "function make it there, or name a function that workers have: 'module:function'"
        ) from error
    is_large = len(payload) > _WARN_BYTES
    if shelf is None and warns:
        captured(shown, len(payload), 4)
    limits = limits or Limits()
    modules = _named_modules(payload) if named is None else [named.partition(":")[0]]
    header: dict[str, Any] = {
        **this_python(),
        "named": named,
        "modules": modules,
        # A function that is only named is the workers' own.
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
        cloudpickle.Pickler(file).dump(value)
        return file.getvalue()


def captured(name: str, size: int, depth: int = 3) -> None:
    """Warns about code that is so large that it has most likely captured data."""
    if size > _WARN_BYTES:
        warnings.warn(f"{name} takes {size} bytes: has it captured data?", stacklevel=depth)


def _named_modules(payload: bytes) -> list[str]:
    """The modules whose names stand in the code, of those that are imported here: what it is likely to import there."""
    own = __name__.partition(".")[0]
    parts = itertools.islice(pickletools.genops(payload), _PARTS_READ)
    texts = {argument for _, argument, _ in parts if isinstance(argument, str)}
    return sorted(name for name in texts if name in sys.modules and name.partition(".")[0] not in ("__main__", own))


def unpacked(code: bytes) -> Callable[..., Any]:
    """What was packed, as a function of what it is called with besides.

    Raises:
        RuntimeError: It was packed by another Python, does not come whole, or was written for another version of a module here.
    """
    head, _, payload = code.partition(b"\n")
    header, here = json.loads(head), this_python()
    if "held" in header:
        try:
            return _HELD[header["held"]]
        except KeyError:
            raise RuntimeError("the code is that of a loader of another process, or of one that is no more") from None
    if "file" in header:
        try:
            payload = Path(header["file"]).read_bytes()
        except OSError as error:
            raise RuntimeError(f"the code cannot be read from the program that made it: {error}") from error
    if hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise RuntimeError("the code is not what was sent")
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
