"""Measures how soon the number of workers follows a trainer that becomes five times as fast.

``millstream autoscale`` starts and ends real workers, as a service with its default settings wants them. The work of an element is a sleep, so that
many workers need few processors. Usage: ``python benches/load_step.py``. The program needs a Python in which ``millstream`` is installed, and the
command ``millstream``, which ``MILLSTREAM_COMMAND`` names. It needs Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import millstream as ms

# Workers do not have this module, so its functions are pickled by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCRIPT = Path(__file__).resolve().parents[1] / "deploy/autoscale/local-workers"
#: The bytes of an element. Elements of this size fill the buffers of readers within seconds, so that idle workers show.
ELEMENT_BYTES = 1 << 20
#: The seconds of work for an element. A worker computes one element at a time.
WORK_S = 0.2
#: The seconds of a step of the trainer before the load step. One worker suffices.
STEP_S = 0.25
#: The factor of the load step.
FACTOR = 5
#: The maximum number of seconds before the load step, and the seconds after it in which the number of workers is observed.
BEFORE_S, AFTER_S = 400.0, 150.0
#: The workers have followed the load when the trainer reaches this share of its new rate, measured over WINDOW_S seconds.
SHARE, WINDOW_S = 0.9, 5.0
WORKERS_MAX = 16


def work(position: Any) -> Any:
    """Returns the element after the time of its work."""
    time.sleep(WORK_S)
    return np.full(ELEMENT_BYTES, int(position) % 256, np.uint8)


class Decisions:
    """The numbers of workers that ``millstream autoscale`` prints, with the time of each."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.found: list[tuple[float, int]] = []
        threading.Thread(target=self._follow, args=(lines,), daemon=True).start()

    def _follow(self, lines: Iterator[str]) -> None:
        for line in lines:
            if match := re.search(r"\b(\d+) workers?\b", line):
                self.found.append((time.monotonic(), int(match[1])))
            print(line, end="", file=sys.stderr)

    def latest(self) -> int:
        """Returns the latest number; 0 before the service has judged its first worker."""
        # The first number is always one worker, for the first reader.
        return self.found[-1][1] if len(self.found) > 1 else 0

    def since(self, begin: float) -> list[int]:
        """Returns the different numbers that followed ``begin``, the number at that time first."""
        before = [count for at, count in self.found if at < begin][-1:]
        after = [count for at, count in self.found if at >= begin]
        return [count for count, _ in itertools.groupby(before + after)]


def reversals(counts: list[int]) -> int:
    """Returns how often the numbers changed from growing to shrinking, or the other way."""
    grows = [later > earlier for earlier, later in itertools.pairwise(counts)]
    return sum(one != other for one, other in itertools.pairwise(grows))


def trained(elements: Iterator[Any], step_s: float, lasts_s: float) -> list[float]:
    """Takes elements with a step after each, and returns the times at which steps began."""
    begin, times = time.monotonic(), []
    while (now := time.monotonic()) < begin + lasts_s:
        times.append(now - begin)
        next(elements)
        time.sleep(step_s)
    return times


def followed_after(times: list[float], wanted_per_s: float) -> float | None:
    """Returns the seconds after which the steps of a window of time first had the wanted rate; ``None`` if they never had it."""
    needed = int(SHARE * wanted_per_s * WINDOW_S)
    for first, last in zip(times, times[needed:], strict=False):
        if last - first <= WINDOW_S:
            return first
    return None


def main() -> None:
    """Prints one line of JSON for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="the number of load steps")
    command = os.environ.get("MILLSTREAM_COMMAND", "millstream")
    for _ in range(parser.parse_args().rounds):
        with ExitStack() as stack:
            dispatcher = ms.service.DispatchServer(ms.service.DispatcherConfig())
            stack.callback(dispatcher.stop)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            address = dispatcher.target.rpartition("/")[2]
            script = f"{SCRIPT} {folder}/workers --dispatcher {address} --threads 1"
            scaler = subprocess.Popen(
                [command, "autoscale", "--dispatcher", address, "--max", str(WORKERS_MAX), "--exec", script],
                stdout=subprocess.PIPE,
                env={"MILLSTREAM_PYTHON": sys.executable, **os.environ, "MILLSTREAM_COMMAND": command},
                text=True,
            )
            stack.callback(ended, scaler, Path(folder))
            assert scaler.stdout is not None
            decisions = Decisions(iter(scaler.stdout))
            spec = ms.TensorSpec((ELEMENT_BYTES,), ms.uint8)
            dataset = ms.Dataset.range(1 << 22).split_size(4).map_python(work, element_spec=spec)
            elements = iter(dataset.apply(ms.service.distribute("distributed_epoch", dispatcher.target, visitation="exactly_once")))
            # The first trainer starts several workers at once, and the service ends those that it does not need.
            settled = time.monotonic() + BEFORE_S
            while decisions.latest() != 1 and time.monotonic() < settled:
                trained(elements, STEP_S, 5.0)
            begin = time.monotonic()
            times = trained(elements, STEP_S / FACTOR, AFTER_S)
            counts = decisions.since(begin)
            seconds = followed_after(times, FACTOR / STEP_S)
            result = {"followed_after_s": seconds and round(seconds, 1), "workers": counts, "reversals": reversals(counts)}
            print(json.dumps(result), flush=True)
            del elements


def ended(scaler: subprocess.Popen[str], folder: Path) -> None:
    """Ends the scaler, and the workers that it has started."""
    scaler.terminate()
    scaler.wait()
    for file in (folder / "workers").glob("*.pid"):
        os.kill(int(file.read_text().split()[0]), 15)


if __name__ == "__main__":
    main()
