"""The cases of exactly-once jobs: no element is lost or repeated, and the order is the order of a run without faults unless any order is allowed.

The work of the dataset is slow until all faults of a round have happened, so that no fault comes after the end of the epoch.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import millstream as ms

from .exact_reader import Trainer, broken
from .ledger import Ledger, judge
from .links import Links
from .processes import Cluster, Process, lines, wait_for_batches, wait_for_end
from .proxy import Proxy
from .round import Round, noticed

#: The number of elements in a round: about 60 seconds of slow work for three workers.
ELEMENTS = 4_500
#: The number of workers.
WORKERS = 3
#: The seconds of ``--liveness-s``. The dispatcher declares a silent worker dead after three times as long.
LIVENESS_S = 1
#: The arguments of dispatchers.
SETTINGS = ("--liveness-s", str(LIVENESS_S))
#: The seconds within which the faults of a storm begin.
STORM_S = 4.0
#: The maximum seconds between a kill of the dispatcher and its restart.
AWAY_MAX_S = 3.0
#: The seconds for which a round has no dispatcher. The trainer must still read after the first half.
LONG_AWAY_S = 10.0
#: The number of elements in such a round.
ELEMENTS_OF_LONG_AWAY = 6_000
#: The minimum and maximum seconds of reading before such a kill. On a busy machine, workers need this time until they hold 15 s of splits.
BEFORE_LONG_AWAY_S = (9.0, 13.0)
#: The minimum and maximum seconds for which a link of the dispatcher, or of a worker and its trainers, is cut. An idle connection sends a
#: packet each second.
CUT_S = (2.0, 7.0)
#: The share of the rounds that read the order without faults again.
READ_AGAIN = 0.1
#: The maximum number of trainers.
TRAINERS_MAX = 4
#: The maximum number of batches between two saved positions of a trainer.
SAVE_EVERY_MAX = 6
#: The minimum and maximum seconds of reading before trainers die.
BEFORE_DEATH_S = (1.0, 3.0)
#: The seconds of own work for each batch of trainers that must not finish first.
SLOW_STEP_S = 0.05


def exactly_once_worker_killed(cluster: Cluster, kind: str, chance: random.Random, *, in_order: bool = True) -> Round:
    """Kills one of three workers, and starts another worker at once."""
    epoch = Epoch(cluster, kind, chance, in_order=in_order)
    epoch.start(1)
    noticed_s = worker_killed(epoch, chance)
    return epoch.finished(noticed_s)


def exactly_once_storm(cluster: Cluster, kind: str, chance: random.Random, *, in_order: bool = True) -> Round:
    """Kills a worker, stops another worker for too long, and restarts the dispatcher. The faults begin at random times and can overlap.

    Some elements fail once, and the trainer must deliver them. Other elements always fail, and the trainer must leave them out.
    """
    epoch = Epoch(cluster, kind, chance, in_order=in_order, is_failing=True)
    epoch.start(1)
    with Storm(epoch, chance, FAULTS) as storm:
        storm.wait()
    return epoch.finished()


def exactly_once_cut_links(cluster: Cluster, kind: str, chance: random.Random, *, in_order: bool = True) -> Round:
    """Cuts the links of the dispatcher, of a worker to the dispatcher, and of a worker to its trainers, and kills a worker."""
    cluster.link_through_proxies()
    epoch = Epoch(cluster, kind, chance, in_order=in_order)
    epoch.start(1)
    with Storm(epoch, chance, (worker_killed, *CUTS)) as storm:
        storm.wait()
    return epoch.finished()


def exactly_once_dispatcher_away(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills the dispatcher, and restarts it with its records after 10 seconds, during which the trainer reads on."""
    epoch = Epoch(cluster, kind, chance, in_order=True, elements=ELEMENTS_OF_LONG_AWAY)
    epoch.start(1)
    time.sleep(chance.uniform(*BEFORE_LONG_AWAY_S))
    epoch.end_dispatcher(is_killed=True)
    time.sleep(LONG_AWAY_S / 2)
    before = epoch.batches()
    time.sleep(LONG_AWAY_S / 2)
    assert epoch.batches() > before, "the trainer has waited for the dispatcher"
    epoch.start_dispatcher()
    return epoch.finished()


def exactly_once_trainers(cluster: Cluster, kind: str, chance: random.Random, *, in_order: bool = True) -> Round:
    """Kills all trainers several times during a storm. Each time other trainers continue from the last saved positions.

    With the kind "map" there is always one trainer. With other kinds their number changes. In the last generation but one, a trainer
    finishes its part of the epoch before the others die. On average, half of the rounds also cut links, and in half of them some work fails.
    """
    if chance.random() < 0.5:
        cluster.link_through_proxies()
    epoch = Epoch(cluster, "loader", chance, in_order=in_order, is_failing=chance.random() < 0.5)
    if kind == "map":
        return _trainers_die(epoch, chance, [1, 1, 1])
    counts = [chance.randint(1, TRAINERS_MAX) for _ in range(2)]
    return _trainers_die(epoch, chance, counts, (chance.randint(2, TRAINERS_MAX), chance.randint(1, TRAINERS_MAX)))


def any_order_worker_killed(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills a worker of an exactly-once job in any order."""
    return exactly_once_worker_killed(cluster, kind, chance, in_order=False)


def any_order_storm(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Injects the faults of a storm into an exactly-once job in any order."""
    return exactly_once_storm(cluster, kind, chance, in_order=False)


def any_order_cut_links(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Cuts the links of an exactly-once job in any order."""
    return exactly_once_cut_links(cluster, kind, chance, in_order=False)


def any_order_trainers(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills the trainers of an exactly-once job in any order."""
    return exactly_once_trainers(cluster, kind, chance, in_order=False)


#: The batches of an epoch, in order.
Order = Sequence[tuple[int, ...]]


class _Orders:
    """The orders of epochs without faults. Rounds with the same key must have the same order, so only the first round reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._orders: dict[Hashable, Order] = {}

    def get(self, key: Hashable, read: Callable[[], Order]) -> Order:
        """Returns the order of ``key``, which ``read`` returns for the first round. Other rounds with the key wait meanwhile."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._orders:
                self._orders[key] = read()
            return self._orders[key]


ORDERS = _Orders()


class Epoch:
    """An exactly-once epoch with its service, its trainers, and the order of an epoch without faults."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        chance: random.Random,
        *,
        in_order: bool,
        elements: int = ELEMENTS,
        is_failing: bool = False,
    ) -> None:
        self.cluster, self._chance, self._in_order, self._elements = cluster, chance, in_order, elements
        #: Whether the work of some elements fails, always or once.
        self._is_failing = is_failing
        self._is_loader = kind.endswith("loader")
        self._slow = cluster.directory / "slow"
        self.dispatchers = [cluster.dispatcher(*SETTINGS, number=number) for number in range(len(cluster.addresses))]
        self._workers = [cluster.worker() for _ in range(WORKERS)]
        self._lock = threading.Lock()
        #: The ledgers of the trainers that ended or died, up to their last saved positions.
        self._kept: list[Ledger] = []
        #: The ledgers of all trainers, with the batches after their last saved positions.
        self._whole: list[Ledger] = []
        self._running: list[tuple[Process, Path]] = []
        #: The numbers of trainers, in the order of the generations.
        self._counts: list[int] = []
        self._fault_s: float | None = None
        self._order = self._undisturbed()
        self._slow.touch()

    def _undisturbed(self) -> Order:
        versions = tuple(sorted((role, version.name) for role, version in self.cluster.versions.items()))
        order = ORDERS.get((self._is_loader, self._elements, self._is_failing, versions), self._read_undisturbed)
        if self._chance.random() < READ_AGAIN:
            assert self._read_undisturbed() == order, "two epochs without faults have different orders"
        return order

    def _read_undisturbed(self) -> Order:
        reader, path = self._reader(Trainer(str(self._slow), self._is_loader, failing=self._failing("calm")))
        wait_for_end(reader)
        ledger = Ledger.read(path)
        assert ledger.outcome == "ok", f"the epoch without faults failed: {ledger.message}"
        order = [tuple(batch.numbers) for batch in ledger.batches]
        verdict = judge([ledger], self._delivered)
        assert verdict.is_honest, f"the epoch without faults is not exact: {verdict}"
        return order

    def _failing(self, name: str) -> str:
        """Returns the folder in which the work of a run notes its failures; empty if no work fails."""
        if not self._is_failing:
            return ""
        folder = self.cluster.directory / name
        folder.mkdir(exist_ok=True)
        return str(folder)

    @property
    def _delivered(self) -> int:
        """The number of elements that trainers receive."""
        return self._elements - (broken(self._elements) if self._is_failing else 0)

    def _reader(self, trainer: Trainer) -> tuple[Process, Path]:
        return self.cluster.exact_reader(self._elements, dataclasses.asdict(trainer))

    def start(self, trainers: int, state: dict[str, Any] | None = None, *, first_is_fast: bool = False) -> None:
        """Starts trainers, and blocks until each of them has read a batch or has ended.

        If ``first_is_fast``, the other trainers are slow, and wait at the end of their parts until they are killed.
        """
        self._counts.append(trainers)
        self._running, failing = [], self._failing("storm")
        for rank in range(trainers):
            ends_later = first_is_fast and rank > 0
            trainer = Trainer(
                slow=str(self._slow),
                is_loader=self._is_loader,
                rank=rank,
                trainers=trainers,
                save_every=self._chance.randint(1, SAVE_EVERY_MAX),
                state=state,
                step_s=SLOW_STEP_S if ends_later else 0.0,
                waits_at_end=ends_later,
                in_order=self._in_order,
                failing=failing,
            )
            self._running.append(self._reader(trainer))
        # A loader also logs its first position, and a trainer whose part is read logs its end.
        for reader, path in self._running:
            wait_for_batches(reader, path, 2)

    def die(self) -> list[dict[str, Any]]:
        """Kills the trainers that still read. Returns the last saved position of each trainer."""
        self.begin_fault()
        states, killed = [], 0
        for reader, path in self._running:
            if Ledger.read(path).outcome is None:
                reader.kill()
                killed += 1
        for _, path in self._running:
            ledger = Ledger.read(path)
            assert ledger.state is not None, f"a trainer has not saved a position: {ledger.message}"
            assert ledger.outcome in (None, "ok"), ledger.message
            states.append(ledger.state)
            self._whole.append(ledger)
            self._kept.append(ledger if ledger.outcome == "ok" else ledger.saved())
        assert killed, "all trainers had ended before the fault"
        return states

    @property
    def links(self) -> Links:
        """The links between the processes, which must have been asked for before the epoch."""
        assert self.cluster.links is not None, "the processes have no links that can be cut"
        return self.cluster.links

    def hurry(self) -> None:
        """Makes the remaining work fast. All trainers must still read, so that the faults happened during the epoch."""
        for reader, path in self._running:
            assert reader.child.poll() is None and Ledger.read(path).outcome is None, (
                f"a trainer ended before the faults: {Ledger.read(path).message or reader.log.read_text()[-2000:]}"
            )
        self._slow.unlink()

    def wait_for_first(self) -> None:
        """Blocks until the first trainer has ended."""
        wait_for_end(self._running[0][0])

    def batches(self) -> int:
        """Returns the number of batches that the running trainers have logged."""
        return sum(lines(path) for _, path in self._running)

    def begin_fault(self) -> None:
        """Notes the time of the first fault."""
        with self._lock:
            self._fault_s = self._fault_s or time.monotonic()

    def victim(self, chance: random.Random) -> tuple[Process, str]:
        """Blocks until a worker that no other fault uses holds splits, and returns the worker."""
        for status in self.cluster.statuses("no worker holds a split"):
            with self._lock:
                if found := [one for one in self._workers if one[1] in _holding(status)]:
                    chosen = chance.choice(found)
                    self._workers.remove(chosen)
                    return chosen
        raise AssertionError("the statuses ended without an error")

    def add(self, worker: tuple[Process, str]) -> None:
        """Adds a worker, which later faults may use."""
        with self._lock:
            self._workers.append(worker)

    def replace_worker(self) -> None:
        """Starts a worker, and asks the oldest worker to leave."""
        self.begin_fault()
        self.add(self.cluster.worker())
        with self._lock:
            oldest, _ = self._workers.pop(0)
        oldest.leave()

    def end_dispatcher(self, number: int = 0, *, is_killed: bool = False) -> None:
        """Kills a dispatcher, or asks it to end."""
        self.begin_fault()
        (Process.kill if is_killed else Process.leave)(self.dispatchers[number])

    def start_dispatcher(self, number: int = 0) -> None:
        """Starts a dispatcher in the place of one that has ended, with its records."""
        self.dispatchers[number] = self.cluster.dispatcher(*SETTINGS, number=number)

    def replace_trainers(self, chance: random.Random) -> None:
        """Kills all trainers. Others, whose number is random, continue from the saved positions."""
        count = chance.randint(1, TRAINERS_MAX)
        self.start(count, joined(self.die(), count))

    def replace_dispatcher(self, number: int = 0) -> None:
        """Asks a dispatcher to end, and starts another one in its place."""
        self.end_dispatcher(number)
        self.start_dispatcher(number)

    def finished(self, noticed_s: float | None = None) -> Round:
        """Makes the remaining work fast, and waits for the trainers. Compares their batches with the order without faults."""
        if self._slow.exists():
            self.hurry()
        for reader, _ in self._running:
            wait_for_end(reader)
        last = [Ledger.read(path) for _, path in self._running]
        kept, whole = self._kept + last, self._whole + last
        verdict = judge(kept, self._delivered)
        is_one = set(self._counts) == {1}
        problems = _differences(self._order, kept, whole, is_one=is_one, in_order=self._in_order)
        assert self._fault_s is not None, "no fault happened"
        assert not self._is_failing or any(Path(self._failing("storm")).iterdir()), "the work of no element failed"
        kind = "dataset" if not self._is_loader else "loader" if is_one else "loaders"
        return Round(
            kind=kind,
            verdict=verdict,
            wait_s=max(ledger.longest_wait_s(self._fault_s) for ledger in whole),
            noticed_s=noticed_s,
            outcomes=(*(ledger.outcome for ledger in last), *("another order" for _ in problems)),
            messages=(*(ledger.message for ledger in last if ledger.message), *problems, f"trainers {self._counts}, {verdict}"),
        )


#: A fault, which draws its own details.
Fault = Callable[[Epoch, random.Random], Any]


class Storm:
    """Faults at random times, each in a thread of its own."""

    def __init__(self, epoch: Epoch, chance: random.Random, faults: Sequence[Fault]) -> None:
        self._pool = ThreadPoolExecutor(len(faults))
        drawn = [(fault, chance.uniform(0, STORM_S), random.Random(chance.random())) for fault in faults]
        self._running = [self._pool.submit(_later, delay_s, fault, epoch, own) for fault, delay_s, own in drawn]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def wait(self) -> None:
        """Blocks until all faults have happened, and raises the error of a fault that did not happen."""
        for one in self._running:
            one.result()


def worker_killed(epoch: Epoch, chance: random.Random) -> float:
    """Kills a worker that holds splits, and starts another worker.

    Returns:
        The seconds until the status showed the dead worker.
    """
    worker, address = epoch.victim(chance)
    worker.kill()
    epoch.begin_fault()
    fault_s = time.monotonic()
    started = epoch.cluster.begin_worker()
    noticed_s = noticed(epoch.cluster, address, fault_s)
    epoch.add((started, started.address()))
    return noticed_s


def worker_stopped(epoch: Epoch, chance: random.Random) -> None:
    """Stops a worker that holds splits until the status shows it as dead, and then lets the process continue."""
    worker, address = epoch.victim(chance)
    worker.stop()
    epoch.begin_fault()
    noticed(epoch.cluster, address, time.monotonic())
    time.sleep(chance.uniform(0, 1))
    worker.go_on()
    wait_for_return(epoch, worker, address)


def dispatcher_killed(epoch: Epoch, chance: random.Random) -> None:
    """Kills the dispatcher, and restarts it with its records after up to 3 seconds."""
    epoch.end_dispatcher(is_killed=True)
    time.sleep(chance.uniform(0, AWAY_MAX_S))
    epoch.start_dispatcher()


def dispatcher_cut_off(epoch: Epoch, chance: random.Random) -> None:
    """Cuts the links of the trainers and of the present workers to the dispatcher for some seconds."""
    epoch.begin_fault()
    cut(epoch.links.of_dispatcher(), chance.uniform(*CUT_S))


def worker_cut_off_from_dispatcher(epoch: Epoch, chance: random.Random) -> None:
    """Cuts the link of a worker to the dispatcher until the status shows the worker as dead. The worker goes on sending to trainers."""
    worker, address = epoch.victim(chance)
    link = epoch.links.workers[address].to_dispatcher
    epoch.begin_fault()
    link.cut()
    noticed(epoch.cluster, address, time.monotonic())
    time.sleep(chance.uniform(0, 1))
    link.heal()
    assert link.dropped > 0, "no packet was sent on the cut link: the fault did not happen"
    wait_for_return(epoch, worker, address)
    epoch.add((worker, address))


def worker_cut_off_from_trainers(epoch: Epoch, chance: random.Random) -> None:
    """Cuts the link of a worker to its trainers for some seconds. The worker stays connected to the dispatcher."""
    worker = epoch.victim(chance)
    epoch.begin_fault()
    cut([epoch.links.workers[worker[1]].to_trainers], chance.uniform(*CUT_S))
    epoch.add(worker)


def cut(links: Sequence[Proxy], duration_s: float) -> None:
    """Cuts links, and heals them after ``duration_s`` seconds. Raises an error if no packet was sent meanwhile."""
    before = sum(link.dropped for link in links)
    for link in links:
        link.cut()
    time.sleep(duration_s)
    for link in links:
        link.heal()
    assert sum(link.dropped for link in links) > before, "no packet was sent on the cut links: the fault did not happen"


def wait_for_return(epoch: Epoch, worker: Process, address: str) -> None:
    """Blocks until the status shows a worker as alive."""
    for status in epoch.cluster.statuses(f"worker {address} does not return"):
        if any(one["address"] == address and one["dead"] is None for one in status["workers"]):
            break
    assert worker.child.poll() is None, f"the worker that was declared dead ended: {worker.log.read_text()[-2000:]}"


#: The faults of a storm.
FAULTS: Sequence[Fault] = (worker_killed, worker_stopped, dispatcher_killed)
#: The faults of a storm on links.
CUTS: Sequence[Fault] = (dispatcher_cut_off, worker_cut_off_from_dispatcher, worker_cut_off_from_trainers)


def joined(states: Sequence[dict[str, Any]], trainers: int) -> dict[str, Any]:
    """Returns the position at which ``trainers`` trainers continue after trainers with saved positions."""
    return states[0] if len(states) == trainers == 1 else ms.joined_states(states, trainers)


def _later(delay_s: float, fault: Fault, epoch: Epoch, chance: random.Random) -> None:
    time.sleep(delay_s)
    fault(epoch, chance)


def _trainers_die(epoch: Epoch, chance: random.Random, counts: Sequence[int], late: tuple[int, int] | None = None) -> Round:
    """Runs generations of trainers during a storm. The generations of ``late`` follow after the storm, while the work is fast."""
    epoch.start(counts[0])
    faults = FAULTS if epoch.cluster.links is None else (*FAULTS, chance.choice(CUTS))
    with Storm(epoch, chance, faults) as storm:
        for count in counts[1:]:
            time.sleep(chance.uniform(*BEFORE_DEATH_S))
            epoch.start(count, joined(epoch.die(), count))
        storm.wait()
    if late is not None:
        first, last = late
        epoch.start(first, joined(epoch.die(), first), first_is_fast=True)
        epoch.hurry()
        epoch.wait_for_first()
        epoch.start(last, joined(epoch.die(), last))
    return epoch.finished()


def _holding(status: dict[str, Any]) -> set[str]:
    """Returns the addresses of the workers that hold splits."""
    tasks = (task for iteration in status["iterations"] for task in iteration["tasks"])
    return {task["worker_address"] for task in tasks if task["splits_leased"]}


def _differences(
    order: Order, kept: Sequence[Ledger], whole: Sequence[Ledger], *, is_one: bool, in_order: bool
) -> list[str]:
    """Returns the differences between the ledgers and the order of the batches without faults.

    Args:
        order: The batches without faults.
        kept: The ledgers up to the saved positions. Together they must contain each batch once, and in order if ``is_one``.
        whole: The ledgers with all batches. Each of them must be a part of the order.
        is_one: Whether one trainer at a time read the epoch.
        in_order: Whether the order must be kept. In any order each ledger must contain a batch at most once.
    """
    positions = {batch: position for position, batch in enumerate(order)}
    problems = []
    for number, ledger in enumerate(whole):
        found = [positions.get(tuple(batch.numbers), -1) for batch in ledger.batches]
        if -1 in found:
            unknown = found.index(-1)
            problems.append(f"trainer {number}: batch {unknown}, {ledger.batches[unknown].numbers}, is no batch of the order")
        found = found if in_order else sorted(found)
        wrong = [at for at, (before, after) in enumerate(itertools.pairwise(found), start=1) if after <= before]
        if wrong:
            problems.append(f"trainer {number}: batch {wrong[0]} is at {found[wrong[0]]} of the order, after {found[wrong[0] - 1]}")
    read = [positions.get(tuple(batch.numbers), -1) for ledger in kept for batch in ledger.batches]
    read = read if is_one and in_order else sorted(read)
    if read != list(range(len(order))):
        at = next((at for at, position in enumerate(read) if at != position), len(read))
        problems.append(f"expected batch {at} of {len(order)}, found {read[at : at + 3]} among {len(read)} batches")
    return problems
