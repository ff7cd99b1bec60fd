"""The exceptions of Millstream. The exceptions have the names of ``tf.errors``, and are also subclasses of built-in exceptions."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DataLossWarning",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidDtypeError",
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
    """The base class of all errors of Millstream.

    Attributes:
        worker: The address of the worker on which the error occurred; empty if the worker is unknown.
        origin: The failing record (file, offset, key); empty if the record is unknown.
        remote_traceback: The traceback on the worker; empty if the error did not occur in Python code of a worker.
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
    """Returns the exception at the end of a traceback, if its type is built in or belongs to a module that this process has imported.

    The exception is created from its name and its message, which may have several lines. The function unpickles no data. The name comes
    from another process, so the function only uses existing attributes of modules, and never calls a module's ``__getattr__``.
    """
    lines = remote_traceback.split("\n")
    for at in range(len(lines) - 1, -1, -1):
        # Indented lines are frames, which precede the line of the exception.
        if lines[at].startswith((" ", "Traceback")):
            return None
        name, _, first = lines[at].partition(": ")
        module, _, kind = name.rpartition(".")
        owner = sys.modules.get(module or "builtins")
        found = None if owner is None else vars(owner).get(kind)
        if isinstance(found, type) and issubclass(found, Exception):
            # Constructors of TensorFlow's errors take a node and an operation before the message.
            is_of_tensorflow = any(base.__name__ == "OpError" for base in found.__mro__)
            try:
                return found(*(None, None) if is_of_tensorflow else (), "\n".join([first, *lines[at + 1 :]]))
            except Exception:
                # The constructor takes other arguments.
                return None
    return None


def _rebuilt(kind: type[MillstreamError], message: str, details: dict[str, Any]) -> MillstreamError:
    return kind(message, **details)


class InvalidArgumentError(MillstreamError, ValueError):
    """An argument, a dataset or a file is invalid. The caller must correct the argument, the dataset or the file."""


class InvalidDtypeError(InvalidArgumentError, TypeError):
    """A function of a dataset computes with a dtype that the operation does not accept. The caller must cast the tensor."""


class NotFoundError(MillstreamError, LookupError, FileNotFoundError):
    """A file, dataset or job does not exist, or was removed."""


class AlreadyExistsError(MillstreamError, FileExistsError):
    """The place of a new object is taken. The caller must choose another place, or remove the object there."""


class FailedPreconditionError(MillstreamError, RuntimeError):
    """The present state of the service or of an object does not allow the operation."""


class PermissionDeniedError(MillstreamError, PermissionError):
    """The key of this process does not permit the request, or the process has no key."""


class UnimplementedError(MillstreamError, NotImplementedError):
    """This version or build of Millstream does not support the operation."""


class ResourceExhaustedError(MillstreamError, MemoryError):
    """A limit is reached."""


class UnavailableError(MillstreamError, ConnectionError):
    """A service, a worker or a socket cannot be reached. A retry may succeed."""


class DeadlineExceededError(MillstreamError, TimeoutError):
    """An operation took longer than its timeout."""


class AbortedError(MillstreamError, RuntimeError):
    """The dispatcher has removed this reader, or has lost its own state. The program must open the dataset again."""


class CancelledError(MillstreamError, RuntimeError):
    """The program or an operator cancelled the operation."""


@dataclasses.dataclass(frozen=True)
class LostSplits:
    """A range of consecutive splits that lost elements with their worker.

    Attributes:
        source: The number of the source that the splits belong to, in depth-first order of the pipeline.
        repetition: The number of the pass over the source.
        first: The index of the first lost split.
        count: The number of lost splits.
        worker: The address of the worker that had the splits; empty if the worker is unknown.
        cause: The reason for the loss.
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
        lost: The lost splits, if the error is raised at the end of an epoch that lost elements; otherwise empty.
    """

    def __init__(
        self, message: str, *, worker: str = "", origin: str = "", remote_traceback: str = "", lost: Sequence[LostSplits] = ()
    ) -> None:
        super().__init__(message, worker=worker, origin=origin, remote_traceback=remote_traceback)
        self.lost = tuple(lost)

    @classmethod
    def of_splits(cls, message: str, ranges: Iterable[tuple[tuple[int, int, int, int], str, str]]) -> DataLossError:
        """Creates the error for lost splits.

        Args:
            message: The message.
            ranges: For each range of splits: a tuple of source, repetition, first index and count; the worker; the cause.

        Returns:
            The error.
        """
        return cls(message, lost=[LostSplits(*place, worker, cause) for place, worker, cause in ranges])

    def __reduce__(self) -> tuple[object, ...]:
        details = {"worker": self.worker, "origin": self.origin, "remote_traceback": self.remote_traceback}
        return (_rebuilt, (type(self), self.message, details | {"lost": self.lost}))


class DataLossWarning(UserWarning):
    """Elements are missing in the epoch, and the program permits it by ``on_lost="warn"``, ``max_skips`` or ``max_quarantined``."""


class UserFunctionError(MillstreamError, RuntimeError):
    """A user's function failed, on a worker or in this process."""


class OutOfRangeError(MillstreamError, IndexError):
    """The program called ``get_next`` of an exhausted iterator, for which ``next`` raises ``StopIteration``."""


class InternalError(MillstreamError, RuntimeError):
    """A defect of Millstream."""
