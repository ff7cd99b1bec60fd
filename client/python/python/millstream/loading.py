"""What a loader reads epoch by epoch: a dataset by index, of which each step can be computed anywhere, or a stream of batches.

Refuses to know who asks for batches and how many were delivered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ._millstream import Elements
from .code import packed
from .dataset import Dataset
from .distribute import _Fetch, _varying, default_collate, from_python
from .errors import InvalidArgumentError
from .plan import IndexPlan, ListedPlan, Plan
from .positions import Delivered
from .ranks import Rank
from .service import ShardingPolicy, distribute
from .spec import dressed, plain
from .worker import described

__all__ = ["IndexedLoading", "Loading", "Steps", "StreamLoading", "loading_of"]

Collate = Callable[[list[Any]], Any]

_NONE = object()


class Steps:
    """The batches of an epoch with the numbers of their steps."""

    def __init__(self, elements: Elements, number: Callable[[Any], tuple[int, Any]]) -> None:
        #: For whoever ends it, or asks what was measured.
        self.elements = elements
        self._number = number

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
        self, elements: Elements, number: Callable[[Any], tuple[int, Any]], steps: Iterator[int], window: int
    ) -> None:
        super().__init__(elements, number)
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
) -> Loading:
    """What a loader with these arguments reads of Python's own dataset; ``window``: see ``IndexedLoading``.

    Raises:
        InvalidArgumentError: They contradict each other, or the dataset.
    """
    is_indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, str)
    if not is_indexed:
        if shuffle or sampler is not None or batch_sampler is not None:
            raise InvalidArgumentError("what can only be iterated over has no order to choose: leave out shuffle and samplers")
        stream = from_python(
            dataset,
            batch_size=batch_size,
            drop_last=last_batch == "DROP",
            collate_fn=collate,
            element_spec=element_spec,
        )
        return StreamLoading(stream, ShardingPolicy.OFF)
    if sampler is not None and shuffle or batch_sampler is not None and (shuffle or sampler is not None):
        raise InvalidArgumentError("sampler, batch_sampler and shuffle exclude each other: each says the order")
    of = IndexedLoading(
        dataset,
        None if batch_size is None and batch_sampler is None else collate or default_collate,
        IndexPlan(len(dataset), batch_size or 1, rank.dp_rank, rank.dp_size, shuffle, seed, last_batch),
        window,
        worker_init_fn,
        None if element_spec is None else plain(element_spec),
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
    done.
    """

    dataset: Any
    collate: Collate | None
    plan: IndexPlan
    window: int | None
    worker_init_fn: Callable[[int], None] | None
    spec: tuple[Any, ...] | None
    lister: _Lister | None = None
    _code: bytes | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.plan.count} samples"

    @property
    def samples(self) -> int:
        """How many there are."""
        return self.plan.count

    def described(self) -> tuple[Any, ...]:
        """What a batch is, found by computing the first one if nobody said it."""
        if self.spec is None:
            plan: Plan = self.plan if self.lister is None else self.lister.plan(0)
            if not plan.steps:
                raise InvalidArgumentError("there is no batch that shows what batches are: give element_spec")
            first = _batch(self.dataset, self.collate, plan.rows(0, 0))
            self.spec = _varying(described(first), self.collate is not None)
        return self.spec

    @property
    def element_spec(self) -> Any:
        """What a batch is."""
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
        spec = ("tuple", [("tensor", "i64", ()), self.described() if plan.steps else ("none",)])
        graph = numbers._graph.map_python(spec, self._packed(plan)).parallel(0)

        def numbered(element: Any) -> tuple[int, Any]:
            return int(element[0]) - base, element[1]

        if self.window is None:
            dataset = Dataset(graph.in_order(False))
        else:
            # Dealt out one by one, so that no worker has many before those of another.
            dataset = Dataset(graph.split_size(1))
        if service is not None:
            dataset = dataset.apply(distribute(ShardingPolicy.DYNAMIC, service))
        elements = iter(dataset.with_output(output))
        if self.window is None or service is None:
            return Steps(elements, numbered)
        return OrderedSteps(elements, numbered, delivered.missing(plan.steps), self.window)

    def _packed(self, plan: Plan) -> bytes:
        if self.lister is not None:
            return packed(step_batch, self.dataset, self.collate, plan, self.worker_init_fn)
        if self._code is None:
            self._code = packed(step_batch, self.dataset, self.collate, plan, self.worker_init_fn)
        return self._code

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
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, dp_rank=index, dp_size=num_shards), _code=None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_code": None}


def _batch(dataset: Any, collate: Collate | None, rows: Any) -> Any:
    return _Fetch(dataset, collate, None)(rows if collate is not None else rows[0])


#: Samples that an error names.
_ROWS_TOLD = 64

_initialised: set[int] = set()


def step_batch(
    dataset: Any, collate: Collate | None, plan: Plan, worker_init_fn: Callable[[int], None] | None, number: Any
) -> tuple[Any, Any]:
    """Where it is computed: a step's number and its batch."""
    if worker_init_fn is not None and id(worker_init_fn) not in _initialised:
        _initialised.add(id(worker_init_fn))
        worker_init_fn(_worker_id())
    epoch, step = divmod(int(number), plan.steps)
    rows = plan.rows(epoch, step)
    try:
        return np.int64(number), _batch(dataset, collate, rows)
    except Exception as error:
        # Whoever reads of it elsewhere has no debugger there.
        listed = ", ".join(map(str, rows[:_ROWS_TOLD])) + (", ..." if len(rows) > _ROWS_TOLD else "")
        error.add_note(f"at step {step} of epoch {epoch}, of samples {listed}")
        raise


def _worker_id() -> int:
    try:
        from torch.utils.data import get_worker_info
    except ImportError:
        return 0
    info = get_worker_info()
    return 0 if info is None else int(info.id)


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
        elements = dataset.with_output(output if dataset._output == "numpy" else dataset._output)._pass(epoch, self._draws)
        first = delivered.first
        elements.skip(first)
        numbers = iter(range(first, 1 << 62))
        return Steps(elements, lambda element: (next(numbers), element))

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
            return "batches of a service come in the order in which its workers have them"
        return "the dataset's options allow any order" if self._dataset.options().deterministic is False else ""

    def sharded(self, num_shards: int, index: int) -> StreamLoading:
        """The part of one of so many trainers."""
        return StreamLoading(self._dataset.shard(num_shards, index), self._policy)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_distributed": None}
