"""The result of a round, and the time until the service notices a fault."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .ledger import Verdict
from .processes import Cluster


class Skipped(Exception):
    """The reason why a case cannot run here.

    Args:
        reason: The missing part.
        is_missing: Whether the machine lacks a tool. Otherwise, a version lacks the tested feature.
    """

    def __init__(self, reason: str, *, is_missing: bool) -> None:
        super().__init__(reason)
        self.is_missing = is_missing


@dataclass(frozen=True)
class Round:
    """The result of one round of a case."""

    kind: str
    verdict: Verdict
    #: The longest wait of a surviving reader in seconds, among the waits that ended after the fault.
    wait_s: float
    #: The seconds from the fault until the status showed it, if the case measures them.
    noticed_s: float | None
    outcomes: tuple[str | None, ...]
    messages: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Returns whether every surviving reader either read all elements or reported the lost elements."""
        ends = [outcome for outcome in self.outcomes if outcome is not None]
        return self.verdict.is_honest and bool(ends) and all(outcome in ("ok", "lost") for outcome in ends)


def noticed(cluster: Cluster, address: str, fault_s: float) -> float:
    """Blocks until the status shows the worker as dead. Returns the seconds since the fault."""
    for status in cluster.statuses(f"the status does not show worker {address} as dead"):
        # A worker that was declared dead before and came back has two rows.
        are_dead = [worker["dead"] is not None for worker in status["workers"] if worker["address"] == address]
        if are_dead and all(are_dead):
            return time.monotonic() - fault_s
    raise AssertionError("the statuses ended without an error")
