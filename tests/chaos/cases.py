"""The cases: each injects a fault into one round, and returns the time of the fault and the result of the readers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from .exact import (
    any_order_cut_links,
    any_order_storm,
    any_order_trainers,
    any_order_worker_killed,
    exactly_once_cut_links,
    exactly_once_dispatcher_away,
    exactly_once_storm,
    exactly_once_trainers,
    exactly_once_worker_killed,
)
from .ledger import Ledger, judge
from .processes import Cluster, Process, wait_for_batches, wait_for_end
from .proxy import Proxy
from .round import Round, noticed
from .saves import save_storm

#: The number of elements in a round: about 12 seconds of work for two workers.
ELEMENTS = {"map": 12_288, "numbers": 1 << 19, "loader": 12_288, "large-loader": 1_000_000}
#: The number of elements in a round with an outage of the dispatcher. Workers hold half of the remaining elements, so the outage must
#: not begin near the end.
ELEMENTS_OF_OUTAGES = {"map": 40_960, "numbers": 1 << 22, "loader": 40_960, "large-loader": 3_000_000}
#: The minimum and maximum seconds of reading before an outage. Workers measure their pace in the first seconds.
BEFORE_OUTAGE_S = (3.0, 6.0)
#: The kinds of reader, which successive rounds use in turn.
KINDS = ("map", "numbers", "loader")
#: Seconds for which the dispatcher is cut off.
CUT_S = 7.0
#: The maximum seconds between a kill of the dispatcher and its restart.
AWAY_MAX_S = 8.0


Case = Callable[[Cluster, str, random.Random], Round]


def worker_killed(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills one of two workers."""
    return _worker_dies(cluster, kind, chance, replaced=False)


def worker_replaced(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills one of two workers, and starts another worker at once."""
    return _worker_dies(cluster, kind, chance, replaced=True)


def dispatcher_killed(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills the dispatcher, and restarts it with its records after up to 8 seconds."""
    dispatcher, _ = _two_workers(cluster)
    elements = ELEMENTS_OF_OUTAGES[kind]
    reader, ledger = cluster.reader(kind, elements)
    _read_for(chance.uniform(*BEFORE_OUTAGE_S), reader, ledger)
    dispatcher.kill()
    fault_s = time.monotonic()
    time.sleep(chance.uniform(0, AWAY_MAX_S))
    cluster.dispatcher()
    return _finished(kind, [(reader, ledger)], fault_s, elements=elements)


def dispatcher_cut_off(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Cuts the network between the dispatcher and all other processes for 7 seconds."""
    cluster.dispatcher()
    with Proxy(cluster.address) as proxy:
        for _ in range(2):
            cluster.worker(proxy.address)
        elements = ELEMENTS_OF_OUTAGES[kind]
        reader, ledger = cluster.reader(kind, elements, service=proxy.address)
        _read_for(chance.uniform(*BEFORE_OUTAGE_S), reader, ledger)
        proxy.cut()
        fault_s = time.monotonic()
        time.sleep(CUT_S)
        proxy.heal()
        assert proxy.dropped > 0, (
            "no packet was sent to the dispatcher while it was cut off: the fault did not happen"
        )
        return _finished(kind, [(reader, ledger)], fault_s, elements=elements)


def reader_killed(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills one of two readers of a job."""
    # A loader has a private job, which no second reader can share.
    kind = "map" if kind.endswith("loader") else kind
    _two_workers(cluster)
    readers = [cluster.reader(kind, ELEMENTS[kind], job="shared") for _ in range(2)]
    for reader, ledger in readers:
        wait_for_batches(reader, ledger, chance.randrange(5, 50))
    victim = chance.randrange(2)
    readers[victim][0].kill()
    fault_s = time.monotonic()
    return _finished(kind, readers, fault_s)


def dispatcher_and_worker_killed(cluster: Cluster, kind: str, chance: random.Random) -> Round:
    """Kills the dispatcher and one of two workers at the same time, and restarts the dispatcher within two seconds."""
    dispatcher, workers = _two_workers(cluster)
    reader, ledger = cluster.reader(kind, ELEMENTS[kind])
    wait_for_batches(reader, ledger, chance.randrange(20, 200))
    worker, address = chance.choice(workers)
    dispatcher.kill()
    worker.kill()
    fault_s = time.monotonic()
    time.sleep(chance.uniform(0, 2))
    cluster.dispatcher()
    noticed_s = noticed(cluster, address, fault_s)
    return _finished(kind, [(reader, ledger)], fault_s, noticed_s)


#: The cases by name.
CASES: dict[str, Case] = {
    case.__name__.replace("_", "-"): case
    for case in (
        worker_killed,
        worker_replaced,
        dispatcher_killed,
        dispatcher_cut_off,
        reader_killed,
        dispatcher_and_worker_killed,
        exactly_once_worker_killed,
        exactly_once_dispatcher_away,
        exactly_once_storm,
        exactly_once_cut_links,
        exactly_once_trainers,
        any_order_worker_killed,
        any_order_storm,
        any_order_cut_links,
        any_order_trainers,
        save_storm,
    )
}


def _two_workers(cluster: Cluster) -> tuple[Process, list[tuple[Process, str]]]:
    dispatcher = cluster.dispatcher()
    return dispatcher, [cluster.worker() for _ in range(2)]


def _read_for(seconds: float, reader: Process, ledger: Path) -> None:
    """Blocks until a reader has read for ``seconds`` seconds since its first batch."""
    wait_for_batches(reader, ledger, 1)
    time.sleep(seconds)


def _worker_dies(cluster: Cluster, kind: str, chance: random.Random, *, replaced: bool) -> Round:
    _, workers = _two_workers(cluster)
    reader, ledger = cluster.reader(kind, ELEMENTS[kind])
    wait_for_batches(reader, ledger, chance.randrange(20, 200))
    worker, address = chance.choice(workers)
    worker.kill()
    fault_s = time.monotonic()
    if replaced:
        cluster.worker()
    noticed_s = noticed(cluster, address, fault_s)
    return _finished(kind, [(reader, ledger)], fault_s, noticed_s)


def _finished(
    kind: str,
    readers: list[tuple[Process, Path]],
    fault_s: float,
    noticed_s: float | None = None,
    elements: int | None = None,
) -> Round:
    for reader, _ in readers:
        wait_for_end(reader)
    ledgers = [Ledger.read(path) for _, path in readers]
    survivors = [ledger for ledger in ledgers if ledger.outcome is not None]
    return Round(
        kind=kind,
        verdict=judge(ledgers, ELEMENTS[kind] if elements is None else elements),
        wait_s=max((ledger.longest_wait_s(fault_s) for ledger in survivors), default=0.0),
        noticed_s=noticed_s,
        outcomes=tuple(ledger.outcome for ledger in ledgers),
        messages=tuple(ledger.message for ledger in survivors if ledger.message),
    )
