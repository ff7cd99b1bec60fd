"""Measures the time from ``load_state_dict`` to the next batch of an exactly-once loader, in the middle of an epoch.

Usage: ``python benches/resume.py [--elements N,N,...] [--rounds N]``. Each dataset is shuffled and batched, and is read by two workers
up to its middle. Each round resumes from the same state in another process. The time of the process's imports does not count.
Only a release build on a quiet machine gives meaningful figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time

import millstream as ms

#: The number of elements in the buffer of the shuffle, and in a batch.
BUFFER, BATCH = 1_000, 4_096


def loader(elements: int, service: str) -> ms.DataLoader:
    """Returns a loader of an epoch with ``elements`` elements."""
    dataset = ms.Dataset.range(elements).shuffle(BUFFER).batch(BATCH)
    return ms.DataLoader(dataset, service=service, visitation="exactly_once", output="numpy", seed=3)


def resume(elements: int, service: str, state: str) -> float:
    """Returns the seconds from a state as JSON to the next batch."""
    resumed = loader(elements, service)
    began_s = time.perf_counter()
    resumed.load_state_dict(json.loads(state))
    next(iter(resumed))
    return time.perf_counter() - began_s


def main() -> None:
    """Prints a line for each number of elements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", default="1000000,100000000", help="numbers of elements, separated by commas")
    parser.add_argument("--rounds", type=int, default=10, help="number of resumes for each number of elements")
    parser.add_argument("--resume", nargs=3, metavar=("ELEMENTS", "SERVICE", "STATE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.resume is not None:
        elements, service, state = arguments.resume
        print(resume(int(elements), service, state))
        return
    with ms.local(workers=2) as local:
        for elements in map(int, arguments.elements.split(",")):
            whole = loader(elements, local.target)
            batches = iter(whole)
            for _ in itertools.islice(batches, len(whole) // 2):
                pass
            state = json.dumps(whole.state_dict())
            batches.close()
            command = [sys.executable, __file__, "--resume", str(elements), local.target, state]
            times_s = [float(subprocess.check_output(command)) for _ in range(arguments.rounds)]
            print(
                f"{elements} elements: state of {len(state)} bytes, next batch after {statistics.median(times_s):.3f} s"
                f" ({min(times_s):.3f} to {max(times_s):.3f})"
            )


if __name__ == "__main__":
    main()
