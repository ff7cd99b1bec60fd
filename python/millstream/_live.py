"""The live loaders and readers of this process, which ``ms.metrics.serve`` shows.

The module holds weak references, so that no loader lives longer because it is shown.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ._verdict import verdict_of

__all__ = ["observe", "of_reader", "register", "unregister"]

#: The maximum number of loaders that are observed at once: the latest ones.
_OBSERVED_MAX = 128

_numbers = itertools.count()
_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def register(one: Any) -> int:
    """Adds a loader, which has the method ``_observed``, or an iterator of a service. Returns its number, which identifies it."""
    number = next(_numbers)
    _live[number] = one
    return number


def unregister(one: Any) -> None:
    """Removes an iterator that a loader reads, because the loader itself is shown."""
    for number, known in _present():
        if known is one:
            _live.pop(number, None)


def observe() -> list[dict[str, Any]]:
    """Returns the measurements of the live loaders and readers, without waiting for any of them."""
    latest = sorted(_present(), key=lambda known: known[0], reverse=True)[:_OBSERVED_MAX]
    return [one._observed(number) if hasattr(one, "_observed") else of_reader(one, number) for number, one in reversed(latest)]


def _present() -> list[tuple[int, Any]]:
    """Returns the live objects with their numbers. Other threads may add objects meanwhile."""
    known = [(reference.key, reference()) for reference in _live.valuerefs()]
    return [(number, one) for number, one in known if one is not None]


def of_reader(reader: Any, number: int) -> dict[str, Any]:
    """Returns the measurements of an iterator of a service."""
    measured = reader.glance()
    found = verdict_of({**measured, "batches": measured["delivered"], "where": "service", "is_python": False})
    return {
        "name": f"reader {number}",
        "elements": measured["delivered"],
        "bytes": measured["bytes"],
        "waited_s": measured["waited_s"],
        "waiting": measured["wait_share"] if measured["elapsed_s"] else None,
        "epoch": None,
        "step": None,
        "steps": None,
        "prefetched": measured.get("prefetched"),
        "reconnects": measured.get("reconnects", 0),
        "lost_splits": measured.get("lost_splits", 0),
        "skipped_splits": measured.get("skipped_splits", 0),
        "verdict": found.sentence,
        "advice": found.advice,
    }
