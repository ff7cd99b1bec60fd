"""What can go wrong, by kind: the names are those of ``tf.errors``, and each is also what Python itself would raise."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "AbortedError",
    "CancelledError",
    "DataLossError",
    "DataLossWarning",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "LostSplits",
    "MillstreamError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
    "UserFunctionError",
]


class MillstreamError(Exception):
    """The base of all errors of Millstream.

    Attributes:
        worker: The address of the worker it happened on; empty if none is known.
        origin: The record it happened at: file, offset, key; empty if none is known.
        remote_traceback: The worker's account of how it got there; empty if there is none.
    """

    def __init__(self, message: str, *, worker: str = "", origin: str = "", remote_traceback: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.worker = worker
        self.origin = origin
        self.remote_traceback = remote_traceback
        if origin and origin not in message:
            self.add_note(f"record: {origin}")
        if remote_traceback:
            self.add_note(f"on the worker {worker}:\n{remote_traceback}" if worker else remote_traceback)
            self.__cause__ = _original(remote_traceback)

    def __reduce__(self) -> tuple[object, ...]:
        details = {"worker": self.worker, "origin": self.origin, "remote_traceback": self.remote_traceback}
        return (_rebuilt, (type(self), self.message, details))


def _original(remote_traceback: str) -> BaseException | None:
    """Returns the exception that a traceback ends with, if its type is one of Python's, or of a module that is imported here.

    The exception is made from its name and message, which may have several lines. Nothing is unpickled, and a module that defines
    its attributes on demand is not asked for them, since the name comes from another process.
    """
    lines = remote_traceback.split("\n")
    for at in range(len(lines) - 1, -1, -1):
        # Above it stand frames, which are indented.
        if lines[at].startswith((" ", "Traceback")):
            return None
        name, _, first = lines[at].partition(": ")
        module, _, kind = name.rpartition(".")
        owner = sys.modules.get(module or "builtins")
        found = None if owner is None else vars(owner).get(kind)
        if isinstance(found, type) and issubclass(found, Exception):
            # TensorFlow's want a node and an operation before their message.
            is_of_tensorflow = any(base.__name__ == "OpError" for base in found.__mro__)
            try:
                return found(*(None, None) if is_of_tensorflow else (), "\n".join([first, *lines[at + 1 :]]))
            except Exception:
                # Its constructor wants something else.
                return None
    return None


def _rebuilt(kind: type[MillstreamError], message: str, details: dict[str, Any]) -> MillstreamError:
    return kind(message, **details)


class InvalidArgumentError(MillstreamError, ValueError):
    """An argument, a dataset or a file is wrong: the caller must change it."""


class NotFoundError(MillstreamError, LookupError, FileNotFoundError):
    """A file, dataset or job does not exist, or no longer does."""


class FailedPreconditionError(MillstreamError, RuntimeError):
    """The state of the service does not allow it now."""


class PermissionDeniedError(MillstreamError, PermissionError):
    """The key of this process does not allow it, or there is none."""


class UnimplementedError(MillstreamError, NotImplementedError):
    """This version or build cannot do what was requested."""


class ResourceExhaustedError(MillstreamError, MemoryError):
    """A limit is reached."""


class UnavailableError(MillstreamError, ConnectionError):
    """A service, a worker or a socket cannot be reached: a retry may succeed."""


class DeadlineExceededError(MillstreamError, TimeoutError):
    """The operation took longer than the caller allows."""


class AbortedError(MillstreamError, RuntimeError):
    """The dispatcher forgot this reader, or its state: start over."""


class CancelledError(MillstreamError, RuntimeError):
    """The program or an operator ended the operation."""


@dataclasses.dataclass(frozen=True)
class LostSplits:
    """A run of splits of which elements were lost with their worker.

    Attributes:
        source: The source they are of, depth first.
        repetition: The pass over it.
        first: The index of the first of them.
        count: How many.
        worker: The address of the worker that had them; empty if it is not known.
        cause: Why they were lost.
    """

    source: int
    repetition: int
    first: int
    count: int
    worker: str = ""
    cause: str = ""


class DataLossError(MillstreamError, ValueError):
    """Data is truncated, corrupt or lost.

    Attributes:
        lost: The splits that were lost, where it is raised in place of an end after which elements are missing.
    """

    def __init__(
        self, message: str, *, worker: str = "", origin: str = "", remote_traceback: str = "", lost: Sequence[LostSplits] = ()
    ) -> None:
        super().__init__(message, worker=worker, origin=origin, remote_traceback=remote_traceback)
        self.lost = tuple(lost)

    @classmethod
    def of_splits(cls, message: str, ranges: Iterable[tuple[tuple[int, int, int, int], str, str]]) -> DataLossError:
        """Makes the error for lost splits.

        Args:
            message: The message.
            ranges: For each run of splits: source, repetition, first index and count; the worker; the cause.

        Returns:
            The error.
        """
        return cls(message, lost=[LostSplits(*place, worker, cause) for place, worker, cause in ranges])

    def __reduce__(self) -> tuple[object, ...]:
        details = {"worker": self.worker, "origin": self.origin, "remote_traceback": self.remote_traceback}
        return (_rebuilt, (type(self), self.message, details | {"lost": self.lost}))


class DataLossWarning(UserWarning):
    """Elements were lost with their worker, where that is no error: see ``on_lost``."""


class UserFunctionError(MillstreamError, RuntimeError):
    """A user's function failed, on a worker or here."""


class OutOfRangeError(MillstreamError, IndexError):
    """The iterator is at its end: what ``get_next`` raises where ``next`` raises ``StopIteration``."""


class InternalError(MillstreamError, RuntimeError):
    """A defect of Millstream."""
