"""The trace of a loader, in the trace-event format that Perfetto and Chrome show.

One track has the work and the waits of the training loop. Counters have the load of each stage that this process runs. A trace has a limit of
memory, and says when it left out events.
"""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from ._millstream import version
from .errors import InvalidArgumentError

__all__ = ["MEMORY_BYTES", "Trace"]

#: The default limit of the memory for events. A batch needs about 800 bytes, so a trace of 64 MiB has about 80,000 batches.
MEMORY_BYTES = 64 << 20

#: The memory of an event besides its text: the string object, the tuple with its time, and its place in the list, each rounded up.
_EVENT_BYTES = 200

#: The maximum number of threads with names in a trace.
_THREADS_MAX = 256

#: The maximum length of a stage's name with parameters.
_STAGE_CHARS_MAX = 16

#: The minimum time between two samples of the stages, in seconds.
_SAMPLE_EVERY_S = 0.1


class Trace:
    """The events of a block that ``DataLoader.profile`` records. Times are microseconds from the start of the block."""

    def __init__(self, name: str, memory_bytes: int = MEMORY_BYTES) -> None:
        if memory_bytes < 1:
            raise InvalidArgumentError(f"memory_bytes={memory_bytes}: expected a positive number of bytes for the events of the trace")
        self._name, self._began, self._pid = name, time.perf_counter(), os.getpid()
        #: The times of the events, and their texts in JSON, which need less memory than dicts.
        self._events: list[tuple[float, str]] = []
        self._memory_bytes, self._used_bytes = memory_bytes, 0
        #: The number of events that were left out, and the time of the first of them.
        self._dropped, self._dropped_from_us = 0, 0.0
        self._threads: dict[int, str] = {}
        #: The time of the latest sample, the age of the stages' measurements in it, and the busy seconds of each stage.
        self._sampled: tuple[float, float, dict[str, float]] = (self._began, 0.0, {})

    def batch(self, handed: float, asked: float, got: float, epoch: int, step: int) -> None:
        """Records the work on the previous batch, from ``handed`` to ``asked``, and the wait for the next batch until ``got``."""
        thread = threading.get_native_id()
        if thread not in self._threads and len(self._threads) < _THREADS_MAX:
            self._threads[thread] = threading.current_thread().name if self._threads else "training loop"
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
        stages = enumerate(measured.get("stages", ()))
        busy = {f"stage {number} {_short(stage['name'])}": float(stage["busy_s"]) for number, stage in stages}
        elapsed_s = float(measured.get("stages_elapsed_s", 0.0))
        self._sampled = now, elapsed_s, busy
        if before and busy.keys() == before.keys() and elapsed_s > elapsed_before_s:
            for name in busy:
                load = max(0.0, busy[name] - before[name]) / (elapsed_s - elapsed_before_s)
                self._add({"name": name, "cat": "pipeline", "ph": "C", "ts": self._us(now), "tid": 0, "args": {"busy threads": load}})

    def write(self, path: str | Path) -> None:
        """Writes the events into a file, in the order of their times. Warns if events were left out."""
        if os.getpid() != self._pid:
            # A forked child leaves the block of its parent, whose file it must not replace.
            return
        named: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "ts": 0, "tid": 0, "args": {"name": f"millstream {self._name}"}}]
        named += [{"name": "thread_name", "ph": "M", "ts": 0, "tid": thread, "args": {"name": name}} for thread, name in self._threads.items()]
        texts = [self._text(event) for event in named]
        self._events.sort(key=lambda event: event[0])
        described: dict[str, Any] = {"version": version(), "dropped_events": self._dropped}
        if self._dropped:
            name = f"the trace is full: {self._dropped} events are left out"
            texts.append(self._text({"name": name, "ph": "i", "s": "g", "ts": self._dropped_from_us, "tid": 0}))
            described["dropped_from_us"] = self._dropped_from_us
        with Path(path).open("w") as file:
            file.write('{"traceEvents": [\n')
            file.write(",\n".join(texts))
            for _, text in self._events:
                file.write(f",\n{text}")
            file.write(f'\n], "displayTimeUnit": "ms", "otherData": {json.dumps(described)}}}\n')
        if self._dropped:
            warnings.warn(
                f"the trace {path} left out {self._dropped} events from second {self._dropped_from_us / 1e6:.1f} on, because its limit of "
                f"{self._memory_bytes} bytes was reached: profile a shorter block, or pass a larger memory_bytes",
                stacklevel=4,
            )

    def _us(self, at: float) -> float:
        return (at - self._began) * 1e6

    def _text(self, event: dict[str, Any]) -> str:
        return json.dumps(event | {"pid": self._pid})

    def _add(self, event: dict[str, Any]) -> None:
        ts = float(event["ts"])
        # A full trace records nothing further, so that it has no gaps.
        if not self._dropped:
            text = self._text(event)
            self._used_bytes += len(text) + _EVENT_BYTES
            if self._used_bytes <= self._memory_bytes:
                self._events.append((ts, text))
                return
            self._dropped_from_us = ts
        self._dropped += 1


def _short(stage: str) -> str:
    """Returns the name of a stage without its parameters, because viewers cut long names."""
    return stage if len(stage) <= _STAGE_CHARS_MAX else stage.partition("(")[0]
