"""Measures exactly-once reading in a fixed order and in any order, with workers or splits of different speeds.

The work of an element is a sleep, so that 32 workers need no 32 processors. Usage: ``python benches/order.py --rounds 5``. The program needs a Python
in which ``millstream`` is installed. It knows nothing of transports: ``bench-transfer`` measures these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import cloudpickle
import numpy as np

import millstream as ms

# Workers do not have this module, so its functions are pickled by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: The number of workers, each of which computes one split at a time.
WORKERS = 32
#: The number of elements in a split, and the bytes of an element.
SPLIT, ELEMENT_BYTES = 4, 1 << 17
#: The seconds of work for an element, and the factor of slow workers and slow splits.
WORK_S, SLOW = 0.1, 10
#: The number of splits of which one is slow.
ONE_IN = 32
#: The seconds of reading before a measurement begins, and the seconds that it lasts.
WARM_UP_S, MEASURED_S = 8.0, 16.0
#: The environment variable that makes the worker of a process slow.
SLOW_WORKER = "BENCH_ORDER_SLOW"
#: The ways of reading: arguments of ``ms.service.distribute``.
READINGS: dict[str, dict[str, Any]] = {
    "any order": {"visitation": "exactly_once", "in_order": False},
    "fixed order": {"visitation": "exactly_once"},
    "at most once": {},
}


class Work:
    """Computes an element by sleeping. The time depends on the worker, and with ``by_split`` on the split."""

    def __init__(self, by_split: bool) -> None:
        self.by_split = by_split

    def __call__(self, position: Any) -> Any:
        """Returns an element of zeros."""
        is_slow = os.environ.get(SLOW_WORKER) or (self.by_split and int(position) // SPLIT % ONE_IN == ONE_IN // 2)
        time.sleep(WORK_S * (SLOW if is_slow else 1))
        return np.zeros(ELEMENT_BYTES, np.uint8)


def served(target: str, count: int) -> None:
    """Runs workers in this process until the standard input is closed."""
    config = ms.service.WorkerConfig(target, threads=1, python="inline")
    workers = [ms.service.WorkerServer(config) for _ in range(count)]
    print("ready", flush=True)
    sys.stdin.read()
    for worker in workers:
        worker.stop()


@contextmanager
def workers(target: str, count: int, *, is_slow: bool) -> Iterator[None]:
    """Runs workers in a process of their own."""
    environment = {**os.environ, SLOW_WORKER: "1" if is_slow else ""}
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve", target, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        if child.stdout.readline() != "ready\n":
            raise RuntimeError(f"the process of {count} workers ended before it served: see its messages above")
        yield
    finally:
        child.stdin.close()
        child.wait()


def measured(reading: dict[str, Any], *, fast: int, slow: int, by_split: bool) -> float:
    """Returns the elements per second of one reader."""
    with ExitStack() as stack:
        dispatcher = ms.service.DispatchServer(ms.service.DispatcherConfig())
        stack.callback(dispatcher.stop)
        stack.enter_context(workers(dispatcher.target, fast, is_slow=False))
        if slow:
            stack.enter_context(workers(dispatcher.target, slow, is_slow=True))
        spec = ms.TensorSpec((ELEMENT_BYTES,), ms.uint8)
        # The dataset is longer than the measurement, so that its last splits do not count.
        dataset = ms.Dataset.range(1 << 22).split_size(SPLIT).map_python(Work(by_split), element_spec=spec)
        elements = iter(dataset.apply(ms.service.distribute("distributed_epoch", dispatcher.target, on_lost="ignore", **reading)))
        warm = time.monotonic() + WARM_UP_S
        while time.monotonic() < warm:
            next(elements)
        begin, count = time.monotonic(), 0
        while (now := time.monotonic()) < begin + MEASURED_S:
            next(elements)
            count += 1
        del elements
        return count / (now - begin)


#: The cases. Each has the workers that read with every reading, and the rate without the slow part.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one slow worker": (
        {"fast": WORKERS - 1, "slow": 1, "by_split": False},
        {"fast": WORKERS - 1, "slow": 0, "by_split": False},
    ),
    "one slow split in 32": (
        {"fast": WORKERS, "slow": 0, "by_split": True},
        {"fast": WORKERS, "slow": 0, "by_split": False},
    ),
}
#: The share of the time that remains for fast splits if one split in 32 is slow.
FAST_SHARE = {"one slow worker": 1.0, "one slow split in 32": ONE_IN / (ONE_IN - 1 + SLOW)}


def main() -> None:
    """Prints a line of JSON for each case and reading: the median rate, its spread, and the ratio to the rate without the slow part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="the number of interleaved rounds")
    parser.add_argument("--serve", nargs=2, metavar=("TARGET", "COUNT"), help="run workers for another process of this program")
    arguments = parser.parse_args()
    if arguments.serve:
        served(arguments.serve[0], int(arguments.serve[1]))
        return
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for case, (slowed, plain) in CASES.items():
            rates.setdefault((case, "without"), []).append(measured(READINGS["any order"], **plain) * FAST_SHARE[case])
            for name, reading in READINGS.items():
                rates.setdefault((case, name), []).append(measured(reading, **slowed))
    for (case, name), found in rates.items():
        median = statistics.median(found)
        ratio = median / statistics.median(rates[case, "without"])
        spread = [round(rate, 1) for rate in (min(found), max(found))]
        print(json.dumps({"case": case, "reading": name, "per_s": round(median, 1), "spread": spread, "ratio": round(ratio, 3)}))


if __name__ == "__main__":
    main()
