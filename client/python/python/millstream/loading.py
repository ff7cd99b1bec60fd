"""What a loader reads epoch by epoch: a dataset by index, of which each step can be computed anywhere, or a stream of batches.

Refuses to know who asks for batches and how many were delivered.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ._millstream import Elements, Graph
from .code import Held, Limits, Shelf, packed
from .dataset import Dataset
from .distribute import Fetch, Iterate, check_iterable, is_indexed, loose, varying
from .errors import InvalidArgumentError
from .local import LocalService
from .plan import IndexPlan, ListedPlan, Plan
from .positions import Delivered
from .ranks import Rank
from .service import ShardingPolicy, distribute, is_of_this_host
from .spec import dressed, plain
from .worker import described

__all__ = ["IndexedLoading", "IterableLoading", "Loading", "Steps", "StreamLoading", "loading_of"]

#: Of the samples of a batch, or of a single one.
Collate = Callable[[Any], Any]

#: Processes that may be asked for.
_PROCESSES_MAX = 256

_NONE = object()


class Steps:
    """The batches of an epoch with the numbers of their steps."""

    def __init__(self, elements: Elements, number: Callable[[Any], tuple[int, Any]], code: object = None) -> None:
        #: For whoever ends it, or asks what was measured.
        self.elements = elements
        self._number = number
        #: What is read as long as this is.
        self._code = code

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        return self._number(next(self.elements))

    def ready(self, otherwise: Any) -> Any:
        """The next one if it is at hand, else ``otherwise``; so is the end."""
        element = self.elements.ready(_NONE)
        return otherwise if element is _NONE else self._number(element)


class OrderedSteps(Steps):
    """The same in the order of steps, from workers of which some are ahead of others.

    Batches that come early are kept. More of them than ``window`` count as outstanding still, so workers that are ahead wait, however slow
    another one is; where nothing comes at all, one more of each is let through a second, since steps of a worker that has gone come late.
    """

    def __init__(
        self,
        elements: Elements,
        number: Callable[[Any], tuple[int, Any]],
        steps: Iterator[int],
        window: int,
        code: object = None,
    ) -> None:
        super().__init__(elements, number, code)
        self._steps, self._window = steps, window
        self._due = next(steps, None)
        #: Batches by step, with what to say when one is used that counts as outstanding.
        self._early: dict[int, tuple[Any, int | None]] = {}
        self._is_over = False

    def __next__(self) -> tuple[int, Any]:
        while not self._is_due_here() and not self._is_over:
            try:
                self._keep(*super().__next__())
            except StopIteration:
                self._is_over = True
        return self._handed()

    def ready(self, otherwise: Any) -> Any:
        """The next one if it is at hand, else ``otherwise``; so is the end."""
        while not self._is_due_here():
            found = super().ready(_NONE)
            if found is _NONE:
                return otherwise
            self._keep(*found)
        return otherwise if self._due is None else self._handed()

    def _is_due_here(self) -> bool:
        return self._due is None or self._due in self._early

    def _keep(self, step: int, batch: Any) -> None:
        is_kept = step != self._due and len(self._early) >= self._window
        self._early[step] = (batch, self.elements.keep() if is_kept else None)

    def _handed(self) -> tuple[int, Any]:
        if not self._is_due_here():
            # What is missing was lost with its worker.
            self._due = min(self._early, default=None)
        if self._due is None:
            raise StopIteration
        step, (batch, kept) = self._due, self._early.pop(self._due)
        if kept is not None:
            self.elements.let_go(kept)
        self._due = next(self._steps, None)
        return step, batch


class Loading(Protocol):
    """What is read."""

    @property
    def element_spec(self) -> Any:
        """What a batch is."""

    @property
    def samples(self) -> int | None:
        """How many samples there are, if that is known."""

    def steps(self, epoch: int) -> int:
        """Batches of an epoch. ``TypeError``: nobody knows."""

    def valid(self, step: int) -> int | None:
        """How many samples of a step do not only fill it, if that is known."""

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """An epoch, without the steps that were delivered."""

    def identity(self) -> dict[str, Any]:
        """What must be the same for a position to mean the same."""

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """The step here of a position elsewhere. ``InvalidArgumentError``: there is none."""

    def unordered(self, is_distributed: bool) -> str:
        """Why batches do not come in the same order twice; empty if they do."""

    def sharded(self, num_shards: int, index: int) -> Loading:
        """The part of one of so many trainers."""


def loading_of(
    dataset: Any,
    *,
    batch_size: int | None,
    shuffle: bool,
    sampler: Any,
    batch_sampler: Any,
    collate: Collate | None,
    last_batch: str,
    seed: int,
    rank: Rank,
    window: int | None,
    worker_init_fn: Callable[[int], None] | None,
    element_spec: Any,
    processes: int,
) -> Loading:
    """What a loader with these arguments reads of Python's own dataset; ``window`` and ``processes``: see ``IndexedLoading``.

    Raises:
        InvalidArgumentError: They contradict each other, or the dataset.
    """
    if not is_indexed(dataset):
        if shuffle or sampler is not None or batch_sampler is not None:
            raise InvalidArgumentError("what can only be iterated over has no order to choose: leave out shuffle and samplers")
        check_iterable(dataset)
        make = Iterate(dataset, collate, batch_size, last_batch == "DROP", worker_init_fn)
        return IterableLoading(make, None if element_spec is None else plain(element_spec), processes)
    if sampler is not None and shuffle or batch_sampler is not None and (shuffle or sampler is not None):
        raise InvalidArgumentError("sampler, batch_sampler and shuffle exclude each other: each says the order")
    of = IndexedLoading(
        Fetch(dataset, collate, batch_size is not None or batch_sampler is not None, worker_init_fn),
        IndexPlan(len(dataset), batch_size or 1, rank.dp_rank, rank.dp_size, shuffle, seed, last_batch),
        window,
        None if element_spec is None else plain(element_spec),
        processes,
    )
    of.lister = _Lister(sampler, batch_sampler, batch_size or 1, last_batch == "DROP") if sampler or batch_sampler else None
    return of


@dataclasses.dataclass
class _Lister:
    """What a sampler says of each epoch."""

    sampler: Any
    batch_sampler: Any
    batch_size: int
    drops_last: bool

    def plan(self, epoch: int) -> ListedPlan:
        """The batches of an epoch."""
        source = self.batch_sampler if self.batch_sampler is not None else self.sampler
        for one in (source, getattr(source, "sampler", None)):
            set_epoch = getattr(one, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
        if self.batch_sampler is not None:
            return ListedPlan([np.asarray(list(batch), np.int64) for batch in source])
        indices = np.asarray([int(index) for index in source], np.int64)
        starts = range(0, len(indices) - (self.batch_size - 1 if self.drops_last else 0), self.batch_size)
        return ListedPlan([indices[start : start + self.batch_size] for start in starts])

    def steps(self) -> int:
        """As the sampler itself says."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        return (len(self.sampler) + (0 if self.drops_last else self.batch_size - 1)) // self.batch_size

    def unordered(self) -> str:
        """Samplers of torch that draw say by which generator."""
        source = getattr(self.batch_sampler, "sampler", None) or self.sampler or self.batch_sampler
        draws = "Random" in type(source).__name__ and getattr(source, "generator", None) is None
        return f"the sampler {type(source).__name__} draws another order each time" if draws else ""


@dataclasses.dataclass
class IndexedLoading:
    """A dataset by index: each step is computed of its number, by whichever worker.

    ``window``: how many batches may be kept until an earlier one comes before those who are ahead wait; ``None``: batches come as they are
    done. ``processes``: how many of Python each worker uses at once; 0: as many as turn out to be needed.
    """

    fetch: Fetch
    plan: IndexPlan
    window: int | None
    spec: tuple[Any, ...] | None
    processes: int = 0
    lister: _Lister | None = None
    #: What the first batch is, where nobody said what batches are.
    _found: tuple[Any, ...] | None = dataclasses.field(default=None, repr=False)
    #: What workers run, with what holds it, for the service it is for.
    _sent: tuple[Any, _Sent] | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.plan.count} samples"

    @property
    def samples(self) -> int:
        """How many there are."""
        return self.plan.count

    def described(self) -> tuple[Any, ...]:
        """What a batch is, found by computing the first one if nobody said it."""
        if self.spec is not None:
            return self.spec
        if self._found is None:
            plan: Plan = self.plan if self.lister is None else self.lister.plan(0)
            if not plan.steps:
                raise InvalidArgumentError("there is no batch that shows what batches are: give element_spec")
            self._found = varying(described(_fetched(self.fetch, plan.rows(0, 0))), self.fetch.is_batched)
        return self._found

    @property
    def element_spec(self) -> Any:
        """What a batch is: as was said, else as the first one is."""
        return dressed(self.described())

    def steps(self, epoch: int) -> int:
        """Batches of an epoch."""
        return self.plan.steps if self.lister is None else self.lister.steps()

    def valid(self, step: int) -> int | None:
        """How many samples of a step do not only fill it."""
        return self.plan.valid(step) if self.lister is None else None

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """An epoch, without the steps that were delivered."""
        plan: Plan = self.plan if self.lister is None else self.lister.plan(epoch)
        # The number of a step says its epoch too, so that one function serves all of them.
        base = epoch * plan.steps if self.lister is None else 0
        numbers = Dataset.range(base + delivered.first, base + max(plan.steps, delivered.first))
        for start, stop in delivered.ahead:
            numbers = numbers.filter(lambda x, first=base + start, end=base + stop: (x < first) | (x >= end))
        # A batch may have other sizes than the first one: whoever collates pads each as far as it needs.
        batch = self.spec or (loose(self.described()) if plan.steps else ("none",))
        spec = ("tuple", [("tensor", "i64", ()), batch])

        def numbered(element: Any) -> tuple[int, Any]:
            return int(element[0]) - base, element[1]

        if service is None:
            # With the dataset itself, one batch after the other.
            here = Held(StepBatch(self.fetch, plan))
            dataset = Dataset(numbers._graph.map_python(spec, here.code))
            return Steps(iter(dataset.with_output(output)), numbered, here)
        sent = self._packed(plan, service)
        graph = numbers._graph.map_python(spec, sent.code).parallel(self.processes)
        # In order they are dealt out one by one, so that no worker has many before those of another.
        graph = graph.in_order(False) if self.window is None else graph.split_size(1)
        dataset = Dataset(graph).apply(distribute(ShardingPolicy.DYNAMIC, service))
        elements = iter(dataset.with_output(output))
        if self.window is None:
            return Steps(elements, numbered, sent)
        return OrderedSteps(elements, numbered, delivered.missing(plan.steps), self.window, sent)

    def _packed(self, plan: Plan, service: Any) -> _Sent:
        # The same for all epochs, unless a sampler says the order of each.
        if self._sent is None or self._sent[0] is not service or self.lister is not None:
            self._sent = service, _Sent.of(StepBatch(self.fetch, plan), service, self.processes)
        return self._sent[1]

    def identity(self) -> dict[str, Any]:
        """What must be the same for a position to mean the same."""
        plan = self.plan
        return {
            "samples": plan.count,
            "global_batch": plan.global_batch,
            "shuffle": plan.shuffle,
            "seed": plan.seed,
            "last_batch": plan.last_batch,
        }

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """The step here of a position elsewhere: also of other numbers of trainers, where the samples up to it end a step."""
        for name, mine in self.identity().items():
            theirs = state.get(name)
            if theirs != mine and name not in ("global_batch", "last_batch"):
                raise InvalidArgumentError(f"the state has {name} {theirs!r}, this loader {mine!r}: load_state_dict(..., strict=False)")
        samples = min(step * int(state["global_batch"]), self.plan.count)
        found, rest = divmod(samples, self.plan.global_batch)
        if samples == self.plan.count:
            return self.plan.steps
        if rest or (state["ahead"] and state["global_batch"] != self.plan.global_batch):
            raise InvalidArgumentError(
                f"the state was taken after {samples} samples in steps of {state['global_batch']}, which is no number of steps of "
                f"{self.plan.global_batch}: go on with the same samples a step on all trainers together"
            )
        return found

    def unordered(self, is_distributed: bool) -> str:
        """Why steps are not the same twice; empty if they are."""
        return "" if self.lister is None else self.lister.unordered()

    def sharded(self, num_shards: int, index: int) -> IndexedLoading:
        """The part of one of so many trainers."""
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, dp_rank=index, dp_size=num_shards), _sent=None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sent": None}


@dataclasses.dataclass(frozen=True)
class _Sent:
    """Code as workers get it, and the memory in which it waits for them, if it does."""

    code: bytes
    shelf: Shelf | None

    @classmethod
    def of(cls, code: Callable[..., Any], service: Any, processes: int) -> _Sent:
        """For the workers of a service: those on this host may read it from this process's memory."""
        shelf = Shelf() if isinstance(service, LocalService) or is_of_this_host(service) else None
        limits = Limits(processes=min(processes, _PROCESSES_MAX) or None)
        return cls(packed(code, limits=limits, shelf=shelf), shelf)


def _fetched(fetch: Fetch, rows: Any) -> Any:
    return fetch(rows if fetch.is_batched else rows[0])


#: Samples that an error names.
_ROWS_TOLD = 64


@dataclasses.dataclass(frozen=True, eq=False)
class StepBatch:
    """Where it is computed: a step's number and its batch."""

    fetch: Fetch
    plan: Plan

    @property
    def dataset(self) -> Any:
        """What samples are of."""
        return self.fetch.dataset

    @property
    def worker_init_fn(self) -> Callable[[int], Any] | None:
        """What each process of a worker calls first."""
        return self.fetch.worker_init_fn

    def __call__(self, number: Any) -> tuple[Any, Any]:
        epoch, step = divmod(int(number), self.plan.steps)
        rows = self.plan.rows(epoch, step)
        try:
            return np.int64(number), _fetched(self.fetch, rows)
        except Exception as error:
            # Whoever reads of it elsewhere has no debugger there.
            listed = ", ".join(map(str, rows[:_ROWS_TOLD])) + (", ..." if len(rows) > _ROWS_TOLD else "")
            error.add_note(f"at step {step} of epoch {epoch}, of samples {listed}")
            raise

    def __repr__(self) -> str:
        return repr(self.fetch)


_SERVED = "batches of a service come in the order in which its workers have them"


class StreamLoading:
    """A dataset whose elements are batches as they come."""

    def __init__(self, dataset: Dataset, policy: ShardingPolicy = ShardingPolicy.DYNAMIC) -> None:
        self._dataset, self._policy = dataset, policy
        self._draws = dataset._task_id
        self._distributed: tuple[Any, Dataset] | None = None

    def __str__(self) -> str:
        return "batches"

    @property
    def element_spec(self) -> Any:
        """What a batch is."""
        return self._dataset.element_spec

    @property
    def samples(self) -> int | None:
        """Nobody knows: elements are batches."""
        return None

    def steps(self, epoch: int) -> int:
        """Elements of a pass."""
        return len(self._dataset)

    def valid(self, step: int) -> int | None:
        """Nobody knows."""
        return None

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """A pass, without the elements that were delivered."""
        dataset = self._dataset if service is None else self._on(service)
        return self._steps(dataset, epoch, delivered.first, output if dataset._output == "numpy" else dataset._output)

    def _steps(self, dataset: Dataset, epoch: int, first: int, output: str, code: object = None) -> Steps:
        elements = dataset.with_output(output)._pass(epoch, self._draws)
        elements.skip(first)
        numbers = itertools.count(first)
        return Steps(elements, lambda element: (next(numbers), element), code)

    def _on(self, service: Any) -> Dataset:
        # One dataset for all epochs, which are passes of one job.
        if self._distributed is None or self._distributed[0] is not service:
            self._distributed = service, self._dataset.apply(distribute(self._policy, service))
        return self._distributed[1]

    def identity(self) -> dict[str, Any]:
        """What draws without a seed depend on."""
        return {"draws": self._draws}

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """The same step, drawn as it was drawn."""
        if "draws" not in state:
            raise InvalidArgumentError("the state is of a dataset by index, this loader reads a stream")
        self._draws = int(state["draws"])
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Why elements do not come in the same order twice; empty if they do."""
        if is_distributed or self._dataset._graph.is_served:
            return _SERVED
        return "the dataset's options allow any order" if self._dataset.options().deterministic is False else ""

    def sharded(self, num_shards: int, index: int) -> StreamLoading:
        """The part of one of so many trainers."""
        return StreamLoading(self._dataset.shard(num_shards, index), self._policy)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_distributed": None}


class IterableLoading(StreamLoading):
    """What can only be iterated over, in this process or in ``processes`` of each worker. Those that shuffle by an epoch that they are
    told are told it.
    """

    def __init__(
        self, make: Iterate, spec: tuple[Any, ...] | None, processes: int, shard: tuple[int, int] | None = None
    ) -> None:
        self._make, self._spec, self._processes, self._shard = make, spec, processes, shard
        self._found: tuple[Any, ...] | None = None
        self._policy = ShardingPolicy.OFF
        self._draws = 0
        #: What workers run, for which service and epoch, with the dataset of it.
        self._sent: tuple[Any, int | None, _Sent, Dataset] | None = None

    @property
    def element_spec(self) -> Any:
        """What a batch is."""
        return dressed(self._described())

    def steps(self, epoch: int) -> int:
        """Batches of a pass.

        Raises:
            TypeError: Nobody knows.
        """
        raise TypeError("how many batches it has is not known of what can only be iterated over, so it has no len()")

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """A pass, without the elements that were delivered."""
        told = epoch if hasattr(self._make.dataset, "set_epoch") else None
        make = dataclasses.replace(self._make, epoch=told)
        if service is None:
            here = Held(make)
            return self._steps(self._of(here.code), epoch, delivered.first, output, here)
        if self._sent is None or self._sent[:2] != (service, told):
            sent = _Sent.of(make, service, self._processes)
            self._sent = service, told, sent, self._of(sent.code).apply(distribute(self._policy, service))
        return self._steps(self._sent[3], epoch, delivered.first, output, self._sent[2])

    def _of(self, code: bytes) -> Dataset:
        dataset = Dataset(Graph.iterable(self._spec or loose(self._described()), code, -2))
        return dataset if self._shard is None else dataset.shard(*self._shard)

    def _described(self) -> tuple[Any, ...]:
        if self._spec is None and self._found is None:
            self._found = self._make.spec()
        return self._spec or self._found or ()

    def unordered(self, is_distributed: bool) -> str:
        """Why elements do not come in the same order twice; empty if they do."""
        return _SERVED if is_distributed else ""

    def sharded(self, num_shards: int, index: int) -> IterableLoading:
        """The part of one of so many trainers."""
        return IterableLoading(self._make, self._spec, self._processes, (num_shards, index))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sent": None}
