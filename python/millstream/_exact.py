"""Reads a dataset exactly once through a service: its batches, and the position of a trainer as a few numbers.

The workers run the dataset on each split of its source alone. This module knows how positions are counted, and leaves the order of elements to the
extension.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from ._dataset import Dataset
from ._loading import StreamLoading
from ._millstream import joined_places
from ._mix_plan import joined_mixtures
from ._positions import Delivered
from ._ranks import Rank
from ._steps import Steps
from .errors import InvalidArgumentError
from .service import ExactTerms, distribute_exactly

__all__ = ["ExactLoading", "joined_states"]

#: The number of delivered batches whose positions the loader remembers, for trainers that prefetch.
_PLACES_MAX = 4096


@dataclasses.dataclass(frozen=True)
class _Place:
    """The position of a trainer: the first split of which elements are left, and the number of elements that trainers have of each split."""

    split: int = 0
    had: dict[int, int] = dataclasses.field(default_factory=dict)


class ExactLoading(StreamLoading):
    """A dataset whose elements are batches, each delivered exactly once in an order that depends on dataset, seed and epoch."""

    def __init__(self, dataset: Dataset, seed: int, rank: Rank) -> None:
        super().__init__(dataset)
        self._seed, self._rank = seed, rank
        #: The position at which an epoch continues: its number, the number of its delivered batches, and the place.
        self._resumes: tuple[int, int, _Place] | None = None
        #: The positions after the latest batches, by epoch and number of delivered batches.
        self._places: collections.OrderedDict[tuple[int, int], _Place] = collections.OrderedDict()

    def steps(self, epoch: int) -> int:
        """Raises ``TypeError``, because the number of batches depends on the splits of the source."""
        raise TypeError("the number of batches of an exactly-once epoch is unknown before its end: iterate without len()")

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered."""
        first, place, skipped = delivered.first, self._places.get((epoch, delivered.first)), 0
        if place is None and self._resumes is not None and self._resumes[:2] == (epoch, first):
            place = self._resumes[2]
        if place is None:
            # The place is unknown, so the epoch is read from its start up to the batch.
            place, skipped = _Place(), first
        terms = ExactTerms(self._seed, self._rank.dp_rank, self._rank.dp_size, place.split, place.had, True)
        dataset = self._dataset.apply(distribute_exactly(service, terms)).with_output(output)
        elements = dataset._pass(epoch)
        elements.skip(skipped)
        numbers, earlier = itertools.count(first), place.had

        def numbered(element: Any) -> tuple[int, Any]:
            split, position, _, batch = element
            step, split = next(numbers), int(split)
            had = {later: count for later, count in earlier.items() if later > split}
            self._note(epoch, step + 1, _Place(split, {split: int(position) + 1, **had}))
            return step, batch

        return Steps(elements, numbered)

    def _note(self, epoch: int, step: int, place: _Place) -> None:
        self._places[(epoch, step)] = place
        if len(self._places) > _PLACES_MAX:
            self._places.popitem(last=False)

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return {"visitation": "exactly_once", "seed": self._seed, "trainers": self._rank.dp_size}

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position after a step: the split, and the number of its elements that were delivered."""
        place = self._places.get((epoch, step))
        if place is None and self._resumes is not None and self._resumes[:2] == (epoch, step):
            place = self._resumes[2]
        if place is None and step:
            raise InvalidArgumentError(f"the position after batch {step} is no longer known: only the last {_PLACES_MAX} positions are")
        place = place or _Place()
        return {"split": place.split, "had": {str(split): count for split, count in place.had.items()}, "trainer": self._rank.dp_rank}

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Restores the position of a state, and returns its step."""
        for name, mine in self.identity().items():
            if state.get(name) != mine:
                advice = ": join the states of all trainers with ms.joined_states" if name == "trainers" else ""
                raise InvalidArgumentError(f"the state has {name} {state.get(name)!r}, this loader {mine!r}{advice}")
        if state["trainer"] not in (None, self._rank.dp_rank):
            raise InvalidArgumentError(f"the state belongs to trainer {state['trainer']}, this is trainer {self._rank.dp_rank}: use its own state")
        had = {int(split): int(count) for split, count in state["had"].items()}
        self._resumes = int(state["epoch"]), step, _Place(int(state["split"]), had)
        self._places.clear()
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Returns an empty string, because the order is fixed."""
        return ""

    def sharded(self, num_shards: int, index: int) -> ExactLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return ExactLoading(self._dataset, self._seed, Rank(index, num_shards, "arguments"))


def joined_states(states: Sequence[dict[str, Any]], trainers: int) -> dict[str, Any]:
    """Joins the states of all trainers of an exactly-once epoch, so that another number of trainers continues it.

    The function also joins the states of a mixture on all trainers. Its exactly-once components are joined one by one.

    Args:
        states: The ``state_dict()`` of every trainer, in any order, all of one epoch.
        trainers: The number of trainers that continue.

    Returns:
        The state that each of the new trainers loads.

    Raises:
        InvalidArgumentError: A trainer's state is missing, or the states belong to different epochs or jobs.

    Example:
        >>> first = {"version": 1, "epoch": 0, "step": 1, "finished": False, "ahead": [], "visitation": "exactly_once", "seed": 0}
        >>> states = [first | {"trainers": 2, "trainer": n, "split": n, "had": {str(n): 1}} for n in range(2)]
        >>> ms.joined_states(states, 3)["had"]
        {'0': 1, '1': 1}
    """
    if states and all("components" in state for state in states):
        return joined_mixtures(states, trainers, joined_states)
    count = len(states)
    if sorted(state.get("trainer", -1) for state in states) != list(range(count)) or any(state.get("trainers") != count for state in states):
        raise InvalidArgumentError(f"expected one state of each of the trainers of an exactly-once job, found {count} states of other trainers")
    shared = [{name: state[name] for name in ("version", "epoch", "seed")} for state in states]
    if any(other != shared[0] for other in shared):
        raise InvalidArgumentError("the states belong to different epochs, seeds or versions: join states of one step")
    ordered = sorted(states, key=lambda state: int(state["trainer"]))
    places = [(int(state["split"]), {int(key): int(value) for key, value in state["had"].items()}) for state in ordered]
    split, had = joined_places(places)
    return {
        **states[0],
        "step": max(state["step"] for state in states),
        # A trainer with fewer splits or batches ends the epoch before the others.
        "finished": all(state["finished"] for state in states),
        "split": split,
        "had": {str(key): value for key, value in sorted(had.items())},
        "trainers": trainers,
        "trainer": None,
    }
