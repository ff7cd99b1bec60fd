"""The ledger of a reading: every element that a reader handed over, when, and how the reading ended."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Splits that a source of positions is cut into, and positions that one split has at most. Both are contracts of
#: ``Units::of`` in the pipeline.
SPLITS_WANTED = 1024
SPLIT_POSITIONS_MAX = 4096


@dataclass(frozen=True)
class Batch:
    """Elements that were handed over together."""

    #: Seconds of the machine's monotonic clock, which all processes share.
    at_s: float
    numbers: Sequence[int]


@dataclass
class Ledger:
    """The log of one reader."""

    batches: list[Batch] = field(default_factory=list)
    #: "ok", "lost", "error", or nothing if the reader was killed.
    outcome: str | None = None
    message: str = ""
    ended_at_s: float | None = None
    #: Splits that the reader was told are lost: the first and the number of splits of each run.
    lost_splits: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Returns the ledger in a file. A last line that a killed reader left unfinished is skipped."""
        ledger = cls()
        for line in path.read_text().splitlines():
            try:
                record: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:
                break
            if "numbers" in record:
                ledger.batches.append(Batch(record["at_s"], record["numbers"]))
            elif "outcome" in record:
                ledger.outcome, ledger.message = record["outcome"], record["message"]
                ledger.ended_at_s = record["at_s"]
                ledger.lost_splits = [(first, count) for first, count in record["lost"]]
        return ledger

    def longest_wait_s(self, since_s: float) -> float:
        """Returns the longest time between two events of this reader that ended after ``since_s``."""
        moments = [batch.at_s for batch in self.batches]
        if self.ended_at_s is not None:
            moments.append(self.ended_at_s)
        waits = [after - before for before, after in itertools.pairwise(moments) if after > since_s]
        return max(waits, default=0.0)


@dataclass(frozen=True)
class Verdict:
    """The comparison of what readers logged with what the dataset has."""

    missing: int
    #: Elements that are missing although no reader was told that their split is lost.
    unreported: int
    #: Elements of splits that a reader was told are lost.
    reported: int
    twice: int
    #: Numbers that the dataset does not have.
    alien: int

    @property
    def is_honest(self) -> bool:
        """Returns whether all that is missing was reported, and nothing came twice."""
        return self.unreported == self.twice == self.alien == 0


def positions_of(splits: Iterable[tuple[int, int]], elements: int) -> set[int]:
    """Returns the positions of runs of splits of a source with ``elements`` positions."""
    unit = min(max(-(-elements // SPLITS_WANTED), 1), SPLIT_POSITIONS_MAX)
    return {
        position for first, count in splits for position in range(first * unit, min((first + count) * unit, elements))
    }


def judge(ledgers: Sequence[Ledger], elements: int) -> Verdict:
    """Compares what all readers together logged with the numbers from 0 up to ``elements``."""
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
