"""Reads a dataset exactly once through a service: its batches, and the position of a trainer as a few numbers.

The workers run the dataset on each split of its source alone. This module knows when positions are known, and leaves the order of elements to
the extension.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from ._dataset import INFINITE_CARDINALITY, Dataset
from ._exact_places import Place, element_of
from ._iteration import END, within
from ._lineage import Lineage, part_of
from ._loading import StreamLoading
from ._millstream import EpochLineage, element_after, place_after, steps_left
from ._positions import Delivered
from ._ranks import Rank
from ._steps import Steps
from .errors import InternalError, InvalidArgumentError, OutOfRangeError
from .service import Distribution, ExactLimits, ExactTerms, distribute_exactly

__all__ = ["CountedLoading", "ExactLoading", "LoadingTerms", "UnorderedLoading", "chosen_loading", "distributed_terms", "exact_loading"]

_LOG = logging.getLogger("millstream")

#: The number of delivered batches whose positions the loader remembers, for trainers that prefetch.
_PLACES_MAX = 4096

#: The maximum number of batches that the loader reads to find the lineage of a step.
_READ_MAX = 4096


@dataclasses.dataclass(frozen=True)
class LoadingTerms:
    """The terms on which a trainer reads a dataset.

    Attributes:
        seed: The seed of operations that have no seed of their own.
        rank: The number of this trainer, and the number of trainers.
        last_batch: The end of an epoch, as in ``ms.DataLoader``.
        in_order: Whether the order is fixed.
        limits: The limits on splits that end their workers, and on elements that fail.
        reader: Returns the function that distributes the dataset to a service, on the terms of a job.
    """

    seed: int
    rank: Rank
    last_batch: str | None = None
    in_order: bool = True
    limits: ExactLimits = ExactLimits()
    reader: Callable[[Any, ExactTerms], Callable[[Dataset], Dataset]] = distribute_exactly


def distributed_terms(distribution: Distribution, last_batch: str | None, passed: dict[str, Any]) -> LoadingTerms:
    """Returns the terms on which a trainer reads a dataset that ``ms.service.distribute`` reads exactly once.

    Args:
        distribution: The dataset, and the arguments of ``ms.service.distribute``.
        last_batch: The end of an epoch, as in ``ms.DataLoader``.
        passed: The arguments of the loader that ``ms.service.distribute`` has, too. ``None`` stands for an argument that was not passed.

    Raises:
        InvalidArgumentError: An argument of the loader contradicts ``ms.service.distribute``.
    """
    exact = distribution.exact
    own = {"service": distribution.service, "visitation": "exactly_once", "seed": exact.seed, "in_order": not exact.any_order}
    own |= {"dp_rank": exact.trainer, "dp_size": exact.trainers, **dataclasses.asdict(exact.limits)}
    if wrong := [name for name, value in passed.items() if value not in (None, own[name])]:
        mine, theirs = (", ".join(f"{name}={values[name]!r}" for name in wrong) for values in (passed, own))
        raise InvalidArgumentError(
            f"the loader has {mine}, and ms.service.distribute reads the dataset with {theirs}: pass {', '.join(wrong)} to ms.service.distribute alone"
        )
    rank = Rank(exact.trainer, exact.trainers, "ms.service.distribute")
    return LoadingTerms(exact.seed, rank, last_batch, not exact.any_order, exact.limits, distribution.reader)


def chosen_loading(dataset: Dataset, terms: LoadingTerms, visitation: str | None, on_workers: bool) -> ExactLoading | None:
    """Returns the batches of a trainer that reads exactly once; ``None`` if the loader reads with the guarantees of the sharding policy.

    Raises:
        InvalidArgumentError: The dataset cannot be read exactly once, or a limit is out of range or belongs to another reading.
    """
    if unfit := terms.limits.unfit():
        raise InvalidArgumentError(unfit)
    exact, warning = None, ""
    if visitation == "exactly_once":
        exact = exact_loading(dataset, terms)
    elif visitation is None and on_workers:
        exact, warning = exact_by_default(dataset, terms)
    given = terms.limits.given()
    if given and exact is None:
        name = given.partition("=")[0]
        raise InvalidArgumentError(f"{given} needs exactly-once reading: pass visitation='exactly_once', or leave {name} out")
    if warning:
        _LOG.warning("%s", warning)
    return exact


def exact_by_default(dataset: Dataset, terms: LoadingTerms) -> tuple[ExactLoading | None, str]:
    """Returns the batches of a trainer, or ``None`` and a warning if exactly-once reading would refuse the dataset or yield other batches.

    Splits of the dataset alone may yield other batches than the whole dataset, for example smaller ones after a filter.
    """
    try:
        if dataset._executed.exactly_once(terms.seed).is_alike_on_splits():
            return exact_loading(dataset, terms), ""
        reason = "an operation such as a filter before a batch would yield smaller batches, because workers read each split alone"
        choice = "Pass visitation='exactly_once' for smaller batches, or visitation='upstream' for the present reading."
    except (InvalidArgumentError, ValueError) as error:
        reason = str(error).rstrip(".")
        choice = "Pass visitation='upstream' to read so without this message."
    found = f"The loader does not read exactly once: {reason}."
    return None, f"{found} Every trainer reads the whole dataset, and a lost worker may lose batches. {choice}"


def exact_loading(dataset: Dataset, terms: LoadingTerms) -> ExactLoading:
    """Returns the batches of a trainer. In a fixed order the positions are computed if the dataset determines the number of batches.

    With ``max_skips`` or ``max_quarantined`` the number of batches is unknown, because splits may have fewer of them.

    Raises:
        InvalidArgumentError: The dataset cannot be read exactly once, or ``last_batch`` needs the number of batches and it is unknown.
    """
    last_batch, unknown = terms.last_batch, terms.limits.unknown_lengths()
    if last_batch == "FILL":
        raise InvalidArgumentError("last_batch='FILL' repeats batches, which visitation='exactly_once' excludes: use 'PARTIAL' or 'DROP'")
    exact = dataset._executed.exactly_once(terms.seed)
    counts, is_endless = exact.split_counts(), exact.cardinality == INFINITE_CARDINALITY
    if unknown and last_batch == "DROP":
        raise InvalidArgumentError(f"last_batch='DROP' needs the number of batches, which {unknown} makes unknown: use last_batch='PARTIAL'")
    if unknown:
        counts = None
    if counts is None and last_batch == "DROP":
        raise InvalidArgumentError(
            "last_batch='DROP' needs the number of batches of all trainers, and an operation such as a filter decides this number while it "
            "runs: use last_batch='PARTIAL'"
        )
    if not terms.in_order:
        return UnorderedLoading(dataset, terms, None if is_endless else counts)
    if counts is not None:
        return CountedLoading(dataset, terms, counts, is_endless)
    return ExactLoading(dataset, terms)


class ExactLoading(StreamLoading):
    """A dataset whose elements are batches, each delivered exactly once in an order that depends on dataset, seed and epoch.

    The number of batches is unknown, so the loader records the position after each batch. A state belongs to one trainer.
    """

    #: Whether batches are delivered as they arrive.
    _is_any_order = False

    def __init__(self, dataset: Dataset, terms: LoadingTerms) -> None:
        super().__init__(dataset)
        self._terms, self._seed, self._rank = terms, terms.seed, terms.rank
        self._drops = terms.last_batch == "DROP"
        #: The position at which an epoch continues: its number, the number of its delivered batches, and the place.
        self._resumes: tuple[int, int, Place] | None = None
        #: The bytes of the positions after the latest batches, by epoch and number of delivered batches.
        self._places: collections.OrderedDict[tuple[int, int], bytes] = collections.OrderedDict()
        #: The records of the epoch that was asked for last.
        self._records: tuple[int, EpochLineage] | None = None
        #: The digest of the operations that decide the positions of batches; ``None`` until it is needed.
        self._digest: str | None = None

    def steps(self, epoch: int) -> int:
        """Raises ``TypeError``, because the number of batches depends on the splits of the source."""
        raise TypeError("the number of batches of an exactly-once epoch is unknown before its end: iterate without len()")

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered."""
        first, place, skipped = delivered.first, self._known(epoch, delivered.first), 0
        if place is None:
            # The place is unknown, so the epoch is read from its start up to the batch.
            place, skipped = Place(), first
        return self._placed_steps(epoch, first, place, skipped, service, output)

    def _placed_steps(self, epoch: int, first: int, place: Place, skipped: int, service: Any, output: str) -> Steps:
        """Returns the batches after a place, whose own places are noted."""
        elements = self._elements(epoch, place, service, output, is_placed=True)
        elements.skip(skipped)
        numbers = itertools.count(first)

        def placed(element: Any) -> tuple[int, Any]:
            place, batch = element
            step = next(numbers)
            self._note(epoch, step + 1, place)
            return step, batch

        return self._counted(elements, placed, epoch, first)

    def _counted(self, elements: Any, number: Callable[[Any], tuple[int, Any]], epoch: int, first: int) -> Steps:
        """Returns the batches of an epoch from a step on."""
        return Steps(elements, number)

    def _elements(self, epoch: int, place: Place, service: Any, output: str, *, is_placed: bool) -> Any:
        """Opens a job that continues at a place."""
        own = self._rank.dp_rank, self._rank.dp_size
        begins = place.split, place.had
        terms = ExactTerms(self._seed, *own, *begins, is_placed, self._terms.limits, self._is_any_order, place.files, place.quarantined)
        dataset = self._dataset.apply(self._terms.reader(service, terms)).with_output(output)
        return dataset._pass(epoch)

    def _start(self, epoch: int) -> tuple[int, Place]:
        """Returns the first step of this number of trainers in an epoch, and its position."""
        if self._resumes is None or self._resumes[0] != epoch:
            return 0, Place()
        return self._resumes[1:]

    def _known(self, epoch: int, step: int) -> Place | None:
        """Returns the position after a step, if it is known."""
        data = self._places.get((epoch, step))
        if data is not None:
            return Place.from_bytes(data)
        return self._resumes[2] if self._resumes is not None and self._resumes[:2] == (epoch, step) else None

    def _note(self, epoch: int, step: int, place: Any) -> None:
        self._places[(epoch, step)] = np.asarray(place).tobytes()
        if len(self._places) > _PLACES_MAX:
            self._places.popitem(last=False)

    def restart(self, epoch: int) -> None:
        """Forgets the positions of an epoch, because the epoch begins again with this number of trainers."""
        if self._resumes is not None and self._resumes[0] == epoch:
            self._resumes = None
        for known in [known for known in list(self._places) if known[0] == epoch]:
            del self._places[known]

    def lineage(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> Lineage:
        """Returns the records of the batch of a step. ``at`` returns the service, if batches must be read to find the answer."""
        split, position, is_reduced = self._element(epoch, step, at, timeout_s)
        if self._records is None or self._records[0] != epoch:
            self._records = epoch, EpochLineage.open(self._dataset._executed.exactly_once(self._seed), epoch)
        return Lineage(epoch, step, self._rank.dp_rank, (part_of(self._records[1], split, position, is_reduced=is_reduced),))

    def _element(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> tuple[int, int, bool]:
        """Returns the split of a step's batch, its position in the split, and whether the split leaves elements out.

        Reads batches if the loader has not delivered the step lately.
        """
        data = self._places.get((epoch, step + 1))
        return self._read_element(epoch, step, at, timeout_s) if data is None else element_of(data)

    def _read_element(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> tuple[int, int, bool]:
        """Returns a step's split, its position in it, and whether the split leaves elements out, by reading from the nearest known place on."""
        self._check_start(epoch, step)
        first, place = self._start(epoch)
        first = max([known for known_epoch, known in list(self._places) if known_epoch == epoch and known <= step], default=first)
        if step - first >= _READ_MAX:
            raise InvalidArgumentError(
                f"step {step} is {step - first} batches after step {first}, the nearest step with a known position, and at most {_READ_MAX} batches "
                "are read for an answer: load a state that was saved nearer before the step"
            )
        elements = self._elements(epoch, self._known(epoch, first) or place, at(), "numpy", is_placed=True)
        found: Any = None
        try:
            for _ in range(first, step + 1):
                found = within(timeout_s, elements, elements)
                if found is END:
                    raise OutOfRangeError(f"step {step}: epoch {epoch} has fewer steps on trainer {self._rank.dp_rank}")
        finally:
            elements.close()
        place, _ = found
        return element_of(np.asarray(place).tobytes())

    def _check_start(self, epoch: int, step: int) -> None:
        """Raises ``InvalidArgumentError`` for a step before the loaded state, because other trainers may have read until then."""
        if self._resumes is not None and (epoch, step) < self._resumes[:2]:
            raise InvalidArgumentError(
                f"step {step} of epoch {epoch} was delivered before step {self._resumes[1]} of epoch {self._resumes[0]}, where the loaded state "
                "continues, and the state does not contain earlier positions: load a state that was saved before the step, or ask a new loader if the "
                "number of trainers has not changed since"
            )

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return {"visitation": "exactly_once", "seed": self._seed, "trainers": self._rank.dp_size}

    def _dataset_digest(self) -> str:
        """Returns a text that differs between datasets in which a position has another meaning."""
        if self._digest is None:
            self._digest = self._dataset._executed.exactly_once(self._seed).positions_digest()
        return self._digest

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position after a step: the split, and the numbers of elements that were delivered."""
        place = self._known(epoch, step)
        if place is None and step:
            raise InvalidArgumentError(f"the position after batch {step} is no longer known: only the last {_PLACES_MAX} positions are")
        return {**(place or Place()).to_state(), "trainer": self._rank.dp_rank, "dataset": self._dataset_digest()}

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Restores the position of a state, and returns its step."""
        if "order" in state and not self._is_any_order:
            raise InvalidArgumentError("the state was saved with in_order=False, and this loader has in_order=True: create it with in_order=False")
        for name, mine in self.identity().items():
            if state.get(name) != mine:
                advice = ": join the states of all trainers with ms.joined_states" if name == "trainers" else ""
                raise InvalidArgumentError(f"the state has {name} {state.get(name)!r}, this loader {mine!r}{advice}")
        if state["trainer"] not in (None, self._rank.dp_rank):
            raise InvalidArgumentError(f"the state belongs to trainer {state['trainer']}, this is trainer {self._rank.dp_rank}: use its own state")
        # The next epoch may have another dataset, and the start of an epoch has no position.
        has_position = step > 0 and not state["finished"]
        if has_position and _is_of_another(state.get("dataset"), self._dataset_digest()):
            raise InvalidArgumentError(
                "the state belongs to a dataset with another source, or with other operations that decide the order of elements, so its position stands "
                "for other elements here: load it with the dataset for which it was saved. To load it anyway, remove its entries 'dataset' and 'checksum'"
            )
        place = Place.from_state(state)
        if has_position and place.quarantined and not self._terms.limits.max_quarantined:
            raise InvalidArgumentError(
                "the state names elements that were left out, on which the positions of later elements depend, and this loader has max_quarantined=0: "
                "pass the max_quarantined of the loader that saved the state"
            )
        self._resumes = int(state["epoch"]), step, place
        self._places.clear()
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Returns an empty string, because the order is fixed."""
        return ""

    def sharded(self, num_shards: int, index: int) -> ExactLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return self._with(dataclasses.replace(self._terms, rank=Rank(index, num_shards, "arguments")))

    def _with(self, terms: LoadingTerms) -> ExactLoading:
        """Returns the same dataset on other terms."""
        return ExactLoading(self._dataset, terms)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_records": None}


class CountedLoading(ExactLoading):
    """An exactly-once dataset whose number of batches is known. The position after a step is computed, and is the same on all trainers.

    ``counts`` has the number of splits, of batches of every split except the last one, and of batches of the last split. An endless dataset has
    more batches than any trainer reads.
    """

    def __init__(self, dataset: Dataset, terms: LoadingTerms, counts: tuple[int, int, int], is_endless: bool) -> None:
        super().__init__(dataset, terms)
        self._counts, self._is_endless = counts, is_endless

    def steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch of this trainer; with ``last_batch="DROP"`` the number of all trainers.

        Raises:
            TypeError: The dataset has no end.
        """
        if self._is_endless:
            raise TypeError("the dataset has no end: iterate without len(), and set a number of steps in the trainer")
        return self.computed_steps(epoch)

    def computed_steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch of this trainer, because the position after a step is computed."""
        return min(self._all_steps(epoch)) if self._drops else self._all_steps(epoch)[self._rank.dp_rank]

    def _all_steps(self, epoch: int) -> list[int]:
        """Returns the number of batches of each trainer."""
        return _steps_of_all(self._counts, *self._start(epoch), self._rank.dp_size)

    def _known(self, epoch: int, step: int) -> Place | None:
        """Returns the position of all trainers after a step; ``None`` before the step at which these trainers began."""
        first, place = self._start(epoch)
        if step < first:
            return None
        return Place(*place_after(self._counts, (place.split, place.had), self._rank.dp_size, step - first))

    def _element(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> tuple[int, int, bool]:
        """Returns the split of a step's batch, and its position in the split, without reading. The split leaves nothing out."""
        self._check_start(epoch, step)
        steps, (first, place) = self.computed_steps(epoch), self._start(epoch)
        trainer = self._rank.dp_rank, self._rank.dp_size
        found = element_after(self._counts, (place.split, place.had), trainer, step - first) if step < steps else None
        if found is None:
            raise OutOfRangeError(f"step {step}: epoch {epoch} has {steps} steps on trainer {self._rank.dp_rank}")
        return *found, False

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered."""
        first = delivered.first
        elements = self._elements(epoch, self._known(epoch, first) or Place(), service, output, is_placed=False)
        numbers = itertools.count(first)
        return self._counted(elements, lambda element: (next(numbers), element), epoch, first)

    def _counted(self, elements: Any, number: Callable[[Any], tuple[int, Any]], epoch: int, first: int) -> Steps:
        """Returns the batches of an epoch from a step on, whose number is checked."""
        return _CountedSteps(elements, number, self.computed_steps(epoch) - first, self._drops)

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return super().identity() | {"trainers": None, "splits": list(self._counts)}

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position of all trainers after a step."""
        return super().state_after(epoch, step) | {"trainer": None}

    def ends_epoch(self, epoch: int, step: int) -> bool:
        """Returns whether no trainer has batches after a step."""
        return step >= (self.computed_steps(epoch) if self._drops else max(self._all_steps(epoch)))

    def _with(self, terms: LoadingTerms) -> ExactLoading:
        """Returns the same dataset on other terms."""
        return CountedLoading(self._dataset, terms, self._counts, self._is_endless)


class UnorderedLoading(ExactLoading):
    """A dataset whose batches are delivered exactly once, as they arrive. The loader records the position after each batch.

    ``counts`` are those of ``CountedLoading``, or ``None`` if the number of batches is unknown or has no end.
    """

    _is_any_order = True

    def __init__(self, dataset: Dataset, terms: LoadingTerms, counts: tuple[int, int, int] | None) -> None:
        super().__init__(dataset, terms)
        self._counts = counts
        #: The numbers of batches in the epoch of a loaded state: of this trainer, and of the trainer with the fewest batches.
        self._loaded_steps: tuple[int, int] | None = None

    def steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch of this trainer; with ``last_batch="DROP"`` the number of all trainers."""
        found = self._known_steps(epoch)
        return super().steps(epoch) if found is None else found[self._drops]

    def _known_steps(self, epoch: int) -> tuple[int, int] | None:
        """Returns the number of batches of this trainer, and of the trainer with the fewest batches; ``None`` if unknown."""
        if self._counts is None:
            return None
        if self._loaded_steps is not None and self._resumes is not None and self._resumes[0] == epoch:
            # The state of one trainer does not have the positions of the others.
            return self._loaded_steps
        steps = _steps_of_all(self._counts, *self._start(epoch), self._rank.dp_size)
        return steps[self._rank.dp_rank], min(steps)

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch that were not delivered. Raises ``InvalidArgumentError`` if these are unknown."""
        first = delivered.first
        place = self._known(epoch, first) or (None if first else Place())
        if place is None:
            raise InvalidArgumentError(
                f"the position after batch {first} is unknown, because batches are delivered in any order: load the state with strict=True"
            )
        for known in [(one, step) for one, step in list(self._places) if one == epoch and step > first]:
            # The epoch began before, in another order.
            del self._places[known]
        return self._placed_steps(epoch, first, place, 0, service, output)

    def _read_element(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> tuple[int, int, bool]:
        """Raises an error, because the workers decide the order of batches."""
        steps = self._known_steps(epoch)
        if steps is not None and step >= steps[self._drops]:
            raise OutOfRangeError(f"step {step}: epoch {epoch} has {steps[self._drops]} steps on trainer {self._rank.dp_rank}")
        raise InvalidArgumentError(
            f"step {step} of epoch {epoch} is not among the last {_PLACES_MAX} steps that this loader delivered, and batches are delivered in any "
            "order: ask for a delivered step, or use in_order=True"
        )

    def _counted(self, elements: Any, number: Callable[[Any], tuple[int, Any]], epoch: int, first: int) -> Steps:
        """Returns the batches of an epoch from a step on, whose number is checked if it is known."""
        if self._counts is None:
            return super()._counted(elements, number, epoch, first)
        return _CountedSteps(elements, number, self.steps(epoch) - first, self._drops)

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        return super().identity() | {"order": "any"} | ({} if self._counts is None else {"splits": list(self._counts)})

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the position of this trainer after a step, and the numbers of batches if they are known."""
        steps = self._known_steps(epoch)
        return super().state_after(epoch, step) | ({} if steps is None else {"steps": list(steps)})

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Restores the position of a state in any order or in a fixed order, and returns its step."""
        if "order" not in state:
            # A state in a fixed order without a number of trainers has the position of all trainers.
            trainers = state.get("trainers") or (self._rank.dp_size if state.get("trainer", 0) is None else None)
            state = {**state, "order": "any", "trainers": trainers}
        step = super().adapted(state, step)
        self._loaded_steps = tuple(state["steps"]) if "steps" in state else None
        return step

    def _with(self, terms: LoadingTerms) -> ExactLoading:
        """Returns the same dataset on other terms."""
        return UnorderedLoading(self._dataset, terms, self._counts)


def _is_of_another(saved: str | None, mine: str) -> bool:
    """Returns whether a saved digest belongs to another dataset. Digests of other versions cannot be compared, and early states have none."""
    return saved is not None and saved != mine and saved.split("-")[0] == mine.split("-")[0]


def _steps_of_all(counts: tuple[int, int, int], step: int, place: Place, trainers: int) -> list[int]:
    """Returns the number of batches of each trainer in an epoch whose trainers are at a place after ``step`` batches."""
    return [step + steps_left(counts, (place.split, place.had), trainer, trainers) for trainer in range(trainers)]


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
