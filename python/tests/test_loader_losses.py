"""Tests of loaders that lose workers: each step arrives once, and steps of a lost worker are computed before later steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import DataLoader, _code

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEPS = 800

#: The maximum number of steps that are kept, outstanding or begun by executors; much smaller than the number of leased steps.
AHEAD_MAX = 96


#: The bytes of a sample, which are large enough to limit the number of outstanding samples.
BULK_BYTES = 256 << 10


class Clocked:
    """A dataset whose samples contain the time of their computation, and take 2 ms each."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> dict[str, Any]:
        time.sleep(0.002)
        return {"index": index, "at": time.monotonic(), "bulk": np.zeros(BULK_BYTES, np.uint8)}


@pytest.mark.parametrize("replaces", [False, True])
def test_steps_of_a_killed_worker_are_computed_first(replaces: bool) -> None:
    with ms.local(workers=2, threads=2) as service:
        loader = DataLoader(Clocked(), 1, service=service, output="numpy", dp_rank=0, dp_size=1)
        found, killed_at, other = [], 0.0, None
        for step, batch in enumerate(loader):
            found.append((int(batch["index"][0]), float(batch["at"][0])))
            if step == 200:
                os.kill(service.pids[1], signal.SIGKILL)
                killed_at = time.monotonic()
                if replaces:
                    other = ms.service.WorkerServer(ms.service.WorkerConfig(service.target, threads=2))
        if other is not None:
            other.stop()
        assert [index for index, _ in found] == list(range(STEPS))
        assert loader.stats()["lost_splits"] == 0
    after = sorted((at, index) for index, at in found if at > killed_at)
    before = max(index for index, at in found if at <= killed_at)
    freed = [place for place, (_, index) in enumerate(after) if index < before]
    later = [index for _, index in after[: freed[-1]] if index > before] if freed else []
    assert len(later) <= AHEAD_MAX


def test_unordered_loaders_survive_a_killed_worker() -> None:
    with ms.local(workers=2, threads=2) as service:
        loader = DataLoader(Clocked(), 1, service=service, in_order=False, output="numpy", dp_rank=0, dp_size=1)
        found = []
        for step, batch in enumerate(loader):
            found.append(int(batch["index"][0]))
            if step == 200:
                os.kill(service.pids[1], signal.SIGKILL)
        assert sorted(found) == list(range(STEPS))
        assert loader.stats()["lost_splits"] == 0


def test_a_drained_workers_steps_keep_their_order() -> None:
    with ms.local(workers=1, threads=2) as service:
        leaves = ms.service.WorkerServer(ms.service.WorkerConfig(service.target, threads=2))
        loader = DataLoader(Clocked(), 1, service=service, output="numpy", dp_rank=0, dp_size=1)
        batches = iter(loader)
        found = [int(next(batches)["index"][0]) for _ in range(200)]
        # `drain` waits until the reader has received the begun steps.
        leaving = threading.Thread(target=leaves.drain)
        leaving.start()
        found += [int(batch["index"][0]) for batch in batches]
        leaving.join()
        assert found == list(range(STEPS))
        assert loader.stats()["lost_splits"] == 0
