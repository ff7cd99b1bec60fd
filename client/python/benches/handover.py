"""What an element costs in Python: nanoseconds added to the Rust reader's, with elements at hand, and bytes a second.

Usage: python benches/handover.py [--seconds S] [--json]

``hand-over``: elements of 64 bytes that wait are taken one by one (`for element in elements: pass`); what the loop itself
costs is subtracted. It is the time of this thread alone, in which the producer's is not counted. ``quic`` and ``shm``: elements of 1 MiB
from a worker in another process. Figures mean something in a release build on a quiet machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from typing import Any

import numpy as np

import millstream as ms

ROUNDS = 7
MIB = 1 << 20

ELEMENTS: dict[str, Any] = {
    "scalar": np.int64(1),
    "array": np.zeros(16, np.float32),
    "view": np.zeros(512, np.float32),
    "dict of three": {name: np.zeros(16, np.float32) for name in "abc"},
    "dict of three views": {name: np.zeros(512, np.float32) for name in "abc"},
}


def loop_ns(count: int = 1_000_000) -> float:
    """What a turn of a loop costs that is handed nothing."""
    began = time.perf_counter_ns()
    for _ in itertools.repeat(None, count):
        pass
    return (time.perf_counter_ns() - began) / count


def handover_ns(element: Any, output: str) -> float:
    """What this thread spends on an element, waits not included."""
    dataset = ms.Dataset.from_tensors(element).repeat()
    elements = iter(dataset if output == "numpy" else dataset.with_output(output))
    for _ in itertools.islice(elements, 10_000):
        pass
    rounds = []
    for _ in range(ROUNDS):
        count = 50_000
        began = time.thread_time_ns()
        for _ in itertools.islice(elements, count):
            pass
        rounds.append((time.thread_time_ns() - began) / count)
    return min(rounds)


def bytes_per_s(service: ms.LocalService, protocol: str, seconds: float) -> tuple[float, str]:
    """What arrives of elements of 1 MiB, and by which way."""
    dataset = ms.Dataset.from_tensors(np.zeros(MIB, np.uint8)).repeat()
    distribute = ms.service.distribute("parallel_epochs", service, data_transfer_protocol=protocol)
    elements = iter(dataset.apply(distribute))
    for _ in itertools.islice(elements, 64):
        pass
    began, count = time.monotonic(), 0
    for _ in elements:
        count += 1
        if time.monotonic() - began > seconds:
            break
    rate = count * MIB / (time.monotonic() - began)
    (way,) = set(elements.stats()["transports"].values())  # type: ignore[attr-defined]
    return rate, way


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--output", default="numpy", help="numpy, torch or jax")
    arguments = parser.parse_args()

    def say(name: str, value: float, unit: str) -> None:
        if arguments.json:
            print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)
        else:
            print(f"{name:28} {value:12.1f} {unit}", flush=True)

    loop = statistics.median(loop_ns() for _ in range(ROUNDS))
    say("empty loop", loop, "ns")
    for name, element in ELEMENTS.items():
        say(f"hand-over, {name}", handover_ns(element, arguments.output) - loop, "ns")
    with ms.local(workers=1) as service:
        for protocol in ("quic", "shm"):
            rate, way = bytes_per_s(service, protocol, arguments.seconds)
            say(f"{way}, 1 MiB", rate / MIB, "MiB/s")


if __name__ == "__main__":
    main()
