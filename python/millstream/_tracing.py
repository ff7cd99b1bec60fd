"""Whether a function of a dataset is being called to record what it computes. Refuses to know what is recorded."""

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
    """Returns whether the caller was called by a dataset, to record what it computes."""
    return _is_tracing.get()
