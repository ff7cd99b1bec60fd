"""The ledger of a run: the records of each step of each trainer, and their comparison with an undisturbed run.

This module counts along the surviving lineage: records after the last saved state of a killed trainer were rolled back with its model.
The module knows no process and no peer.
"""

import collections
import dataclasses
from collections.abc import Sequence

#: The records of one step: the indices that each trainer received. The list of a trainer that ended is empty.
Step = list[list[int]]


@dataclasses.dataclass
class Generation:
    """The steps of the trainers that ran together, until they were killed or the epoch ended."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    #: The number of steps before the last saved state, or nothing if the trainers reached the end of the epoch.
    saved_steps: int | None = None
    #: The number of records whose checksum differs from that of the dataset.
    damaged: int = 0

    def survived(self) -> list[Step]:
        """Returns the steps of the surviving lineage."""
        return self.steps if self.saved_steps is None else self.steps[: self.saved_steps]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The comparison of the surviving steps with the dataset and with an undisturbed run."""

    lost: int
    repeated: int
    damaged: int
    same_order: bool


def judge(generations: Sequence[Generation], undisturbed: Sequence[Step], records: int) -> Verdict:
    """Compares the surviving steps of all generations with the indices from 0 to ``records`` (exclusive)."""
    steps = [step for generation in generations for step in generation.survived()]
    seen = collections.Counter(index for step in steps for indices in step for index in indices)
    return Verdict(
        lost=len(set(range(records)).difference(seen)),
        repeated=sum(times - 1 for times in seen.values()),
        damaged=sum(generation.damaged for generation in generations),
        same_order=is_same_order(steps, undisturbed),
    )


def is_same_order(steps: Sequence[Step], undisturbed: Sequence[Step]) -> bool:
    """Returns whether two runs have the same order, for any numbers of trainers.

    The order is the same if the indices are equal one by one (step by step, and within a step trainer by trainer), or if every step has
    the same set of indices. With equal numbers of trainers, each trainer must also have the same indices in its steps.
    """
    if [len(step) for step in steps] == [len(step) for step in undisturbed]:
        return list(steps) == list(undisturbed)
    if _flat(steps) == _flat(undisturbed):
        return True
    return [sorted(_flat([step])) for step in steps] == [sorted(_flat([step])) for step in undisturbed]


def _flat(steps: Sequence[Step]) -> list[int]:
    return [index for step in steps for indices in step for index in indices]
