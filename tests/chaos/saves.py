"""The case of a dataset that a service saves: no chunk is lost, repeated or replaced, and a reader meanwhile receives every element in order.

The work of the dataset is slow until all faults of a round have happened, so that no fault comes after the end of the save.
"""

from __future__ import annotations

import functools
import random
import time
from typing import Any

import millstream as ms

from .exact_reader import SEED, Trainer, dataset
from .ledger import Ledger, judge
from .processes import Cluster, Process, wait_for_batches, wait_for_end
from .round import Round

#: The number of elements in a round: about 40 seconds of slow work for three workers.
ELEMENTS = 3_000
#: The number of workers, and the number of faults in a round.
WORKERS, FAULTS = 3, 5
#: The minimum and maximum seconds before a fault, and the maximum seconds between a kill of the dispatcher and its restart.
BEFORE_FAULT_S, AWAY_MAX_S = (0.3, 1.5), 3.0
#: The seconds of ``--liveness-s``. The dispatcher declares a silent worker dead after three times as long.
LIVENESS_S = 1


def save_storm(cluster: Cluster, _kind: str, chance: random.Random) -> Round:
    """Kills workers, the dispatcher and the process that saves, and starts each again, while another process reads the dataset."""
    save = _Save(cluster)
    save.start()
    fault_s = time.monotonic()
    kinds = [save.kill_worker, save.kill_dispatcher, save.kill_saver]
    for fault in (*chance.sample(kinds, len(kinds)), *chance.choices(kinds, k=FAULTS - len(kinds))):
        time.sleep(chance.uniform(*BEFORE_FAULT_S))
        save.note()
        fault(chance)
    return save.finished(fault_s)


@functools.cache
def _order() -> list[tuple[int, ...]]:
    """Returns the batches of an epoch without faults, which are the same in all rounds."""
    exactly: dict[str, Any] = {"visitation": "exactly_once", "seed": SEED, "dp_rank": 0, "dp_size": 1}
    with ms.local(workers=1, inline=True) as service:
        whole = dataset(ELEMENTS, Trainer("", is_loader=False)).apply(ms.service.distribute("distributed_epoch", service, **exactly))
        return [tuple(int(number) for number in batch) for batch in whole]


class _Save:
    """A dataset that is being saved, with its service, the process that saves, and the process that reads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._place, self._slow = cluster.directory / "saved", cluster.directory / "slow"
        self._slow.touch()
        self._order = _order()
        #: The inodes of the chunks, which must never change.
        self._inodes: dict[str, int] = {}

    def start(self) -> None:
        """Starts all processes, and waits until the reader has a batch."""
        self._dispatcher = self._serve()
        self._workers = [self._cluster.worker()[0] for _ in range(WORKERS)]
        self._saver = self._save()
        self._reader, self._ledger = self._cluster.saved_reader(self._place)
        wait_for_batches(self._reader, self._ledger, 1)

    def kill_worker(self, chance: random.Random) -> None:
        """Kills a worker, and starts another one."""
        number = chance.randrange(WORKERS)
        self._workers[number].kill()
        self._workers[number] = self._cluster.begin_worker()

    def kill_dispatcher(self, chance: random.Random) -> None:
        """Kills the dispatcher, and starts it again with its records."""
        self._dispatcher.kill()
        time.sleep(chance.uniform(0, AWAY_MAX_S))
        self._dispatcher = self._serve()

    def kill_saver(self, _chance: random.Random) -> None:
        """Kills the process that saves, and starts the same save again."""
        self._saver.kill()
        self._saver = self._save()

    def note(self) -> None:
        """Notes the chunks. A chunk that was noted before must be the same file."""
        for chunk in (self._place / "chunks").iterdir():
            inode = chunk.stat().st_ino
            assert self._inodes.setdefault(chunk.name, inode) == inode, f"the chunk {chunk} was replaced"

    def finished(self, fault_s: float) -> Round:
        """Makes the remaining work fast, and waits for the end. Compares the reader's batches with the order without faults."""
        assert not (self._place / "DONE").exists(), "the save ended before the faults"
        self._slow.unlink()
        wait_for_end(self._saver)
        wait_for_end(self._reader)
        self.note()
        ledger = Ledger.read(self._ledger)
        problems = [] if (self._place / "DONE").exists() else [f"the save did not end: {self._saver.log.read_text()[-2000:]}"]
        if [tuple(batch.numbers) for batch in ledger.batches] != self._order:
            problems.append(f"expected the {len(self._order)} batches of the order, found {len(ledger.batches)} others")
        return Round(
            kind="saved",
            verdict=judge([ledger], ELEMENTS),
            wait_s=ledger.longest_wait_s(fault_s),
            noticed_s=None,
            outcomes=(ledger.outcome, *("another order" for _ in problems)),
            messages=(*problems, ledger.message),
        )

    def _serve(self) -> Process:
        return self._cluster.dispatcher("--liveness-s", str(LIVENESS_S))

    def _save(self) -> Process:
        return self._cluster.saver(ELEMENTS, self._place, self._slow)
