"""The ledger of a reader: every element that the reader returned, with its time, and the reader's outcome."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

#: The number of splits of a source of positions, and the maximum number of positions in one split. ``Units::of`` in the pipeline
#: guarantees both numbers.
SPLITS_WANTED = 1024
SPLIT_POSITIONS_MAX = 4096


@dataclass(frozen=True)
class Batch:
    """Elements that the reader returned together."""

    #: The time in seconds on the machine's monotonic clock, which all processes share.
    at_s: float
    numbers: Sequence[int]


@dataclass
class Ledger:
    """The log of one reader."""

    batches: list[Batch] = field(default_factory=list)
    #: The outcome of the reader: "ok", "lost", "error", or nothing if the reader was killed.
    outcome: str | None = None
    message: str = ""
    ended_at_s: float | None = None
    #: The splits that were reported lost to the reader: the first split and the number of splits of each run.
    lost_splits: list[tuple[int, int]] = field(default_factory=list)
    #: The last saved position of a trainer, and the number of batches before it.
    state: dict[str, Any] | None = None
    saved_batches: int = 0

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Returns the ledger in a file. Skips an unfinished last line, which a killed reader may leave."""
        ledger = cls()
        for line in path.read_text().splitlines():
            try:
                record: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:
                break
            if "numbers" in record:
                ledger.batches.append(Batch(record["at_s"], record["numbers"]))
            elif "state" in record:
                ledger.state, ledger.saved_batches = record["state"], len(ledger.batches)
            elif "outcome" in record:
                ledger.outcome, ledger.message = record["outcome"], record["message"]
                ledger.ended_at_s = record["at_s"]
                ledger.lost_splits = [(first, count) for first, count in record["lost"]]
        return ledger

    def saved(self) -> Ledger:
        """Returns the part of the ledger up to the last saved position. Another trainer reads the later batches again."""
        return replace(self, batches=self.batches[: self.saved_batches])

    def longest_wait_s(self, since_s: float) -> float:
        """Returns the longest time between two consecutive events of this reader, if the second one is after ``since_s``."""
        moments = [batch.at_s for batch in self.batches]
        if self.ended_at_s is not None:
            moments.append(self.ended_at_s)
        waits = [after - before for before, after in itertools.pairwise(moments) if after > since_s]
        return max(waits, default=0.0)


@dataclass(frozen=True)
class Verdict:
    """The comparison of the readers' ledgers with the dataset."""

    missing: int
    #: The number of missing elements whose split was not reported lost to any reader.
    unreported: int
    #: The number of elements in splits that were reported lost to a reader.
    reported: int
    twice: int
    #: The number of read numbers that are not in the dataset.
    alien: int

    @property
    def is_honest(self) -> bool:
        """Returns whether all missing elements were reported lost, and no element was read twice."""
        return self.unreported == self.twice == self.alien == 0


def positions_of(splits: Iterable[tuple[int, int]], elements: int) -> set[int]:
    """Returns the positions in runs of splits, for a source with ``elements`` positions."""
    unit = min(max(-(-elements // SPLITS_WANTED), 1), SPLIT_POSITIONS_MAX)
    return {
        position for first, count in splits for position in range(first * unit, min((first + count) * unit, elements))
    }


def judge(ledgers: Sequence[Ledger], elements: int) -> Verdict:
    """Compares the ledgers of all readers with the numbers from 0 to ``elements`` (exclusive)."""
    seen = Counter(number for ledger in ledgers for batch in ledger.batches for number in batch.numbers)
    missing = set(range(elements)).difference(seen)
    reported = positions_of((run for ledger in ledgers for run in ledger.lost_splits), elements)
    return Verdict(
        missing=len(missing),
        unreported=len(missing - reported),
        reported=len(reported),
        twice=sum(times - 1 for times in seen.values()),
        alien=sum(not 0 <= number < elements for number in seen),
    )
