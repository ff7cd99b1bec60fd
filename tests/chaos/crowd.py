"""A test of many workers and readers on few processors: an overloaded process must not count as dead.

Usage: ``python -m chaos.crowd --workers 200 --readers 50``. Exits with 1 if a worker was declared dead, or if a reader did
not get its whole dataset.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .ledger import Ledger, judge
from .processes import Cluster, Process, wait_for_end

#: The number of elements in the job of each reader.
ELEMENTS = 1 << 17


def main() -> int:
    """Runs the test. Returns 0 if no worker was declared dead and no element is missing, and 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m chaos.crowd", description=sys.modules[__name__].__doc__)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--readers", type=int, default=50)
    arguments = parser.parse_args()
    command = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
    if command is None:
        parser.error("the command millstream was not found: set MILLSTREAM_COMMAND, or install the wheel")
    directory = Path(tempfile.mkdtemp(prefix="crowd-"))
    try:
        with Cluster(directory, command) as cluster:
            return _crowd(cluster, arguments.workers, arguments.readers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _crowd(cluster: Cluster, workers: int, readers: int) -> int:
    cluster.dispatcher()
    began_s = time.monotonic()
    for worker in [cluster.begin_worker() for _ in range(workers)]:
        worker.address()
    print(
        f"{workers} workers serve after {time.monotonic() - began_s:.1f} s, {_dead(cluster)} declared dead", flush=True
    )
    began_s = time.monotonic()
    reading: list[tuple[Process, Path]] = [cluster.reader("numbers", ELEMENTS) for _ in range(readers)]
    for reader, _ in reading:
        wait_for_end(reader)
    ledgers = [Ledger.read(ledger) for _, ledger in reading]
    whole = sum(ledger.outcome == "ok" and judge([ledger], ELEMENTS).missing == 0 for ledger in ledgers)
    dead = _dead(cluster)
    print(
        f"{whole} of {readers} readers got all elements in {time.monotonic() - began_s:.1f} s, {dead} workers declared dead"
    )
    for message in sorted({ledger.message for ledger in ledgers if ledger.message}):
        print(f"  {message}")
    return 0 if whole == readers and dead == 0 else 1


def _dead(cluster: Cluster) -> int:
    status = cluster.status()
    assert status is not None, "the dispatcher does not answer"
    return sum(worker["dead"] is not None for worker in status["workers"])


if __name__ == "__main__":
    sys.exit(main())
