"""Measures the cost of an element in Python: the nanoseconds that Python adds to the Rust reader, and the bytes per second.

Usage: python benches/handover.py [--seconds S] [--rounds N] [--json]

``hand-over``: Python takes elements one by one (``for element in elements: pass``). In turns with that, the same reader skips as many
elements in Rust (``Elements.skip``). The difference is the time that Python adds, including the loop. Only the time of this thread counts,
and not the time of the producer. Arrays have 64 bytes and are copied; views have 2 KiB. Elements of torch need torch.
``quic`` and ``shm``: Python and Rust take elements of 1 MiB from a worker in another process, in turns.
``state``: the time of a loader's ``state_dict`` and ``load_state_dict`` in the middle of an epoch of a million samples.

The program prints the medians of the rounds, with the lowest and the highest value. Only a release build on a quiet machine gives
meaningful figures.
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

#: The maximum time that Python may add to an element, in nanoseconds.
ASKED_NS = {"numpy: array": 250, "numpy: dict of three": 500, "torch: dict of three": 1500}
#: The minimum rate of Python as a share of the rate of Rust.
ASKED_SHARE = 0.9

ELEMENTS: dict[str, Any] = {
    "scalar": np.int64(1),
    "array": np.zeros(16, np.float32),
    "view": np.zeros(512, np.float32),
    "dict of three": {name: np.zeros(16, np.float32) for name in "abc"},
    "dict of three views": {name: np.zeros(512, np.float32) for name in "abc"},
}


def thread_ns(work: Any, count: int) -> float:
    """Returns the nanoseconds of this thread for each of ``count`` elements."""
    began = time.thread_time_ns()
    work(count)
    return (time.thread_time_ns() - began) / count


def take(elements: Any, count: int) -> None:
    """Takes ``count`` elements as a user does."""
    for _ in itertools.islice(elements, count):
        pass


def handover(element: Any, output: str, rounds: int) -> list[dict[str, float]]:
    """Returns the nanoseconds for each element in each round: of Python, of Rust, and their difference."""
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
    """Returns the bytes per second of elements of 1 MiB. ``take_some`` takes 16 elements at a time."""
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        take_some(elements, 16)
        count += 16
    return count * MIB / (time.monotonic() - began)


def transfer(protocol: str, seconds: float, rounds: int) -> tuple[str, list[dict[str, float]]]:
    """Returns the transport, and the rates of Python and Rust in each round."""
    with ms.local(workers=1) as service:
        # Random bytes, because compression does not make them shorter.
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
    """Returns the bytes of a loader's state as JSON, and the microseconds for saving and loading it in each round."""
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
    """Returns the median with the lowest and the highest value."""
    values = [one[name] / scale for one in rounds]
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}-{max(values):.{digits}f}]"


def main() -> None:
    """Measures everything, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="the seconds of each round of a transfer")
    parser.add_argument("--rounds", type=int, default=9, help="the number of rounds")
    parser.add_argument("--json", action="store_true", help="prints one JSON object in each line")
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
