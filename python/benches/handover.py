"""What an element costs in Python: nanoseconds added to the Rust reader's, with elements at hand, and bytes a second.

Usage: python benches/handover.py [--seconds S] [--rounds N] [--json]

``hand-over``: elements are taken one by one (``for element in elements: pass``), and as many by the same reader without making
anything of them (``Elements.skip``), by turns; the difference is what Python adds, loop included. Time of this thread alone, in
which the producer's is not counted. The arrays have 64 bytes, views 2 KiB; smaller ones are copied. Elements of torch are measured
where torch is. ``quic`` and ``shm``: elements of 1 MiB from a worker in another process, taken by Python and by Rust, by turns.
``state``: what a loader's ``state_dict`` and ``load_state_dict`` take in the middle of an epoch of a million samples.

Medians of the rounds, lowest to highest. Figures mean something in a release build on a quiet machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import statistics
import time
from typing import Any

import numpy as np

import millstream as ms

MIB = 1 << 20
COUNT = 50_000

#: The most that may be added, in nanoseconds, and the least part of Rust's rate.
ASKED_NS = {"numpy: array": 250, "numpy: dict of three": 500, "torch: dict of three": 1500}
ASKED_SHARE = 0.9

ELEMENTS: dict[str, Any] = {
    "scalar": np.int64(1),
    "array": np.zeros(16, np.float32),
    "view": np.zeros(512, np.float32),
    "dict of three": {name: np.zeros(16, np.float32) for name in "abc"},
    "dict of three views": {name: np.zeros(512, np.float32) for name in "abc"},
}


def thread_ns(work: Any, count: int) -> float:
    """What this thread spends on each of so many."""
    began = time.thread_time_ns()
    work(count)
    return (time.thread_time_ns() - began) / count


def take(elements: Any, count: int) -> None:
    """Takes so many elements as a user does."""
    for _ in itertools.islice(elements, count):
        pass


def handover(element: Any, output: str, rounds: int) -> list[dict[str, float]]:
    """Nanoseconds an element: by Python, by Rust, and added."""
    elements: Any = iter(ms.Dataset.from_tensors(element).repeat().with_output(output))
    take(elements, COUNT // 5)
    found = []
    for _ in range(rounds):
        python = thread_ns(lambda count: take(elements, count), COUNT)
        rust = thread_ns(elements.skip, COUNT)
        found.append({"python": python, "rust": rust, "added": python - rust})
    elements.close()
    return found


def rate(elements: Any, seconds: float, take_some: Any) -> float:
    """Bytes a second of elements of 1 MiB, taken so many at a time."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        take_some(elements, 16)
        count += 16
    return count * MIB / (time.monotonic() - began)


def transfer(protocol: str, seconds: float, rounds: int) -> tuple[str, list[dict[str, float]]]:
    """By which way, and what Python takes of it beside Rust."""
    with ms.local(workers=1) as service:
        # Nothing that gets shorter on the way.
        dataset = ms.Dataset.from_tensors(np.random.default_rng(0).integers(0, 256, MIB, np.uint8)).repeat()
        distribute = ms.service.distribute("parallel_epochs", service, data_transfer_protocol=protocol)
        elements: Any = iter(dataset.apply(distribute))
        take(elements, 64)
        found = []
        for _ in range(rounds):
            python = rate(elements, seconds, take)
            rust = rate(elements, seconds, lambda elements, count: elements.skip(count))
            found.append({"python": python, "rust": rust, "share": python / rust})
        (way,) = set(elements.stats()["transports"].values())
        elements.close()
    return way, found


def state(rounds: int) -> tuple[int, list[dict[str, float]]]:
    """Bytes of a loader's state as JSON, and microseconds to take and to restore it."""
    loader = ms.DataLoader(range(1_000_000), 16, shuffle=True, output="numpy", dp_rank=0, dp_size=1)  # type: ignore[arg-type]
    reading = iter(loader)
    for _ in range(3):
        next(reading)
    taken = loader.state_dict()
    other = ms.DataLoader(range(1_000_000), 16, shuffle=True, output="numpy", dp_rank=0, dp_size=1)  # type: ignore[arg-type]
    other.load_state_dict(taken)

    def taking(count: int) -> None:
        for _ in range(count):
            loader.state_dict()

    def restoring(count: int) -> None:
        for _ in range(count):
            other.load_state_dict(taken)

    found = [
        {"state_dict": thread_ns(taking, 1000) / 1e3, "load_state_dict": thread_ns(restoring, 1000) / 1e3} for _ in range(rounds)
    ]
    return len(json.dumps(taken)), found


def said(rounds: list[dict[str, float]], name: str, scale: float = 1.0, digits: int = 0) -> str:
    """The median with its spread."""
    values = [one[name] / scale for one in rounds]
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}-{max(values):.{digits}f}]"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round of a transfer")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one object a line")
    arguments = parser.parse_args()

    outputs = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]
    if not arguments.json:
        print(f"{'ns an element':28}{'python':>22}{'rust':>22}{'added':>22}{'asked for':>12}")
    for output, (name, element) in itertools.product(outputs, ELEMENTS.items()):
        found, what = handover(element, output, arguments.rounds), f"{output}: {name}"
        if arguments.json:
            print(json.dumps({"name": what, "unit": "ns", "rounds": found}), flush=True)
        else:
            columns = "".join(f"{said(found, column):>22}" for column in ("python", "rust", "added"))
            print(f"{what:28}{columns}{ASKED_NS.get(what, ''):>12}", flush=True)
    if not arguments.json:
        print(f"{'MB/s':28}{'python':>22}{'rust':>22}{'python / rust':>22}{'asked for':>12}")
    for protocol in ("quic", "shm"):
        way, found = transfer(protocol, arguments.seconds, arguments.rounds)
        if arguments.json:
            print(json.dumps({"name": f"{way}, 1 MiB", "unit": "B/s", "rounds": found}), flush=True)
        else:
            rates = "".join(f"{said(found, column, 1e6):>22}" for column in ("python", "rust"))
            asked = ASKED_SHARE if way == "quic" else ""
            print(f"{way + ', 1 MiB':28}{rates}{said(found, 'share', 1, 2):>22}{asked:>12}", flush=True)
    size_bytes, found = state(arguments.rounds)
    if arguments.json:
        print(json.dumps({"name": "state", "unit": "us", "bytes": size_bytes, "rounds": found}), flush=True)
    else:
        print(f"{'us':28}{'state_dict':>22}{'load_state_dict':>22}{'bytes':>22}")
        times = "".join(f"{said(found, column, 1, 1):>22}" for column in ("state_dict", "load_state_dict"))
        print(f"{'state of a loader':28}{times}{size_bytes:>22}")


if __name__ == "__main__":
    main()
