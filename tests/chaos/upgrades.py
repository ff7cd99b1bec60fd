"""The cases of two versions: services whose processes have different versions, and services whose processes are replaced under load."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable

from .etcd import Etcd
from .exact import TRAINERS_MAX, WORKERS, Epoch, worker_killed
from .ledger import Ledger, judge
from .processes import ROLES, Cluster, wait_for_end
from .round import Round
from .version import Version

#: The number of elements in an epoch during which all processes are replaced: about 80 seconds of slow work for six workers.
ELEMENTS_OF_ROLLING = 12_000
#: The seconds of ``--drain-deadline-s``, for which a leaving worker waits for trainers that were killed.
DRAIN_DEADLINE_S = 5
#: The number of elements that a reader with the modes of tf.data's service reads.
ELEMENTS = 2_048


def mixed(cluster: Cluster, kind: str, chance: random.Random, *, role: str, is_previous: bool) -> Round:
    """Runs a service in which the processes of one role have another version than all other processes.

    A reader with the modes of tf.data's service reads an epoch without faults. Then a worker dies during an exactly-once epoch.
    """
    one, others = _ordered(cluster, previous_first=is_previous)
    cluster.versions = {each: one if each == role else others for each in ROLES}
    epoch = Epoch(cluster, kind, chance, in_order=True)
    for version in (one, others):
        assert cluster.status(version) is not None, f"the command of the {version.name} version cannot show the status"
    _read_whole(cluster, kind)
    epoch.start(1)
    return epoch.finished(worker_killed(epoch, chance))


def rolling(cluster: Cluster, kind: str, chance: random.Random, *, is_upgrade: bool) -> Round:
    """Replaces all processes by the other version during an exactly-once epoch, in random order.

    With the kind "map" the trainer keeps its version. With other kinds, trainers of the other version continue from the saved positions.
    """
    before, after = _ordered(cluster, previous_first=is_upgrade)
    cluster.versions = dict.fromkeys(ROLES, before)
    cluster.worker_settings = ["--drain-deadline-s", str(DRAIN_DEADLINE_S)]
    epoch = Epoch(cluster, "map" if kind == "map" else "loader", chance, in_order=True, elements=ELEMENTS_OF_ROLLING)
    trainers = 1 if kind == "map" else chance.randint(1, TRAINERS_MAX)
    epoch.start(trainers)
    cluster.versions = dict.fromkeys(ROLES, after)

    steps: list[Callable[[], None]] = [epoch.replace_dispatcher, *[epoch.replace_worker] * WORKERS]
    steps += [] if kind == "map" else [lambda: epoch.replace_trainers(chance)]
    chance.shuffle(steps)
    for step in steps:
        step()
    return epoch.finished()


def rolling_dispatchers(cluster: Cluster, kind: str, chance: random.Random, *, is_upgrade: bool) -> Round:
    """Replaces two dispatchers that share a store by the other version during an exactly-once epoch.

    The standby is replaced first. Whenever the leader ends, a dispatcher of the other version continues from the records. The first leader
    starts again with its own version and leads once more, as after a crash during an upgrade. A worker dies under each leader.

    Returns:
        The round. Its ``noticed_s`` is the longest time from the end of a leader until the service answered again.
    """
    before, after = _ordered(cluster, previous_first=is_upgrade)
    with Etcd(cluster, dispatchers=2) as store:
        cluster.versions = dict.fromkeys(ROLES, before)
        epoch = Epoch(cluster, "map" if kind == "map" else "loader", chance, in_order=True, elements=ELEMENTS_OF_ROLLING)
        epoch.start(1 if kind == "map" else chance.randint(1, TRAINERS_MAX))
        old = store.leader()
        assert old is not None, "no dispatcher leads before the first fault"
        new = 1 - old

        def start(number: int, version: Version) -> None:
            cluster.versions["dispatcher"] = version
            epoch.start_dispatcher(number)

        def worker_dies() -> None:
            cluster.versions["worker"] = chance.choice((before, after))
            worker_killed(epoch, chance)

        def leadership_moves(number: int, *, is_killed: bool) -> float:
            epoch.end_dispatcher(number, is_killed=is_killed)
            ended_s = time.monotonic()
            store.wait_for_leader(1 - number)
            next(cluster.statuses("the next leader does not answer"))
            return time.monotonic() - ended_s

        kills = [True, False, chance.choice((True, False))]
        chance.shuffle(kills)
        epoch.end_dispatcher(new)
        start(new, after)
        assert store.leader() == old, "the replacement of the standby has moved the leadership"
        worker_dies()
        absences = [leadership_moves(old, is_killed=kills[0])]
        start(old, before)
        worker_dies()
        if kind != "map":
            cluster.versions["reader"] = after
            epoch.replace_trainers(chance)
        absences.append(leadership_moves(new, is_killed=kills[1]))
        start(new, after)
        worker_dies()
        absences.append(leadership_moves(old, is_killed=kills[2]))
        start(old, after)
        return epoch.finished(max(absences))


#: The cases by name.
UPGRADES: dict[str, Callable[[Cluster, str, random.Random], Round]] = {
    **{
        f"{'previous' if is_previous else 'present'}-{role}": functools.partial(mixed, role=role, is_previous=is_previous)
        for role in ROLES
        for is_previous in (True, False)
    },
    "rolling-upgrade": functools.partial(rolling, is_upgrade=True),
    "rolling-downgrade": functools.partial(rolling, is_upgrade=False),
    "rolling-dispatchers-upgrade": functools.partial(rolling_dispatchers, is_upgrade=True),
    "rolling-dispatchers-downgrade": functools.partial(rolling_dispatchers, is_upgrade=False),
}


def _ordered(cluster: Cluster, *, previous_first: bool) -> tuple[Version, Version]:
    """Returns both versions, the previous version first if ``previous_first``."""
    assert cluster.previous is not None, "this case needs --previous"
    return (cluster.previous, cluster.present) if previous_first else (cluster.present, cluster.previous)


def _read_whole(cluster: Cluster, kind: str) -> None:
    """Reads an epoch, which must be complete."""
    reader, path = cluster.reader(kind, ELEMENTS)
    wait_for_end(reader)
    ledger = Ledger.read(path)
    verdict = judge([ledger], ELEMENTS)
    assert ledger.outcome == "ok" and verdict.is_honest and not verdict.missing, f"an epoch without faults: {ledger.message}, {verdict}"
