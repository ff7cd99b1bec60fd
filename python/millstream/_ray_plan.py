"""The plan of a service on Ray: how many workers to run, which to start, and which to drain or end.

The plan is a state machine. It takes observations and the time, and returns actions. It knows neither Ray nor the network.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable

from .errors import InvalidArgumentError

__all__ = ["Actions", "Bounds", "Member", "Observation", "Plan", "Scale", "State"]

#: The maximum number of workers of a service.
WORKERS_MAX = 10_000
#: The seconds for which a serving worker may be missing in the dispatcher's list before the plan replaces it.
MISSING_S = 1.0
#: The seconds after a start of the dispatcher in which workers register again.
REJOIN_S = 10.0
#: The delay in seconds of the first start after a failed start. Each further failure doubles the delay.
RETRY_MIN_S = 0.5
#: The maximum delay in seconds of a start after failed starts.
RETRY_MAX_S = 30.0


class State(enum.Enum):
    """The state of a worker."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The minimum and maximum number of workers, and their number at the start.

    Raises:
        InvalidArgumentError: The numbers contradict each other.
    """

    workers: int
    least: int
    most: int

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.workers <= self.most <= WORKERS_MAX and self.workers >= 1):
            raise InvalidArgumentError(
                f"min={self.least}, workers={self.workers}, max={self.most}: expected 0 <= min <= workers <= max <= {WORKERS_MAX}, and at "
                "least one worker at the start"
            )


@dataclasses.dataclass
class Member:
    """A worker of the service."""

    name: str
    state: State
    since_s: float
    seen_s: float
    address: str | None = None


@dataclasses.dataclass(frozen=True)
class Observation:
    """The observed state of a service at one moment.

    Attributes:
        addresses: The addresses of the living workers by name, or ``None`` if the dispatcher does not answer.
        dispatcher_age_s: The seconds since the start of the dispatcher's process.
        wanted: The number of workers that the dispatcher wants, or ``None`` if it is unknown.
        failed: The names of workers whose process or node has failed.
        drained: The names of workers whose drain has ended.
    """

    addresses: dict[str, str] | None = None
    dispatcher_age_s: float = 0.0
    wanted: int | None = None
    failed: Collection[str] = ()
    drained: Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Actions:
    """The names of the workers to start, to drain and to end in the next step."""

    start: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


class Scale:
    """The target number of workers: the number that the dispatcher wants, within the bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.target = bounds.workers
        self._bounds = bounds

    def follow(self, wanted: int | None) -> int:
        """Takes the wanted number, and returns the target. An unknown number changes nothing."""
        if wanted is not None:
            self.target = min(max(wanted, self._bounds.least), self._bounds.most)
        return self.target


class Plan:
    """The workers of a service. ``step`` takes what a look at the service found, and returns what to do.

    Args:
        bounds: The numbers of workers.
        start_timeout_s: The seconds that a worker may take to start.
        drain_timeout_s: The seconds that a drained worker may take to end.
        prefix: The first part of the names. Two plans with one dispatcher need different prefixes, because the dispatcher lists the workers of
            the former plan for a while.
    """

    def __init__(self, bounds: Bounds, start_timeout_s: float, drain_timeout_s: float, prefix: str) -> None:
        self.members: dict[str, Member] = {}
        self.scale = Scale(bounds)
        self._start_timeout_s, self._drain_timeout_s = start_timeout_s, drain_timeout_s
        self._prefix, self._count = prefix, 0
        self._failed_starts = 0
        self._retry_s = float("-inf")

    def step(self, now_s: float, found: Observation) -> Actions:
        """Returns the actions after an observation."""
        end = [*self._ended(now_s, found)]
        for name in end:
            del self.members[name]
        target = self.scale.follow(found.wanted if found.addresses is not None else None)
        staying = [member for member in self.members.values() if member.state is not State.DRAINING]
        start = self._started(now_s, target - len(staying)) if now_s >= self._retry_s else ()
        # The youngest workers are drained: they have the fewest elements in their caches.
        surplus = sorted(staying, key=lambda member: member.since_s)[target:]
        drain = []
        for member in surplus:
            if member.state is State.STARTING:
                del self.members[member.name]
                end.append(member.name)
            else:
                member.state, member.since_s = State.DRAINING, now_s
                drain.append(member.name)
        return Actions(start, tuple(drain), tuple(end))

    def drain_all(self, now_s: float) -> Actions:
        """Returns the actions that end the service: drains of the serving workers, and ends of the others."""
        serving = [member for member in self.members.values() if member.state is State.SERVING]
        end = tuple(name for name, member in self.members.items() if member.state is State.STARTING)
        for name in end:
            del self.members[name]
        for member in serving:
            member.state, member.since_s = State.DRAINING, now_s
        return Actions(drain=tuple(member.name for member in serving), end=end)

    def failed_to_start(self, now_s: float, name: str, *, is_permanent: bool = True) -> None:
        """Removes a worker whose process could not be created, and delays the next start. Decides nothing else.

        Args:
            now_s: The time.
            name: The worker.
            is_permanent: Whether the reason stays if nobody acts. Only such failures count as failed starts.
        """
        self.members.pop(name, None)
        if is_permanent:
            self._delay_starts(now_s)
        else:
            self._retry_s = max(self._retry_s, now_s + RETRY_MIN_S)

    @property
    def failed_starts(self) -> int:
        """The number of consecutive workers that failed before they served."""
        return self._failed_starts

    def _started(self, now_s: float, count: int) -> tuple[str, ...]:
        names = tuple(f"{self._prefix}-{self._count + number}" for number in range(max(count, 0)))
        self._count += len(names)
        self.members.update({name: Member(name, State.STARTING, now_s, now_s) for name in names})
        return names

    def _ended(self, now_s: float, found: Observation) -> Iterable[str]:
        """Yields the names of workers that have ended or failed, and updates the states of all others."""
        registers_again = found.addresses is not None and found.dispatcher_age_s < REJOIN_S
        for name, member in self.members.items():
            address = (found.addresses or {}).get(name)
            if address is not None:
                member.seen_s, member.address = now_s, address
                if member.state is State.STARTING:
                    member.state, member.since_s = State.SERVING, now_s
                    self._failed_starts = 0
            elif found.addresses is None or registers_again:
                # Without a list that is complete, no worker counts as missing.
                member.seen_s = now_s
            if self._has_ended(now_s, member, found):
                yield name

    def _has_ended(self, now_s: float, member: Member, found: Observation) -> bool:
        has_failed = member.name in found.failed
        match member.state:
            case State.DRAINING:
                return has_failed or member.name in found.drained or now_s - member.since_s > self._drain_timeout_s
            case State.SERVING:
                return has_failed or now_s - member.seen_s > MISSING_S
            case State.STARTING:
                if not has_failed and now_s - member.since_s <= self._start_timeout_s:
                    return False
                self._delay_starts(now_s)
                return True

    def _delay_starts(self, now_s: float) -> None:
        """Counts a failed start, and delays the next start."""
        self._failed_starts += 1
        doublings = min(self._failed_starts - 1, 16)
        self._retry_s = now_s + min(RETRY_MIN_S * 2**doublings, RETRY_MAX_S)
