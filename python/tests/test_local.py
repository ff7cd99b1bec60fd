"""Tests of ``ms.local``: the service serves, shares memory, and ends with the program in every case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("inline", [False, True])
def test_all_workers_of_a_local_service_are_read(inline: bool) -> None:
    with ms.local(workers=2, inline=inline) as service:
        assert len(service.pids) == (0 if inline else 3)
        dataset = Dataset.from_tensors(np.zeros(4096)).repeat(3)
        elements = iter(dataset.apply(distribute("parallel_epochs", service)))
        assert len(list(elements)) == 6
        way = "memory" if inline else "shm"
        assert set(elements.stats()["transports"].values()) == {way}  # type: ignore[attr-defined]
        pids = service.pids
    service.close()
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "os.kill(os.getpid(), 9)", "os._exit(4)"])
def test_nothing_outlives_the_program(ending: str) -> None:
    program = f"""
import os
import millstream as ms
service = ms.local(workers=2)
print(*service.pids, flush=True)
assert len(list(ms.Dataset.range(5).apply(ms.service.distribute("distributed_epoch", service)))) == 5
{ending}
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE, timeout=240)
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 3
    while any(is_running(pid) for pid in pids):
        time.sleep(0.01)


def test_workers_survive_a_killed_one() -> None:
    with ms.local(workers=2) as service:
        elements = iter(Dataset.range(1 << 40).repeat().apply(distribute("parallel_epochs", service)))
        for _ in range(10):
            next(elements)
        os.kill(service.pids[1], signal.SIGKILL)
        for _ in range(1000):
            next(elements)


def test_a_service_has_a_worker() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="at least one"):
        ms.local(workers=0)
