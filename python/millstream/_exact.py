"""Reads a dataset exactly once through a service: its batches, and the position of a trainer as a few numbers.

The workers run the dataset on each split of its source alone. This module knows how positions are counted, and leaves the order of elements to the
extension.
"""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Callable
from typing import Any

from ._dataset import Dataset
from ._exact_places import Place
from ._loading import StreamLoading
from ._millstream import place_after, steps_left
from ._positions import Delivered
from ._ranks import Rank
from ._steps import Steps
from .errors import InternalError, InvalidArgumentError
from .service import SKIPS_MAX, ExactTerms, distribute_exactly

__all__ = ["CountedLoading", "ExactLoading", "chosen_loading"]

_LOG = logging.getLogger("millstream")

#: The number of delivered batches whose positions the loader remembers, for trainers that prefetch.
_PLACES_MAX = 4096


def chosen_loading(
    dataset: Dataset, seed: int, rank: Rank, last_batch: str | None, visitation: str | None, on_workers: bool, max_skips: int
) -> ExactLoading | None:
    """Returns the batches of a trainer that reads exactly once; ``None`` if the loader reads with the guarantees of the sharding policy.

    Raises:
        InvalidArgumentError: The dataset cannot be read exactly once, or ``max_skips`` is out of range or belongs to another reading.
    """
    if not 0 <= max_skips <= SKIPS_MAX:
        raise InvalidArgumentError(f"max_skips={max_skips}: expected a number of splits from 0 to {SKIPS_MAX}")
    exact = None
    if visitation == "exactly_once":
        exact = exact_loading(dataset, seed, rank, last_batch, max_skips)
    elif visitation is None and on_workers:
        exact = exact_by_default(dataset, seed, rank, last_batch, max_skips)
    if max_skips and exact is None:
        raise InvalidArgumentError(f"max_skips={max_skips} needs exactly-once reading: pass visitation='exactly_once', or leave max_skips out")
    return exact


def exact_by_default(dataset: Dataset, seed: int, rank: Rank, last_batch: str | None, max_skips: int = 0) -> ExactLoading | None:
    """Returns the batches of a trainer, or ``None`` if exactly-once reading would refuse the dataset or yield other batches.

    Splits of the dataset alone may yield other batches than the whole dataset, for example smaller ones after a filter.
    """
    try:
        is_alike = dataset._executed.exactly_once(seed).is_alike_on_splits()
        return exact_loading(dataset, seed, rank, last_batch, max_skips) if is_alike else None
    except (InvalidArgumentError, ValueError) as error:
        _LOG.debug("the loader reads with the guarantees of the sharding policy, because: %s", error)
        return None


def exact_loading(dataset: Dataset, seed: int, rank: Rank, last_batch: str | None, max_skips: int = 0) -> ExactLoading:
    """Returns the batches of a trainer. The positions are computed if the dataset determines the number of batches.

    With ``max_skips`` the number of batches is unknown, because a skipped split has fewer of them.

    Raises:
        InvalidArgumentError: The dataset cannot be read exactly once, or ``last_batch`` needs the number of batches and it is unknown.
    """
    if last_batch == "FILL":
        raise InvalidArgumentError("last_batch='FILL' repeats batches, which visitation='exactly_once' excludes: use 'PARTIAL' or 'DROP'")
    counts = dataset._executed.exactly_once(seed).split_counts()
    if max_skips and last_batch == "DROP":
        raise InvalidArgumentError(
            f"last_batch='DROP' needs the number of batches, which max_skips={max_skips} makes unknown: use last_batch='PARTIAL'"
        )
    if counts is not None and not max_skips:
        return CountedLoading(dataset, seed, rank, counts, last_batch == "DROP")
    if last_batch == "DROP":
        raise InvalidArgumentError(
            "last_batch='DROP' needs the number of batches of all trainers, and an operation such as a filter decides this number while it "
            "runs: use last_batch='PARTIAL'"
        )
    return ExactLoading(dataset, seed, rank, max_skips)


class ExactLoading(StreamLoading):
    """A dataset whose elements are batches, each delivered exactly once in an order that depends on dataset, seed and epoch.

    The number of batches is unknown, so the loader records the position after each batch. A state belongs to one trainer.
    """

    def __init__(self, dataset: Dataset, seed: int, rank: Rank, max_skips: int = 0) -> None:
        super().__init__(dataset)
        self._seed, self._rank, self._max_skips = seed, rank, max_skips
        #: The position at which an epoch continues: its number, the number of its delivered batches, and the place.
        self._resumes: tuple[int, int, Place] | None = None
        #: The positions after the latest batches, by epoch and number of delivered batches.
        self._places: collections.OrderedDict[tuple[int, int], Place] = collections.OrderedDict()

    def steps(self, epoch: int) -> int:
        """Raises ``TypeError``, because the number of batches depends on the splits of the source."""
        raise TypeError("the number of batches of an exactly-once epoch is unknown before its end: iterate without len()")

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered."""
        first, place, skipped = delivered.first, self._known(epoch, delivered.first), 0
        if place is None:
            # The place is unknown, so the epoch is read from its start up to the batch.
            place, skipped = Place(), first
        elements = self._elements(epoch, place, service, output, is_numbered=True)
        elements.skip(skipped)
        numbers, earlier = itertools.count(first), place.had

        def numbered(element: Any) -> tuple[int, Any]:
            (split, position), batch = element
            # The second number is four times the position, plus the part of the split.
            step, split, position = next(numbers), int(split), int(position) // 4
            had = {later: count for later, count in earlier.items() if later > split}
            self._note(epoch, step + 1, Place(split, {split: position + 1, **had}))
            return step, batch

        return Steps(elements, numbered)

    def _elements(self, epoch: int, place: Place, service: Any, output: str, *, is_numbered: bool) -> Any:
        """Opens a job that continues at a place."""
        own = self._rank.dp_rank, self._rank.dp_size
        terms = ExactTerms(self._seed, *own, place.split, place.had, is_numbered, self._max_skips)
        dataset = self._dataset.apply(distribute_exactly(service, terms)).with_output(output)
        return dataset._pass(epoch)

    def _known(self, epoch: int, step: int) -> Place | None:
        """Returns the position after a step, if it is known."""
        place = self._places.get((epoch, step))
        if place is None and self._resumes is not None and self._resumes[:2] == (epoch, step):
            place = self._resumes[2]
        return place

    def _note(self, epoch: int, step: int, place: Place) -> None:
        self._places[(epoch, step)] = place
        if len(self._places) > _PLACES_MAX:
            self._places.popitem(last=False)

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return {"visitation": "exactly_once", "seed": self._seed, "trainers": self._rank.dp_size}

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position after a step: the split, and the number of its elements that were delivered."""
        place = self._known(epoch, step)
        if place is None and step:
            raise InvalidArgumentError(f"the position after batch {step} is no longer known: only the last {_PLACES_MAX} positions are")
        return {**(place or Place()).to_state(), "trainer": self._rank.dp_rank}

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Restores the position of a state, and returns its step."""
        for name, mine in self.identity().items():
            if state.get(name) != mine:
                advice = ": join the states of all trainers with ms.joined_states" if name == "trainers" else ""
                raise InvalidArgumentError(f"the state has {name} {state.get(name)!r}, this loader {mine!r}{advice}")
        if state["trainer"] not in (None, self._rank.dp_rank):
            raise InvalidArgumentError(f"the state belongs to trainer {state['trainer']}, this is trainer {self._rank.dp_rank}: use its own state")
        self._resumes = int(state["epoch"]), step, Place.from_state(state)
        self._places.clear()
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Returns an empty string, because the order is fixed."""
        return ""

    def sharded(self, num_shards: int, index: int) -> ExactLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return ExactLoading(self._dataset, self._seed, Rank(index, num_shards, "arguments"), self._max_skips)


class CountedLoading(ExactLoading):
    """An exactly-once dataset whose number of batches is known. The position after a step is computed, and is the same on all trainers.

    ``counts`` has the number of splits, of batches of every split except the last one, and of batches of the last split.
    """

    def __init__(self, dataset: Dataset, seed: int, rank: Rank, counts: tuple[int, int, int], drops: bool) -> None:
        super().__init__(dataset, seed, rank)
        self._counts, self._drops = counts, drops

    def steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch of this trainer; with ``last_batch="DROP"`` the number of all trainers."""
        return min(self._all_steps(epoch)) if self._drops else self._all_steps(epoch)[self._rank.dp_rank]

    def _all_steps(self, epoch: int) -> list[int]:
        """Returns the number of batches of each trainer."""
        step, place = self._start(epoch)
        trainers = range(self._rank.dp_size)
        return [step + steps_left(self._counts, (place.split, place.had), trainer, len(trainers)) for trainer in trainers]

    def _start(self, epoch: int) -> tuple[int, Place]:
        """Returns the first step of this number of trainers in an epoch, and its position."""
        if self._resumes is None or self._resumes[0] != epoch:
            return 0, Place()
        return self._resumes[1:]

    def _known(self, epoch: int, step: int) -> Place | None:
        """Returns the position of all trainers after a step; ``None`` before the step at which these trainers began."""
        first, place = self._start(epoch)
        if step < first:
            return None
        return Place(*place_after(self._counts, (place.split, place.had), self._rank.dp_size, step - first))

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered."""
        first = delivered.first
        if first < self._start(epoch)[0]:
            # The program begins the epoch of a loaded state again, with this number of trainers from its start.
            self._resumes = None
        elements = self._elements(epoch, self._known(epoch, first) or Place(), service, output, is_numbered=False)
        numbers = itertools.count(first)
        return _CountedSteps(elements, lambda element: (next(numbers), element), self.steps(epoch) - first, self._drops)

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return super().identity() | {"trainers": None, "splits": list(self._counts)}

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position of all trainers after a step."""
        return super().state_after(epoch, step) | {"trainer": None}

    def ends_epoch(self, epoch: int, step: int) -> bool:
        """Returns whether no trainer has batches after a step."""
        return step >= (self.steps(epoch) if self._drops else max(self._all_steps(epoch)))

    def sharded(self, num_shards: int, index: int) -> ExactLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return CountedLoading(self._dataset, self._seed, Rank(index, num_shards, "arguments"), self._counts, self._drops)


class _CountedSteps(Steps):
    """The next ``count`` batches of an epoch. With ``drops`` the remaining elements are not read."""

    def __init__(self, elements: Any, number: Callable[[Any], tuple[int, Any]], count: int, drops: bool) -> None:
        super().__init__(elements, number)
        self._left, self._drops = count, drops

    def __next__(self) -> tuple[int, Any]:
        if self._left == 0 and self._drops:
            self.elements.close()
            raise StopIteration
        try:
            found = super().__next__()
        except StopIteration:
            if self._left:
                raise InternalError(f"the epoch ended {self._left} batches before its computed number: report this defect, with the dataset") from None
            raise
        self._note()
        return found

    def ready(self, otherwise: Any) -> Any:
        """Returns the next batch if it is available. Returns ``otherwise`` if no batch is available, or at the end."""
        if self._left == 0 and self._drops:
            return otherwise
        found = super().ready(otherwise)
        if found is not otherwise:
            self._note()
        return found

    def _note(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise InternalError("the epoch has more batches than its computed number: report this defect, with the dataset")
