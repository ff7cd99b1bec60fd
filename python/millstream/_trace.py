"""The trace of a loader, in the trace-event format that Perfetto and Chrome show.

One track has the work and the waits of the training loop. Counters have the load of each stage that this process runs.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from ._millstream import version

__all__ = ["Trace"]

#: The maximum number of events. Further events are counted, and not recorded.
_EVENTS_MAX = 1_000_000

#: The minimum time between two samples of the stages, in seconds.
_SAMPLE_EVERY_S = 0.1


class Trace:
    """The events of a block that ``DataLoader.profile`` records. Times are microseconds from the start of the block."""

    def __init__(self, name: str) -> None:
        self._name, self._began = name, time.perf_counter()
        self._events: list[dict[str, Any]] = []
        self._dropped = 0
        self._threads: dict[int, str] = {}
        #: The time of the latest sample, the age of the stages' measurements in it, and the busy seconds of each stage.
        self._sampled: tuple[float, float, dict[str, float]] = (self._began, 0.0, {})

    def batch(self, handed: float, asked: float, got: float, epoch: int, step: int) -> None:
        """Records the work on the previous batch, from ``handed`` to ``asked``, and the wait for the next batch until ``got``."""
        thread = threading.get_native_id()
        self._threads.setdefault(thread, "training loop" if not self._threads else threading.current_thread().name)
        for name, begin, end in (("work", handed, asked), ("wait", asked, got)):
            begin = max(begin, self._began)
            if end >= begin:
                event = {"name": name, "cat": "loader", "ph": "X", "ts": self._us(begin), "dur": (end - begin) * 1e6, "tid": thread}
                self._add(event | {"args": {"epoch": epoch, "step": step}})

    def wants_sample(self) -> bool:
        """Returns whether the stages were sampled long enough ago."""
        return time.perf_counter() - self._sampled[0] >= _SAMPLE_EVERY_S

    def sample(self, measured: dict[str, Any]) -> None:
        """Records the load of each stage since the latest sample: the number of threads that it kept busy."""
        now = time.perf_counter()
        _, elapsed_before_s, before = self._sampled
        busy = {f"{number} {stage['name']}": float(stage["busy_s"]) for number, stage in enumerate(measured.get("stages", ()))}
        elapsed_s = float(measured.get("stages_elapsed_s", 0.0))
        self._sampled = now, elapsed_s, busy
        if before and busy.keys() == before.keys() and elapsed_s > elapsed_before_s:
            loads = {name: max(0.0, busy[name] - before[name]) / (elapsed_s - elapsed_before_s) for name in busy}
            self._add({"name": "busy threads by stage", "cat": "pipeline", "ph": "C", "ts": self._us(now), "tid": 0, "args": loads})

    def write(self, path: str | Path) -> None:
        """Writes the events into a file, in the order of their times."""
        pid = os.getpid()
        names: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "ts": 0, "tid": 0, "args": {"name": f"millstream {self._name}"}}]
        names += [{"name": "thread_name", "ph": "M", "ts": 0, "tid": thread, "args": {"name": name}} for thread, name in self._threads.items()]
        events = names + sorted(self._events, key=lambda event: float(event["ts"]))
        described = {"version": version(), "dropped_events": self._dropped}
        document = {"traceEvents": [event | {"pid": pid} for event in events], "displayTimeUnit": "ms", "otherData": described}
        Path(path).write_text(json.dumps(document))

    def _us(self, at: float) -> float:
        return (at - self._began) * 1e6

    def _add(self, event: dict[str, Any]) -> None:
        if len(self._events) < _EVENTS_MAX:
            self._events.append(event)
        else:
            self._dropped += 1
