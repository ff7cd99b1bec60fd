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
from ._positions import Delivered
from ._steps import Steps
from .errors import CancelledError, DeadlineExceededError

if TYPE_CHECKING:
    from ._loader import DataLoader
    from ._trace import Trace

__all__ = ["END", "LoaderIterator", "within"]

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
        #: Whether the epoch has ended.
        self._is_over = False
        #: Whether the program has received the end of the epoch.
        self._has_stopped = False
        self._handed = time.perf_counter()

    def begin(self) -> None:
        """Requests the first batch on a separate thread."""
        self.open()
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

    def reads(self, delivered: Delivered) -> bool:
        """Returns whether the program may request the batch after these steps from the iterator. Its epoch may have ended already."""
        return self._batches is not None and not self._is_closed and not self._has_stopped and self._delivered is delivered

    def skip(self, batches: int) -> int:
        """Reads and drops batches, at most to the end of the epoch. Returns the number of dropped batches."""
        for skipped in range(batches):
            found = self._counted()
            if found is END:
                return skipped
            if self._loader._delivered is self._delivered:
                self._loader._skipped_to = max(self._loader._skipped_to, found[0] + 1)
        return batches

    def open(self) -> None:
        """Begins the epoch without a request for its first batch."""
        self._epoch, self._delivered, self._batches = self._loader._begun()
        self._loader._running = weakref.ref(self)
        if self._is_closed:
            self.close()

    def __iter__(self) -> LoaderIterator:
        return self

    def __len__(self) -> int:
        if self._batches is None:
            return len(self._loader)
        return self._loader._loading.steps(self._epoch)

    def __next__(self) -> Any:
        loader, clock = self._loader, self._loader._clock
        if self._batches is None:
            clock.begin()
        asked, found = clock.ask(), END
        try:
            found = self._requested()
        finally:
            clock.got(found is not END)
        if found is END:
            self._has_stopped = True
            raise StopIteration
        step, batch = found
        if loader._delivered is self._delivered:
            loader._latest = step
        if loader._trace is not None:
            self._record(loader._trace, asked, step)
        return batch

    def _requested(self) -> Any:
        """Returns the next step and its batch, or ``END``. Begins the epoch if it has not begun."""
        loader = self._loader
        if self._batches is None:
            if loader._prefetched is not None:
                ahead, loader._prefetched = loader._prefetched, None
                self.__dict__.update(ahead.__dict__)
                loader._running = weakref.ref(self)
            else:
                self.open()
        return self._counted()

    def _counted(self) -> Any:
        """Returns the next step and its batch, which counts as delivered. Returns ``END`` at the end of the epoch."""
        loader = self._loader
        found: Any = END if self._is_over else self._next()
        if found is not END:
            self._delivered.add(found[0])
            return found
        if loader._delivered is self._delivered:
            loader._is_finished = True
        if not self._is_over:
            self._is_over = True
            loader._check_complete(self._epoch, self._delivered, self._batches)
        return END

    def _next(self) -> Any:
        assert self._batches is not None
        if self._handing is None:
            batches, lane = _Batches(self._batches, self._first), self._loader._lane
            self._handing = batches if lane is None else iter(DeviceFeed(batches, lane, DEPTH))
        return within(self._loader.timeout, self._handing, self._batches.elements)

    def _record(self, trace: Trace, asked: float, step: int) -> None:
        now = time.perf_counter()
        trace.batch(self._handed, asked, now, self._epoch, step)
        if self._batches is not None and trace.wants_sample():
            trace.sample(self._batches.elements.glance())
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


def within(timeout_s: float, batches: Iterator[Any], elements: Elements) -> Any:
    """Returns the next batch, or ``END``. Raises ``DeadlineExceededError`` after ``timeout_s`` seconds, unless these are 0."""
    if not timeout_s:
        return next(batches, END)
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
