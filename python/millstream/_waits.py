"""The clock of a training loop: how long it waited for batches, in the present epoch, lately, and in total.

The module does not know batches, and does not decide why the loop waited.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from typing import Any

from ._millstream import Measurements

__all__ = ["COUNTED", "WaitClock", "lock"]

#: The seconds of one of the two intervals over which the recent share is computed.
_INTERVAL_S = 10.0

#: The measurements of an iterator that are added up over epochs.
_SUMMED = ("bytes", "reconnects", "lost_splits", "skipped_splits", "quarantined_elements")

#: The measurements of a loader that only rise.
COUNTED = ("elements", "waited_s", *_SUMMED)

#: The lock of all clocks, and of the registry of loaders. A thread holds it only to end a wait, to change the iterator, or to read sums.
#: The lock is reentrant, because a finaliser or a signal handler may run meanwhile, and may measure as well.
#: One lock serves all: with several locks, two threads with finalisers might wait for each other.
_lock = threading.RLock()


def lock() -> threading.RLock:
    """Returns the lock of all clocks, which a forked child replaces."""
    return _lock


@dataclasses.dataclass
class _Interval:
    """An interval of the recent past: its start, and the time for which the loop waited in it."""

    began: float
    waited_s: float = 0.0


class WaitClock:
    """The waits of one loader. The thread of the training loop writes, and other threads may read at any time."""

    def __init__(self) -> None:
        #: The number of batches that the loop received from all epochs.
        self.total_batches = 0
        #: The time that the loop waited in all epochs, and the start of the present wait, which is `None` while the loop does not wait.
        self._total_s = 0.0
        self._asked: float | None = None
        #: The batches and the waits of the latest epoch. The first wait includes the start of the epoch.
        self.batches, self.waited_s, self.first_wait_s = 0, 0.0, 0.0
        self._began: float | None = None
        self._ended: float | None = None
        self._recent: tuple[_Interval | None, _Interval | None] = (None, None)
        #: The measurements of the present iterator, the last measurements of an iterator that the loop has left, and the sums before.
        self._reading: Measurements | None = None
        self._left: dict[str, Any] = {}
        self._earlier = dict.fromkeys(_SUMMED, 0)

    def begin(self) -> None:
        """Begins an epoch: its first batch is requested now."""
        self.batches, self.waited_s, self.first_wait_s = 0, 0.0, 0.0
        self._began, self._ended = time.perf_counter(), None

    def ask(self) -> float:
        """Notes that the loop waits from now on. Returns the time."""
        self._asked = asked = time.perf_counter()
        return asked

    def got(self, is_batch: bool) -> None:
        """Notes the end of a wait, which ended with a batch, or with the end of the epoch or an error."""
        with _lock:
            now, asked = time.perf_counter(), self._asked
            waited_s = 0.0 if asked is None else now - asked
            self._total_s, self._asked = self._total_s + waited_s, None
        self.waited_s += waited_s
        if not self.batches:
            self.first_wait_s += waited_s
        if is_batch:
            # An error such as Ctrl-C may have ended an earlier wait, and not the epoch.
            self._ended = None
            self.batches += 1
            self.total_batches += 1
        elif self._ended is None:
            self._ended = now
        before, present = self._recent
        if present is None or now - present.began > _INTERVAL_S:
            before, present = present, _Interval(now - waited_s)
            self._recent = before, present
        present.waited_s += waited_s

    def follow(self, reading: Measurements | None) -> None:
        """Shows the measurements of the iterator that the loop reads from now on, and adds those of the iterator before to the sums."""
        with _lock:
            self._add_up()
            self._reading, self._left = reading, {}

    def leave(self) -> None:
        """Adds the measurements of the present iterator to the sums. They remain visible."""
        with _lock:
            self._add_up()

    def _add_up(self) -> None:
        reading = self._reading
        if reading is not None:
            left = reading.glance()
            if self._reading is not reading:
                # A finaliser that ran meanwhile has added the iterator up.
                return
            earlier = {name: self._earlier[name] + int(left.get(name) or 0) for name in _SUMMED}
            # A finaliser before this line counts the iterator, and a later one finds it in the sums.
            self._left, self._earlier, self._reading = left, earlier, None

    def glance(self) -> dict[str, Any]:
        """Returns the measurements of the present iterator, or the last ones of an iterator that the loop has left."""
        reading, left = self._reading, self._left
        return dict(left) if reading is None else reading.glance()

    def counts(self) -> dict[str, float]:
        """Returns the counts of all epochs, none of which ever falls."""
        with _lock:
            earlier, reading = self._earlier, self._reading
            found = {} if reading is None else reading.glance()
            summed = {name: earlier[name] + int(found.get(name) or 0) for name in _SUMMED}
        return {"elements": self.total_batches, "waited_s": self.all_waited_s(), **summed}

    def waiting_s(self) -> float:
        """Returns the time for which the loop has been waiting; 0 if it does not wait."""
        asked = self._asked
        return 0.0 if asked is None else time.perf_counter() - asked

    def all_waited_s(self) -> float:
        """Returns the time for which the loop has waited in all epochs."""
        with _lock:
            return self._total_s + self.waiting_s()

    def recent_share(self) -> float | None:
        """Returns the share of the last 10 to 20 seconds for which the loop waited; ``None`` before the first batch."""
        waiting_s, now = self.waiting_s(), time.perf_counter()
        found = [interval for interval in self._recent if interval is not None]
        # An interval that ended long ago says nothing about the present.
        found = [interval for interval in found if now - interval.began <= 2 * _INTERVAL_S] or found[-1:]
        if not found:
            return None if not waiting_s else 1.0
        span_s = now - found[0].began
        return min(1.0, (sum(interval.waited_s for interval in found) + waiting_s) / span_s) if span_s > 0 else None

    def measured(self) -> dict[str, Any]:
        """Returns the measurements of the latest epoch."""
        if self._began is None:
            seconds = dict.fromkeys(("elapsed_s", "waited_s", "first_wait_s", "waiting_s", "wait_share"), 0.0)
            return {"batches": 0, **seconds, "has_ended": False}
        elapsed_s = (time.perf_counter() if self._ended is None else self._ended) - self._began
        waiting_s = self.waiting_s()
        waited_s = min(elapsed_s, self.waited_s + waiting_s)
        return {
            "batches": self.batches,
            "elapsed_s": elapsed_s,
            "waited_s": waited_s,
            "first_wait_s": self.first_wait_s if self.batches else waited_s,
            "waiting_s": waiting_s,
            "wait_share": waited_s / elapsed_s if elapsed_s > 0 else 0.0,
            "has_ended": self._ended is not None,
        }


def _after_fork() -> None:
    global _lock
    # A thread of the parent may hold the old lock forever.
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
