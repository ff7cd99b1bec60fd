"""The iterator over one epoch of a loader: prefetches the first batch, limits waits, and copies batches to a device.

The module does not decide which batches exist, or their order.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ._feed import DEPTH, DeviceFeed
from ._millstream import Elements
from ._steps import Steps
from .errors import CancelledError, DeadlineExceededError

if TYPE_CHECKING:
    from ._loader import DataLoader

__all__ = ["END", "LoaderIterator"]

#: The marker for the end of an epoch.
END = object()


class LoaderIterator:
    """An iterator over one epoch of a loader. The epoch begins when the first batch is requested."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._batches: Steps | None = None
        self._first: Future[Any] | None = None
        #: The batches to deliver, which are copied to the device if the loader has a device.
        self._handing: Iterator[Any] | None = None
        self._is_closed = False
        self._handed = time.perf_counter()

    def begin(self) -> None:
        """Requests the first batch on a separate thread."""
        self._open()
        first: Future[Any] = Future()

        def ask() -> None:
            try:
                first.set_result(next(self._batches or iter(()), END))
            except BaseException as error:
                first.set_exception(error)

        self._first = first
        _end_with_program(self)
        threading.Thread(target=ask, name="millstream-prefetch").start()

    def close(self) -> None:
        """Ends the iteration. A thread that waits for a batch receives ``CancelledError``."""
        self._is_closed = True
        if self._batches is not None:
            self._batches.elements.close()

    def _open(self) -> None:
        self._epoch, self._delivered, self._batches = self._loader._begun()
        if self._is_closed:
            self.close()

    def __iter__(self) -> LoaderIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        loader = self._loader
        if self._batches is None:
            if loader._prefetched is not None:
                ahead, loader._prefetched = loader._prefetched, None
                self.__dict__.update(ahead.__dict__)
            else:
                self._open()
        asked = time.perf_counter() if loader._profiled is not None else 0.0
        found = self._next()
        if found is END:
            if loader._delivered is self._delivered:
                loader._is_finished = True
            loader._check_complete(self._epoch, self._delivered, self._batches)
            raise StopIteration
        step, batch = found
        self._delivered.add(step)
        if loader._delivered is self._delivered:
            loader._latest = step
        if loader._profiled is not None:
            self._profile(asked, step)
        return batch

    def _next(self) -> Any:
        assert self._batches is not None
        if self._handing is None:
            batches, lane = _Batches(self._batches, self._first), self._loader._lane
            self._handing = batches if lane is None else iter(DeviceFeed(batches, lane, DEPTH))
        if not self._loader.timeout:
            return next(self._handing, END)
        return _within(self._loader.timeout, self._handing, self._batches.elements)

    def _profile(self, asked: float, step: int) -> None:
        now, events = time.perf_counter(), self._loader._profiled
        for name, begin, end in (("work", self._handed, asked), ("wait", asked, now)):
            event = {"name": name, "ph": "X", "ts": begin * 1e6, "dur": (end - begin) * 1e6, "pid": 0, "tid": 0}
            if events is not None:
                events.append(event | {"args": {"epoch": self._epoch, "step": step}})
        self._handed = now


class _Batches:
    """The batches of an epoch in the order of arrival. A prefetched batch comes first."""

    def __init__(self, batches: Steps, first: Future[Any] | None) -> None:
        self._batches, self._first = batches, first

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        first, self._first = self._first, None
        try:
            found = next(self._batches, END) if first is None else first.result()
        except KeyboardInterrupt:
            if first is not None:
                self._batches.elements.close()
            raise
        if found is END:
            raise StopIteration
        return found

    def ready(self, otherwise: Any) -> Any:
        """Returns the next batch if it is available. Returns ``otherwise`` if no batch is available, or at the end."""
        return self._batches.ready(otherwise) if self._first is None else otherwise


_ahead: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()
_watcher: threading.Thread | None = None


def _end_with_program(iterator: LoaderIterator) -> None:
    """Closes the iterator when the main thread ends. Otherwise the program could wait forever for a prefetched batch."""
    global _watcher

    def watch() -> None:
        threading.main_thread().join()
        for iterator in list(_ahead):
            iterator.close()

    _ahead.add(iterator)
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=watch, name="millstream-watcher", daemon=True)
        _watcher.start()


def _within(timeout_s: float, batches: Iterator[Any], elements: Elements) -> Any:
    """Returns the next batch, or raises ``DeadlineExceededError`` after ``timeout_s`` seconds."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        elements.close()

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    found = END
    try:
        found = next(batches, END)
    except CancelledError:
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    # Python code in this process is not interrupted, so `next` may return after the timeout.
    if found is END and late.is_set():
        raise DeadlineExceededError(f"no batch arrived within the timeout of {timeout_s} s")
    return found
