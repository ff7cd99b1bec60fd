"""A soak test: readers start, leave and are killed for a long time, and the servers must release all memory.

Usage: ``python -m chaos.soak --minutes 20``. Prints the private memory of each server during the run, and after all
unused records were deleted.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .processes import Cluster, Process, wait_for_batches

#: The number of elements in a reader's epoch. They take no time on a worker.
ELEMENTS = 1 << 17
#: The number of readers that run at the same time.
READERS = 3
#: The seconds after which the dispatcher deletes unused jobs and silent readers.
COLLECT_AFTER_S = 10
#: The seconds to wait at the end, until unused records were deleted and allocators returned memory.
SETTLE_S = 90
#: The maximum growth of a server's memory between start and end, in MiB.
GROWTH_MAX_MIB = 10.0


def main() -> int:
    """Runs the test. Returns 0 if each server has released its memory, and 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m chaos.soak", description=sys.modules[__name__].__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    command = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
    if command is None:
        parser.error("the command millstream was not found: set MILLSTREAM_COMMAND, or install the wheel")
    print(f"seed {arguments.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        with Cluster(directory, command) as cluster:
            return _soak(cluster, arguments.minutes * 60, random.Random(arguments.seed))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _soak(cluster: Cluster, duration_s: float, chance: random.Random) -> int:
    lifetimes = [f"--{name}-s={COLLECT_AFTER_S}" for name in ("job-gc-timeout", "client-timeout")]
    servers = {"dispatcher": cluster.dispatcher("--gc-dynamic-sharding-jobs", *lifetimes)}
    servers |= {f"worker {number}": cluster.worker()[0] for number in range(2)}
    # The first readers make each server allocate its permanent memory.
    for _ in range(READERS):
        _read(cluster, chance, "finished")
    time.sleep(SETTLE_S)
    before = _report("start", servers)
    counts = {"finished": 0, "left": 0, "killed": 0}
    began_s = reported_s = time.monotonic()
    while time.monotonic() - began_s < duration_s:
        ending = chance.choice(tuple(counts))
        _read(cluster, chance, ending)
        counts[ending] += 1
        if time.monotonic() - reported_s > 60:
            reported_s = time.monotonic()
            _report(f"{(reported_s - began_s) / 60:.0f} min, {counts}", servers)
    time.sleep(SETTLE_S)
    after = _report(f"after {SETTLE_S} s without readers", servers)
    growth = {name: after[name] - before[name] for name in servers}
    print("growth in MiB: " + ", ".join(f"{name} {mib:+.1f}" for name, mib in growth.items()))
    return 0 if max(growth.values()) <= GROWTH_MAX_MIB else 1


def _read(cluster: Cluster, chance: random.Random, ending: str) -> None:
    """Runs some readers of one job. All readers finish, leave after a batch, or are killed after a batch."""
    job = f"soak-{chance.randrange(1 << 40)}"
    kind = "left" if ending == "left" else "numbers"
    readers = [cluster.reader(kind, ELEMENTS, job) for _ in range(READERS)]
    if ending == "killed":
        for reader, ledger in readers:
            wait_for_batches(reader, ledger, 1)
            if reader.child.poll() is None:
                reader.kill()
    for reader, ledger in readers:
        reader.child.wait()
        ledger.unlink()
        reader.end()
        cluster.processes.remove(reader)


def _report(moment: str, servers: dict[str, Process]) -> dict[str, float]:
    """Prints and returns the private memory of each server in MiB."""
    private = {name: _private_mib(server.child.pid) for name, server in servers.items()}
    print(f"{moment}: " + ", ".join(f"{name} {mib:.1f} MiB" for name, mib in private.items()), flush=True)
    return private


def _private_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/{pid}/status does not contain RssAnon")


if __name__ == "__main__":
    sys.exit(main())
