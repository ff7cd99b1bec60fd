"""The mark of calls that record the computation of a dataset's function. Refuses to know the recorded computation."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

__all__ = ["is_tracing", "tracing"]

_is_tracing: contextvars.ContextVar[bool] = contextvars.ContextVar("millstream_is_tracing", default=False)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Marks the calls within it as calls that record."""
    token = _is_tracing.set(True)
    try:
        yield
    finally:
        _is_tracing.reset(token)


def is_tracing() -> bool:
    """Returns whether a dataset called the caller, to record the caller's computation."""
    return _is_tracing.get()
