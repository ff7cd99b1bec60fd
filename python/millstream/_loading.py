"""The sources of a loader's batches: datasets with indices, whose steps any worker can compute, and streams of batches.

The loader itself decides which batches are requested, and counts the delivered batches.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from . import _draws
from ._code import Held, Limits, Shelf, packed
from ._dataset import Dataset
from ._distribute import Fetch, Iterate, check_iterable, is_indexed, loose, varying
from ._lineage import Lineage, indexed
from ._local import LocalService
from ._millstream import Graph
from ._plan import IndexPlan, ListedPlan, Plan
from ._positions import Delivered
from ._ranks import Rank
from ._spec import dressed, plain
from ._stateful import IterablePass, probed
from ._steps import OrderedSteps, Steps
from ._worker import described
from .errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from .service import ShardingPolicy, distribute, distribute_steps, is_of_this_host

__all__ = ["IndexedLoading", "IterableLoading", "Loading", "StreamLoading", "loading_of"]

#: A function of the list of samples of a batch, or of a single sample.
Collate = Callable[[Any], Any]

#: The maximum number of processes that a loader requests from a worker.
_PROCESSES_MAX = 256


class Loading(Protocol):
    """The interface of a source of batches."""

    @property
    def element_spec(self) -> Any:
        """The spec of a batch."""

    @property
    def samples(self) -> int | None:
        """The number of samples; ``None`` if the number is unknown."""

    def steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch. Raises ``TypeError`` if the number is unknown."""

    def computed_steps(self, epoch: int) -> int | None:
        """Returns the number of batches of an epoch if the position after a step is computed from the step; ``None`` otherwise."""

    def lineage(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> Lineage:
        """Returns the records of the batch of a step. ``at`` returns the service, if batches must be read to find the answer.

        The wait for each of these batches ends after ``timeout_s`` seconds; 0 means no limit.
        """

    def valid(self, step: int) -> int | None:
        """Returns the number of samples of a step that are not repeated to fill the step; ``None`` if unknown."""

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch, without the delivered steps."""

    def restart(self, epoch: int) -> None:
        """Forgets a position that was loaded in an epoch, because the epoch begins again."""

    def missing(self, delivered: Delivered) -> list[int]:
        """Returns the steps that were not delivered in an epoch; empty if steps have no numbers."""

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the additional state after a step; empty if the number of the step is sufficient."""

    def ends_epoch(self, epoch: int, step: int) -> bool:
        """Returns whether the epoch of all trainers ends with a step with which the epoch of this trainer ends."""

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Returns the step of this loader for a position of another loader. Raises ``InvalidArgumentError`` if no step matches."""

    def unordered(self, is_distributed: bool) -> str:
        """Returns the reason why two runs have different orders of batches; empty if the order is fixed."""

    def sharded(self, num_shards: int, index: int) -> Loading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""


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
    is_seeded: bool,
    rank: Rank,
    reader: int,
    window: int | None,
    worker_init_fn: Callable[[int], None] | None,
    element_spec: Any,
    processes: int,
    is_served: bool,
    on_lost: str,
) -> Loading:
    """Returns the source of batches for a Python dataset and the arguments of a loader. See ``IndexedLoading`` for ``window`` and ``processes``.

    Raises:
        InvalidArgumentError: The arguments contradict each other, or do not suit the dataset.
    """
    if not is_indexed(dataset):
        if shuffle or sampler is not None or batch_sampler is not None:
            raise InvalidArgumentError("a dataset that can only be iterated over has a fixed order: leave out shuffle and samplers")
        check_iterable(dataset)
        make = Iterate(dataset, collate, batch_size, last_batch == "DROP", worker_init_fn, millstream_seed=seed)
        spec = None if element_spec is None else plain(element_spec)
        return IterableLoading(make, spec, processes, is_served=is_served, is_seeded=is_seeded, on_lost=on_lost)
    if sampler is not None and shuffle or batch_sampler is not None and (shuffle or sampler is not None):
        raise InvalidArgumentError("sampler, batch_sampler and shuffle exclude each other, because each sets the order: pass one of them")
    of = IndexedLoading(
        Fetch(dataset, collate, batch_size is not None or batch_sampler is not None, worker_init_fn),
        IndexPlan(len(dataset), batch_size or 1, rank.dp_rank, rank.dp_size, shuffle, seed, last_batch),
        window,
        None if element_spec is None else plain(element_spec),
        processes,
        is_seeded=is_seeded,
        reader=reader,
        is_served=is_served,
    )
    of.lister = _Lister(sampler, batch_sampler, batch_size or 1, last_batch == "DROP") if sampler or batch_sampler else None
    return of


@dataclasses.dataclass
class _Lister:
    """The order of a sampler or batch sampler, for each epoch."""

    sampler: Any
    batch_sampler: Any
    batch_size: int
    drops_last: bool

    def plan(self, epoch: int) -> ListedPlan:
        """Returns the plan of the batches of an epoch. Calls the sampler's ``set_epoch``."""
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
        """Returns the number of batches, from the length of the sampler."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        return (len(self.sampler) + (0 if self.drops_last else self.batch_size - 1)) // self.batch_size

    def unordered(self) -> str:
        """Returns the reason why two runs have different orders. A torch sampler without a generator draws a different order in each run."""
        source = getattr(self.batch_sampler, "sampler", None) or self.sampler or self.batch_sampler
        draws = "Random" in type(source).__name__ and getattr(source, "generator", None) is None
        return f"the sampler {type(source).__name__} draws a different order in each run" if draws else ""


@dataclasses.dataclass
class IndexedLoading:
    """A dataset with indices. Any worker can compute a step from the step's number.

    ``window`` is the maximum number of early batches that the loader keeps before faster workers wait. With ``None`` batches are delivered as soon
    as they are ready. ``processes`` is the number of Python processes of each worker; 0 tunes the number.
    """

    fetch: Fetch
    plan: IndexPlan
    window: int | None
    spec: tuple[Any, ...] | None
    processes: int = 0
    lister: _Lister | None = None
    #: Whether the program set the seed. Without a seed, samples in this process draw from the program's own generators.
    is_seeded: bool = True
    #: The number of this trainer. Each trainer has a separate sampler, and two samplers may select the same sample.
    reader: int = 0
    #: Whether workers compute the batches.
    is_served: bool = False
    #: The spec of the first batch, if the program has not set a spec.
    _found: tuple[Any, ...] | None = dataclasses.field(default=None, repr=False)
    #: The packed code for workers, and the service to which the code belongs.
    _sent: tuple[Any, _Sent] | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.plan.count} samples"

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.plan.count

    def described(self) -> tuple[Any, ...]:
        """Returns the spec of a batch. Computes the first batch unless the program set a spec."""
        if self.spec is not None:
            return self.spec
        if self._found is None:
            plan: Plan = self.plan if self.lister is None else self.lister.plan(0)
            if not plan.steps:
                raise InvalidArgumentError("the dataset has no batch, so the spec of a batch is unknown: pass element_spec")
            with _draws.kept():
                self._found = varying(described(_fetched(self.fetch, plan.rows(0, 0))), self.fetch.is_batched)
        return self._found

    @property
    def element_spec(self) -> Any:
        """The spec of a batch, which the program set, or which is the spec of the first batch."""
        return dressed(self.described())

    def steps(self, epoch: int) -> int:
        """Returns the number of batches of an epoch."""
        return self.plan.steps if self.lister is None else self.lister.steps()

    def computed_steps(self, epoch: int) -> int | None:
        """Returns the number of batches of an epoch; ``None`` if the length of the sampler is unknown."""
        try:
            return self.steps(epoch)
        except TypeError:
            return None

    def lineage(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> Lineage:
        """Returns the indices of the samples of a step."""
        if self.lister is not None:
            raise FailedPreconditionError("the sampler decides the samples of a step: ask the sampler, or pass shuffle and seed instead of it")
        if not 0 <= step < self.plan.steps:
            raise OutOfRangeError(f"step {step}: an epoch has {self.plan.steps} steps, which begin at 0")
        return Lineage(epoch, step, self.plan.dp_rank, (indexed(self.plan.rows(epoch, step)),))

    def valid(self, step: int) -> int | None:
        """Returns the number of samples of a step that are not repeated to fill the step."""
        return self.plan.valid(step) if self.lister is None else None

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the batches of an epoch, without the delivered steps."""
        plan: Plan = self.plan if self.lister is None else self.lister.plan(epoch)
        # The number of a step includes its epoch, so that the same function serves all epochs.
        base = epoch * plan.steps if self.lister is None else 0
        numbers = Dataset.range(base + delivered.first, base + max(plan.steps, delivered.first))
        for start, stop in delivered.ahead:
            numbers = numbers.filter(lambda x, first=base + start, end=base + stop: (x < first) | (x >= end))
        # Batches may have different sizes, because the collate function may pad each batch to its longest sample.
        batch = self.spec or (loose(self.described()) if plan.steps else ("none",))
        spec = ("tuple", [("tensor", "i64", ()), batch])

        def numbered(element: Any) -> tuple[int, Any]:
            return int(element[0]) - base, element[1]

        if service is None:
            # The dataset runs only while the program waits for a batch, because both may draw from the same generators.
            here = Held(StepBatch(self.fetch, plan, self.plan.seed if self.is_seeded else None, self._epoch_of(epoch), self.reader, True))
            dataset = Dataset(numbers._graph.map_python(spec, here.code))
            return Steps(dataset.with_output(output)._on_demand(0), numbered, here)
        sent = self._packed(plan, service, epoch)
        graph = numbers._graph.map_python(spec, sent.code).parallel(self.processes)
        # A split is one batch. A batch that a lost worker had begun was therefore delivered, or is read again.
        graph = graph.split_size(1) if self.window is not None else graph.in_order(False).split_size(1)
        dataset = Dataset(graph).apply(distribute_steps(service, self.window is not None))
        elements = iter(dataset.with_output(output))
        if self.window is None:
            return Steps(elements, numbered, sent)
        return OrderedSteps(elements, numbered, delivered.missing(plan.steps), self.window, delivered.first, sent)

    def restart(self, epoch: int) -> None:
        """Does nothing, because no position was loaded apart from the number of the step."""

    def missing(self, delivered: Delivered) -> list[int]:
        """Returns the steps that were not delivered."""
        return list(delivered.gaps(self.plan.steps if self.lister is None else self.lister.steps()))

    def _packed(self, plan: Plan, service: Any, epoch: int) -> _Sent:
        # The code is the same for all epochs, unless a sampler sets the order of each epoch.
        if self._sent is None or self._sent[0] is not service or self.lister is not None:
            code = StepBatch(self.fetch, plan, self.plan.seed, self._epoch_of(epoch), self.reader)
            self._sent = service, _Sent.of(code, service, self.processes, seeded=True)
        return self._sent[1]

    def _epoch_of(self, epoch: int) -> int | None:
        """Returns the epoch if a sampler sets the order. Otherwise the numbers of steps include the epoch, and the result is ``None``."""
        return None if self.lister is None else epoch

    def identity(self) -> dict[str, Any]:
        """Returns the values that must be equal in two loaders, so that a position has the same meaning."""
        plan = self.plan
        return {
            "samples": plan.count,
            "global_batch": plan.global_batch,
            "shuffle": plan.shuffle,
            "seed": plan.seed,
            "last_batch": plan.last_batch,
        }

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns an empty state, because a step is computed from its number."""
        return {}

    def ends_epoch(self, epoch: int, step: int) -> bool:
        """Returns ``True``, because all trainers have the same number of steps."""
        return True

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Returns the step of this loader for a saved position. With another number of trainers the position must be the end of a step."""
        for name, mine in self.identity().items():
            theirs = state.get(name)
            if theirs != mine and name not in ("global_batch", "last_batch"):
                raise InvalidArgumentError(f"the state has {name} {theirs!r}, this loader {mine!r}: use load_state_dict(..., strict=False) to load it")
        samples = min(step * int(state["global_batch"]), self.plan.count)
        found, rest = divmod(samples, self.plan.global_batch)
        if samples == self.plan.count:
            return self.plan.steps
        if rest or (state["ahead"] and state["global_batch"] != self.plan.global_batch):
            raise InvalidArgumentError(
                f"the state was taken after {samples} samples in steps of {state['global_batch']}, which is not a whole number of steps of "
                f"{self.plan.global_batch}: use the same number of samples of all trainers in a step"
            )
        return found

    @property
    def draws(self) -> bool:
        """Whether the seed decides the order of samples, or the draws in samples on workers."""
        return self.plan.shuffle or self.is_served

    def seeded(self, seed: int) -> IndexedLoading:
        """Returns the same source of batches with another seed."""
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, seed=seed), _sent=None)

    def unordered(self, is_distributed: bool) -> str:
        """Returns the reason why two runs have different steps; empty if the steps are fixed."""
        return "" if self.lister is None else self.lister.unordered()

    def sharded(self, num_shards: int, index: int) -> IndexedLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, dp_rank=index, dp_size=num_shards), _sent=None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sent": None}


@dataclasses.dataclass(frozen=True)
class _Sent:
    """The packed code for workers, and the shelf that stores large code for workers on this host."""

    code: bytes
    shelf: Shelf | None

    @classmethod
    def of(cls, code: Callable[..., Any], service: Any, processes: int, seeded: bool = False) -> _Sent:
        """Packs code for the workers of a service. Workers on this host may read large code from a shelf. See ``packed`` for ``seeded``."""
        shelf = Shelf() if isinstance(service, LocalService) or is_of_this_host(service) else None
        limits = Limits(processes=min(processes, _PROCESSES_MAX) or None)
        return cls(packed(code, limits=limits, shelf=shelf, seeded=seeded), shelf)


def _fetched(fetch: Fetch, rows: Any) -> Any:
    return fetch(rows if fetch.is_batched else rows[0])


#: The maximum number of samples that an error names.
_ROWS_TOLD = 64


@dataclasses.dataclass(frozen=True, eq=False)
class StepBatch:
    """The function that takes the number of a step, and returns the number together with the step's batch.

    With a ``seed``, the draws of a sample depend on the seed, the epoch and the index of the sample. A sampler may list a sample twice. With a
    sampler, ``listed`` is the epoch, and the draws depend on the ``reader``, the step and the position in the step instead of the index.
    ``is_here`` means that the trainer computes the batch. The function then restores the states of the trainer's generators.
    """

    fetch: Fetch
    plan: Plan
    seed: int | None = None
    listed: int | None = None
    reader: int = 0
    is_here: bool = False

    @property
    def dataset(self) -> Any:
        """Returns the dataset of the samples."""
        return self.fetch.dataset

    @property
    def millstream_seed(self) -> int | None:
        """Returns the number that seeds the processes of workers before their first sample."""
        return self.seed

    @property
    def worker_init_fn(self) -> Callable[[int], Any] | None:
        """Returns the function that each process of a worker calls before its first sample."""
        return self.fetch.worker_init_fn

    def __call__(self, number: Any) -> tuple[Any, Any]:
        epoch, step = divmod(int(number), self.plan.steps)
        rows = self.plan.rows(epoch, step)
        try:
            return np.int64(number), self._drawn(epoch, step, rows)
        except Exception as error:
            # Users cannot debug the worker, so the error itself names the samples.
            listed = ", ".join(map(str, rows[:_ROWS_TOLD])) + (", ..." if len(rows) > _ROWS_TOLD else "")
            error.add_note(f"at step {step} of epoch {epoch}, of samples {listed}")
            raise

    def _drawn(self, epoch: int, step: int, rows: Any) -> Any:
        indices = rows if self.fetch.is_batched else rows[0]
        if self.seed is None:
            return self.fetch(indices)
        is_listed = self.listed is not None
        base = _draws.base(self.seed, _draws.pass_of(epoch if self.listed is None else self.listed))
        if is_listed:
            base = _draws.mix(_draws.mix(base, self.reader), step)
        with _draws.kept() if self.is_here else contextlib.nullcontext():
            return self.fetch.drawn(indices, base, is_listed)

    def __repr__(self) -> str:
        return repr(self.fetch)


_SERVED = "batches of a service arrive in the order in which its workers finish them"
_CHANGED = "operations follow ms.service.distribute, and a state has no position in them"


class StreamLoading:
    """A stream: a dataset whose elements are batches."""

    def __init__(
        self, dataset: Dataset, policy: ShardingPolicy = ShardingPolicy.DYNAMIC, on_lost: str = "raise", is_served: bool = False
    ) -> None:
        self._dataset, self._policy, self._on_lost = dataset, policy, on_lost
        self._is_served = is_served
        self._draws = dataset._task_id
        #: Whether the parts of the dataset yield the batches of the whole dataset; `None` before the first question.
        self._alike: bool | None = None
        self._distributed: tuple[Any, Dataset] | None = None
        self._read: tuple[Any, Any] | None = None

    def __str__(self) -> str:
        return "batches"

    @property
    def element_spec(self) -> Any:
        """The spec of a batch."""
        return self._dataset.element_spec

    @property
    def samples(self) -> int | None:
        """Always ``None``, because elements are batches of unknown size."""
        return None

    def steps(self, epoch: int) -> int:
        """Returns the number of elements in a pass.

        Raises:
            TypeError: The number is unknown, also if workers make other batches of the parts of the dataset.
        """
        count = len(self._dataset)
        if self._is_served and not self._is_alike_on_splits():
            raise TypeError(
                "the number of batches is unknown, because each worker makes batches of its own part of the dataset: iterate without len(), or make "
                "the batches in this process, after ms.service.distribute"
            )
        return count

    def _is_alike_on_splits(self) -> bool:
        """Returns whether the parts of the dataset yield the same batches as the whole dataset."""
        if self._alike is None:
            try:
                self._alike = self._dataset._executed.is_alike_on_splits()
            except (InvalidArgumentError, ValueError):
                self._alike = False
        return self._alike

    def computed_steps(self, epoch: int) -> int | None:
        """Returns ``None``, because a position is found by reading up to it."""
        return None

    def lineage(self, epoch: int, step: int, at: Callable[[], Any], timeout_s: float) -> Lineage:
        """Raises ``FailedPreconditionError``, because the records of the batches of a stream are unknown."""
        raise FailedPreconditionError(
            "the loader reads a stream, and the records of its batches are unknown: read an ms.Dataset with visitation='exactly_once', or a dataset "
            "with indices"
        )

    def valid(self, step: int) -> int | None:
        """Returns ``None``, because the number is unknown."""
        return None

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the elements of a pass, without the delivered elements."""
        dataset = self._dataset if service is None else self._on(service)
        return self._steps(dataset, epoch, delivered.first, output if dataset._output == "numpy" else dataset._output)

    def _steps(
        self, dataset: Dataset, epoch: int, first: int, output: str, code: object = None, skips: bool = True
    ) -> Steps:
        if dataset._reading is not None:
            # A pass of a job can be read only once, and other iterators may have read passes of the dataset's own job.
            given = dataset._reading
            is_known = self._read is not None and self._read[0] is given
            reading = (self._read[1] if self._read is not None and is_known else given.own()).unread(epoch)
            self._read = given, reading
            unread = Dataset(dataset._graph, reading=reading, options=dataset.options())
            unread._task = dataset._task
            dataset = unread
        dataset = dataset.with_output(output)
        # Users' code runs in this process only while the program waits, because both may draw from the same generators.
        elements = dataset._on_demand(epoch) if isinstance(code, Held) else dataset._pass(epoch, self._draws)
        if skips:
            elements.skip(first)
        numbers = itertools.count(first)
        return Steps(elements, lambda element: (next(numbers), element), code)

    def _on(self, service: Any) -> Dataset:
        # All epochs use the same dataset, because they are passes of the same job.
        if self._distributed is None or self._distributed[0] is not service:
            self._distributed = service, self._dataset.apply(distribute(self._policy, service, on_lost=self._on_lost))
        return self._distributed[1]

    def restart(self, epoch: int) -> None:
        """Does nothing, because no position was loaded apart from the number of the step."""

    def missing(self, delivered: Delivered) -> list[int]:
        """Returns an empty list, because the stream itself reports its losses."""
        return []

    def identity(self) -> dict[str, Any]:
        """Returns the number that replaces missing seeds, because random draws depend on it."""
        return {"draws": self._draws}

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns an empty state, because the number of delivered elements is the position."""
        return {}

    def ends_epoch(self, epoch: int, step: int) -> bool:
        """Returns ``True``, because each trainer reads a stream of its own."""
        return True

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Returns the same step, and restores the number that replaces missing seeds."""
        if "draws" not in state:
            raise InvalidArgumentError("the state belongs to a dataset with indices, but this loader reads a stream: load the state of a stream")
        self._draws = int(state["draws"])
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Returns the reason why two runs have different orders of elements; empty if the order is fixed."""
        if self._dataset._distribution is not None:
            return _CHANGED
        if is_distributed or self._dataset._graph.is_served:
            return _SERVED
        return "the dataset's options allow any order" if self._dataset.options().deterministic is False else ""

    def sharded(self, num_shards: int, index: int) -> StreamLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        return StreamLoading(self._dataset.shard(num_shards, index), self._policy, self._on_lost, self._is_served)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_distributed": None, "_read": None}


class IterableLoading(StreamLoading):
    """Iterable datasets, read in this process or in ``processes`` of each worker.

    Calls ``set_epoch`` of a dataset that has this method.
    """

    def __init__(
        self,
        make: Iterate,
        spec: tuple[Any, ...] | None,
        processes: int,
        shard: tuple[int, int] | None = None,
        is_served: bool = False,
        is_seeded: bool = True,
        on_lost: str = "raise",
    ) -> None:
        self._make, self._spec, self._processes, self._shard = make, spec, processes, shard
        self._is_served, self._is_seeded = is_served, is_seeded
        self._on_lost = on_lost
        self._read = None
        #: The pass that was opened to find the spec of a batch, until it is used. `_pass` is the running pass, with its epoch.
        self._first_pass: IterablePass | None = None
        self._pass: tuple[int, IterablePass] | None = None
        #: The position to resume at: the epoch, the step and the iterable's own state.
        self._resumed: tuple[int, int, dict[str, Any]] | None = None
        self._found: tuple[Any, ...] | None = None
        self._policy = ShardingPolicy.OFF
        self._draws = 0
        #: The service, the epoch, the packed code for workers, and the dataset that reads their batches.
        self._sent: tuple[Any, int | None, _Sent, Dataset] | None = None

    @property
    def element_spec(self) -> Any:
        """The spec of a batch."""
        return dressed(self._described())

    def steps(self, epoch: int) -> int:
        """Raises ``TypeError``, because the number of batches is unknown.

        Raises:
            TypeError: The number is always unknown.
        """
        raise TypeError("a dataset that can only be iterated over has an unknown number of batches, so it has no len()")

    def batches(self, epoch: int, delivered: Delivered, service: Any, output: str) -> Steps:
        """Returns the elements of a pass, without the delivered elements."""
        told = epoch if hasattr(self._make.dataset, "set_epoch") else None
        make = dataclasses.replace(self._make, epoch=told)
        if service is None:
            return self._steps_here(make, epoch, delivered.first, output)
        if self._sent is None or self._sent[:2] != (service, told):
            # The code is packed before the spec reads a batch, so that workers begin at the dataset's present position.
            sent = _Sent.of(make, service, self._processes, seeded=True)
            self._sent = service, told, sent, self._read_on(sent, service)
        return self._steps(self._sent[3], epoch, delivered.first, output, self._sent[2])

    def _read_on(self, sent: _Sent, service: Any) -> Dataset:
        return self._of(sent.code).apply(distribute(self._policy, service, on_lost=self._on_lost))

    def _steps_here(self, make: Iterate, epoch: int, first: int, output: str) -> Steps:
        resumed = self._resumed if self._resumed is not None and self._resumed[:2] == (epoch, first) else None
        looked_at, self._first_pass = self._first_pass, None

        def begin() -> IterablePass:
            nonlocal looked_at
            if resumed is not None:
                begun = IterablePass(make, resumed[2], first, draw=self._draw(epoch))
            elif looked_at is not None and looked_at.epoch == make.epoch:
                begun, looked_at = looked_at, None
            else:
                begun = IterablePass(make, draw=self._draw(epoch))
            self._pass = epoch, begun
            return begun

        if resumed is None and self._spec is None and self._found is None:
            looked_at = IterablePass(make, draw=self._draw(epoch))
            self._found = probed(looked_at, make.batch_size is not None)
        here = Held(begin)
        return self._steps(self._of(here.code), epoch, first, output, here, skips=resumed is None)

    def _draw(self, epoch: int) -> int | None:
        """Returns the seed of a pass's generators, as in a worker with one process; ``None`` for the program's own generators."""
        seed = self._make.millstream_seed if self._is_seeded else None
        return None if seed is None else _draws.mix(_draws.base(seed, _draws.pass_of(epoch)), 0)

    def _of(self, code: bytes) -> Dataset:
        dataset = Dataset(Graph.iterable(self._spec or loose(self._described()), code, -2))
        return dataset if self._shard is None else dataset.shard(*self._shard)

    def _described(self) -> tuple[Any, ...]:
        if self._spec is None and self._found is None:
            is_batched = self._make.batch_size is not None
            if self._is_served:
                with _draws.kept():
                    self._found = probed(IterablePass(_copied(self._make)), is_batched)
            else:
                epoch = 0 if hasattr(self._make.dataset, "set_epoch") else None
                self._first_pass = IterablePass(dataclasses.replace(self._make, epoch=epoch), draw=self._draw(0))
                self._found = probed(self._first_pass, is_batched)
        return self._spec or self._found or ()

    def state_after(self, epoch: int, step: int) -> dict[str, Any]:
        """Returns the iterable's own state after a step, if the iterable has a state."""
        if self._shard is not None:
            return {}
        if self._resumed is not None and self._resumed[:2] == (epoch, step):
            return {"iterable": self._resumed[2]}
        state = self._pass[1].state_after(step) if self._pass is not None and self._pass[0] == epoch else None
        return {} if state is None else {"iterable": state}

    def adapted(self, state: dict[str, Any], step: int) -> int:
        """Returns the step of a saved state, and restores the iterable's own state if there is one."""
        step = super().adapted(state, step)
        iterable = state.get("iterable")
        self._resumed = None if iterable is None else (int(state["epoch"]), step, iterable)
        return step

    def unordered(self, is_distributed: bool) -> str:
        """Returns the reason why two runs have different orders of elements; empty if the order is fixed."""
        return _SERVED if is_distributed else ""

    def sharded(self, num_shards: int, index: int) -> IterableLoading:
        """Returns the part of trainer ``index`` of ``num_shards`` trainers."""
        shard = num_shards, index
        return IterableLoading(self._make, self._spec, self._processes, shard, self._is_served, self._is_seeded, self._on_lost)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sent": None, "_read": None, "_first_pass": None, "_pass": None}


def _copied(make: Iterate) -> Iterate:
    """Returns a copy of ``make``, so that a read of the first batch changes no state. Returns ``make`` if the dataset cannot be copied."""
    try:
        return dataclasses.replace(make, dataset=copy.deepcopy(make.dataset))
    except Exception:
        # A user's class may raise any exception if it cannot be copied.
        return make
