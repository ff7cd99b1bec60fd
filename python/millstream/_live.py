"""The live loaders and readers of this process under stable names, which ``ms.metrics.serve`` shows.

The module holds weak references, so that no loader lives longer because it is shown. It keeps the counts of ended loaders under their names, so
that no counter falls when another loader takes over a name.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._millstream import Elements, Measurements, without_secrets
from ._verdict import verdict_of
from ._waits import COUNTED, lock

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import DataLoader

__all__ = ["forget", "hidden", "observe", "register", "register_reader"]

#: The maximum number of loaders and readers that are shown: the newest ones. The admin port has the same limit.
_SHOWN_MAX = 64

#: The maximum number of names without a live loader whose counts are kept. The counts that were kept first are dropped first.
_NAMES_MAX = 256

#: The maximum number of characters of a name.
_NAME_CHARS_MAX = 64

#: The maximum number of iterators of one dataset that are measured at once: the latest ones.
_ITERATORS_MAX = 64

#: The measurements that only a source knows; `None` means unknown.
_UNKNOWN = {"waiting": None, "epoch": None, "step": None, "steps": None, "prefetched": None, "advice": ""}


class _Source(Protocol):
    """The measurements of a loader, or of the readers of a dataset."""

    def counts(self) -> dict[str, float]:
        """Returns the counts, also after the owner is gone."""

    def facts(self, owner: Any) -> dict[str, Any]:
        """Returns the other measurements, without waiting for a batch."""

    def forked(self, owner: Any) -> None:
        """Adapts the owner to a forked child."""


class _Entry:
    """A loader, or the readers of a dataset, under its name."""

    def __init__(self, owner: Any, name: str, source: _Source, before: dict[str, float]) -> None:
        self.owner, self.name, self.source = weakref.ref(owner), name, source
        #: The counts of earlier owners of the name, and the latest counts.
        self._before, self._latest = before, dict(before)

    def counts(self) -> dict[str, float]:
        """Returns the counts of all owners of the name. A source that fails keeps its latest counts."""
        with lock():
            with contextlib.suppress(Exception):
                found = self.source.counts()
                self._latest = {name: max(self._latest[name], self._before[name] + found[name]) for name in COUNTED}
            return self._latest

    def described(self, owner: Any) -> dict[str, Any]:
        """Returns all measurements. An error of one loader does not hide the others."""
        try:
            facts = self.source.facts(owner)
        except Exception as error:
            facts = {"verdict": f"The loader cannot be measured: {type(error).__name__}: {error}"}
        return {**_UNKNOWN, **facts, **self.counts(), "name": self.name}


class _OfLoader:
    """The measurements of a loader, whose clock has the counts."""

    def __init__(self, loader: DataLoader) -> None:
        self._clock = loader._clock

    def counts(self) -> dict[str, float]:
        return self._clock.counts()

    def facts(self, owner: DataLoader) -> dict[str, Any]:
        return owner._observed()

    def forked(self, owner: DataLoader) -> None:
        owner._forked()


#: An iterator with its measurements.
_Measured: TypeAlias = tuple["weakref.ref[Elements]", Measurements]


class _OfReaders:
    """The measurements of the iterators over a dataset that reads a service. Their counts are added up."""

    def __init__(self) -> None:
        #: The counts of earlier iterators, and the present iterators with their measurements, the latest one last. One tuple holds both, so that
        #: another thread never finds an iterator in both of them.
        self._known: tuple[dict[str, float], list[_Measured]] = dict.fromkeys(COUNTED, 0), []

    def add(self, elements: Elements) -> None:
        """Adds an iterator, and removes the iterators that are gone."""
        earlier, known = self._known
        known = [*known, (weakref.ref(elements), elements.measurements())]
        surplus = max(0, len(known) - _ITERATORS_MAX)
        left = [one for number, one in enumerate(known) if number < surplus or one[0]() is None]
        self._known = _sum(earlier, left), [one for one in known if one not in left]

    def counts(self) -> dict[str, float]:
        return _sum(*self._known)

    def facts(self, owner: object) -> dict[str, Any]:
        # The latest iterator shows what the program does now.
        measured = self._known[1][-1][1].glance()
        found = verdict_of({**measured, "batches": measured["delivered"], "where": "service", "is_python": False})
        return {
            "waiting": measured["wait_share"] if measured["elapsed_s"] else None,
            "prefetched": measured.get("prefetched"),
            "verdict": found.sentence,
            "advice": found.advice,
        }

    def forked(self, owner: object) -> None:
        """Does nothing, because iterators of the parent raise errors in a child."""


def _sum(counts: dict[str, float], measured: list[_Measured]) -> dict[str, float]:
    found = [one.glance() for _, one in measured]
    return {name: counts[name] + sum(one.get(name) or 0 for one in found) for name in COUNTED}


#: The live loaders, and the datasets with readers, by the id of the object; the newest one last.
_entries: dict[int, _Entry] = {}
#: The counts of names without an owner; the name that lost its owner last is the last one.
_past: collections.OrderedDict[str, dict[str, float]] = collections.OrderedDict()
_hiding = threading.local()


def register(loader: DataLoader) -> None:
    """Adds a loader, under its name or a number. Does nothing if the loader is known."""
    with lock():
        _sweep()
        if id(loader) not in _entries:
            _add(loader, _named(str(loader.name or ""), "loader"), _OfLoader(loader))


def register_reader(dataset: Dataset, elements: Elements) -> None:
    """Adds an iterator over a dataset that reads a service. All iterators over a dataset have one name, so that epochs do not add names."""
    if getattr(_hiding, "is_on", False):
        return
    with lock():
        _sweep()
        if (entry := _entries.get(id(dataset))) is None:
            entry = _add(dataset, _named("", "reader"), _OfReaders())
        assert isinstance(entry.source, _OfReaders)
        entry.source.add(elements)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Hides iterators that this thread creates in the block, because the loader that reads them is shown itself."""
    was_on = getattr(_hiding, "is_on", False)
    _hiding.is_on = True
    try:
        yield
    finally:
        _hiding.is_on = was_on


def observe() -> tuple[list[dict[str, Any]], int]:
    """Returns the measurements of the newest live loaders and readers, and the number of the older ones. Waits for none of them."""
    with lock():
        _sweep()
        # An owner that ends meanwhile is left out.
        live = [(owner, entry) for entry in list(_entries.values()) if (owner := entry.owner()) is not None]
    return [entry.described(owner) for owner, entry in live[-_SHOWN_MAX:]], max(0, len(live) - _SHOWN_MAX)


def forget() -> None:
    """Removes all loaders, and the counts of all names."""
    with lock():
        _entries.clear()
        _past.clear()


def _add(owner: Any, name: str, source: _Source) -> _Entry:
    before = _past.pop(name, None) or dict.fromkeys(COUNTED, 0)
    entry = _entries[id(owner)] = _Entry(owner, name, source, before)
    return entry


def _named(wanted: str, kind: str) -> str:
    """Returns a name that no live owner has: the wanted one, or the lowest free number, so that programs that replace loaders reuse names."""
    taken = {entry.name for entry in list(_entries.values())}
    if wanted:
        # A cut URL may hide nothing any more, because its user or its query is then not recognised.
        wanted = without_secrets(wanted)
        suffixes = itertools.chain([""], (f" ({number})" for number in itertools.count(1)))
        names = (wanted[: _NAME_CHARS_MAX - len(suffix)] + suffix for suffix in suffixes)
    else:
        names = (f"{kind} {number}" for number in itertools.count())
    return next(name for name in names if name not in taken)


def _sweep() -> None:
    """Removes the owners that are gone, and keeps the counts of their names."""
    for key, entry in list(_entries.items()):
        # A finaliser that runs meanwhile may have removed the entry.
        if entry.owner() is None and _entries.get(key) is entry:
            del _entries[key]
            _past[entry.name] = entry.counts()
    while len(_past) > _NAMES_MAX:
        _past.popitem(last=False)


def _after_fork() -> None:
    """Empties the registry of a forked child, where the loaders of the parent have no threads and no connections."""
    for entry in list(_entries.values()):
        if (owner := entry.owner()) is not None:
            entry.source.forked(owner)
    forget()


os.register_at_fork(after_in_child=_after_fork)
