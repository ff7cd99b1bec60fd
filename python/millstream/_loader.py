"""The loader for training loops, over Python datasets and native datasets, in this process or on a service.

The loader takes the arguments of torch's ``DataLoader`` by name. The samples of a step are a function of seed, epoch and position. The state of the
loader is therefore a few numbers, and a restored loader reads no sample again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import operator
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from . import _draws
from ._dataset import Dataset
from ._distribute import default_collate
from ._exact import ExactLoading, LoadingTerms, chosen_loading, distributed_terms, exact_loading
from ._feed import Lane, framework_of, lane_of
from ._iteration import END, LoaderIterator
from ._lineage import Lineage
from ._live import hidden, register
from ._loader_stub import Sampler, Stub
from ._loader_view import html_of, name_of, observed, place_of, stats_of
from ._loading import IndexedLoading, Loading, StreamLoading, loading_of
from ._notices import warn_of_loss
from ._output import taker
from ._positions import Delivered
from ._ranks import Rank, rank
from ._state_checksum import check_complete, with_checksum
from ._steps import Steps, checked_skip
from ._trace import MEMORY_BYTES, Trace
from ._verdict import LoaderStats
from ._waits import WaitClock
from .errors import DataLossError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from .service import DEATHS_DEFAULT, FAILURES_DEFAULT, ON_LOST, VISITATIONS, ExactLimits, _address

__all__ = ["DataLoader"]

#: The version of the states that this loader writes and reads.
STATE_VERSION = 1

#: The default number of batches that the loader keeps until an earlier batch arrives. ``prefetch_factor`` replaces the default.
_WINDOW = 16

#: The maximum number of steps that an error names.
_STEPS_TOLD = 16
#: The arguments that choose and join samples. An ``ms.Dataset`` has none of them, because its elements are batches.
SAMPLE_ARGUMENTS = ("batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn")


class DataLoader:
    """A loader that yields the batches of a dataset to a training loop.

    The parameters up to ``in_order`` are those of torch's ``DataLoader``, with the same meanings. The remaining parameters are keywords.

    The arguments decide the processes that compute batches:

    - With a ``service``, the service's workers compute batches. Each worker uses at most ``num_workers`` Python processes.
    - With only ``num_workers``, a worker on this machine computes batches with ``num_workers`` Python processes. The worker ends with the
      loader. For an ``ms.Dataset`` the worker uses threads instead of processes.
    - Otherwise this process computes one batch after the other.

    Every process iterates over an iterable dataset. ``torch.utils.data.get_worker_info()`` returns the number of the process, by which a
    dataset can divide itself. Each worker of a ``service`` yields the whole dataset.

    Order: with ``in_order=True``, batches of a dataset with indices are delivered in the order of their steps, also from several workers. The
    loader keeps at most ``prefetch_factor`` early batches of each worker, 16 batches by default. With ``in_order=False`` the loader delivers
    batches as soon as they are ready. Batches of an iterable dataset on a service are always delivered as soon as they are ready. A
    ``ms.Dataset`` that workers read exactly once has the order of its splits, or with ``in_order=False`` the order in which batches arrive.
    Each batch is still delivered once, and the state of each trainer contains the splits that it has read early.

    Waits: Ctrl-C ends every wait within a tenth of a second. After ``timeout`` seconds without a batch the loader raises
    ``DeadlineExceededError`` and ends the epoch; 0 sets no limit. Ctrl-C and ``timeout`` do not interrupt Python code that runs in this process.

    Args:
        dataset: A dataset with indices, for example of torch or Hugging Face; an iterable; a function that returns an iterable; or an
            ``ms.Dataset`` whose elements are batches. The loader also resumes exactly over a dataset that ``ms.service.distribute`` reads
            exactly once, with the seed, the order, the trainers and the limits of ``distribute``. If operations follow ``distribute``,
            ``load_state_dict`` needs ``strict=False``; ``prefetch`` and ``with_options`` are exceptions, and have no effect on the loader.
        service: The address of a service, or an ``ms.local`` service, whose workers compute the batches.
        output: The framework of the arrays: ``"numpy"``, ``"torch"`` or ``"jax"``. The default is torch if the program has imported torch, and
            numpy otherwise.
        seed: The seed of the order of samples, and of random draws by ``random``, ``numpy.random`` and ``torch`` in the dataset. Order and
            draws depend only on the seed, the epoch and the sample, not on the process. Draws of an iterable dataset also depend on the number
            of the process. The default is the seed of ``generator``. Without both, the default generator of torch draws the seed when
            reading begins, as in torch, if the program has imported torch and runs in one process. Otherwise the seed is 0, because all
            trainers need the same seed. The seed of an iterable dataset is 0, too. The state of the loader contains the seed. Without a
            seed and a generator, a dataset in this process draws from the program's own generators, as in torch.
        dp_rank: The number of this data-parallel trainer. By default the loader finds the number with ``ms.rank``, unless a sampler is passed.
        dp_size: The number of data-parallel trainers.
        replication: The number of consecutive trainers that read the same batches, for example with tensor parallelism.
        last_batch: The treatment of the last samples if they do not fill a step of all trainers. ``"PARTIAL"`` divides the samples among the
            trainers, ``"FILL"`` adds samples from the beginning, and ``"DROP"`` leaves the samples out, like ``drop_last``. All trainers have
            the same number of steps. With ``visitation="exactly_once"``, ``"PARTIAL"`` delivers every batch, so trainers may have different
            numbers of steps; ``"DROP"`` ends the epoch of all trainers after the same step.
        element_spec: The ``TensorSpec`` of a batch, for datasets whose first batch is too expensive to compute in this process. By default the
            first batch determines the structure and the dtypes of all batches. The sizes of batches may differ.
        pin_memory: Has no effect and issues a warning, because ``device`` copies batches while the device computes.
        device: The device of the batches: a torch device, or a device or sharding of JAX. Batches are copied while the device computes, as in
            ``ms.feed``.
        on_lost: The reaction to the end of an epoch that lost batches with a worker. ``"raise"`` raises ``DataLossError`` after all other
            batches, ``"warn"`` issues a ``DataLossWarning``, and ``"ignore"`` does nothing.
        visitation: ``"exactly_once"`` delivers every batch of a ``ms.Dataset`` exactly once, although workers are lost, in an order that depends
            only on dataset, ``seed`` and epoch if ``in_order`` is set. Each trainer reads its part of the splits. If ``len()`` is known and
            ``in_order`` is set, the state is the same on all trainers, and any number of trainers continues from it. Otherwise see
            ``ms.joined_states``. ``"upstream"`` reads as the tf.data service does: batches in the order of arrival, and every trainer reads the
            whole dataset. By default workers read exactly once if the splits yield the same batches as the whole dataset. Otherwise they read as
            with ``"upstream"``, and the loader logs a warning with the reason.
        max_skips: The number of splits of an exactly-once epoch that may be skipped, as in ``ms.service.distribute``. ``len()`` is then unknown.
        max_deaths: The number of dead workers after which a split is given up, as in ``ms.service.distribute``.
        max_quarantined: The number of elements of an exactly-once epoch that may be left out because they fail, as in ``ms.service.distribute``.
            ``len()`` is then unknown.
        max_failures: The number of failures after which an element is left out, as in ``ms.service.distribute``.
        name: The name of the loader in metrics, traces and notebooks. By default a number.

    Example:
        >>> loader = ms.DataLoader(list(range(10)), batch_size=4)
        >>> [batch.tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = True,
        pin_memory_device: str = "",
        in_order: bool = True,
        service: Any = None,
        output: str | None = None,
        seed: int | None = None,
        dp_rank: int | None = None,
        dp_size: int | None = None,
        replication: int = 1,
        last_batch: str | None = None,
        element_spec: Any = None,
        device: Any = None,
        on_lost: str = "raise",
        visitation: str | None = None,
        max_skips: int = 0,
        max_deaths: int = DEATHS_DEFAULT,
        max_quarantined: int = 0,
        max_failures: int = FAILURES_DEFAULT,
        name: str | None = None,
    ) -> None:
        if pin_memory:
            warnings.warn("pin_memory has no effect: use device, which copies batches while the device computes", stacklevel=2)
        if pin_memory_device:
            warnings.warn("pin_memory_device has no effect: use device", DeprecationWarning, stacklevel=2)
        if batch_size is not None and batch_size < 1:
            raise InvalidArgumentError(f"batch_size={batch_size}: must be at least 1, or None for single samples")
        if num_workers < 0:
            raise InvalidArgumentError(f"num_workers={num_workers}: must be a number of processes, or 0 to compute in this process")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise InvalidArgumentError(f"prefetch_factor={prefetch_factor}: must be at least 1 batch for each worker, or None")
        if batch_sampler is not None and (batch_size not in (None, 1) or drop_last):
            raise InvalidArgumentError("batch_sampler, batch_size and drop_last exclude each other: leave out batch_size and drop_last")
        if on_lost not in ON_LOST:
            raise InvalidArgumentError(f"on_lost {on_lost!r}: use {', '.join(map(repr, ON_LOST))}")
        if visitation not in (None, *VISITATIONS):
            raise InvalidArgumentError(f"visitation={visitation!r}: use {' or '.join(map(repr, VISITATIONS))}, or None for the default")
        if timeout < 0:
            raise InvalidArgumentError(f"timeout={timeout}: must be a number of seconds, or 0 to wait without a limit")
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = bool(drop_last) or last_batch == "DROP"
        self.num_workers, self.collate_fn = num_workers, collate_fn or default_collate
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.multiprocessing_context, self.generator = None, generator
        self.prefetch_factor, self.persistent_workers, self.in_order = prefetch_factor, persistent_workers, in_order
        self.device = device
        #: Always ``None``, so that libraries use the attribute ``sampler``.
        self.batch_sampler = None
        self._output = output or ("torch" if "torch" in sys.modules else "numpy")
        if device is not None:
            needed = framework_of(device)
            if output not in (None, needed):
                raise InvalidArgumentError(f"device={device!r} needs output={needed!r}, found output={output!r}")
            if isinstance(dataset, Dataset) and dataset._output not in ("numpy", needed):
                raise InvalidArgumentError(f"device={device!r} needs with_output({needed!r}), found with_output({dataset._output!r})")
            # The feed converts numpy arrays to JAX arrays on the device.
            self._output = "torch" if needed == "torch" else "numpy"
            if isinstance(dataset, Dataset) and needed == "jax":
                dataset = dataset.with_output("numpy")
        taker(self._output)
        #: The function that opens a lane to the device.
        self._lane: Callable[[], Lane] | None = None if device is None else lane_of(device)
        found = rank(dp_rank, dp_size, replication=replication) if sampler is batch_sampler is None else Rank()
        is_seeded = seed is not None or generator is not None
        if seed is None:
            seed = 0 if generator is None else int(generator.initial_seed())
        limits = ExactLimits(max_skips, max_deaths, max_quarantined, max_failures)
        self._loading: Loading
        if isinstance(dataset, Dataset):
            _refuse_sample_arguments(batch_size, shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler, collate_fn=collate_fn)
            self.batch_size, last = None, last_batch or ("DROP" if drop_last else None)
            is_served, distribution = service is not None or num_workers > 0, dataset._distribution
            exact: ExactLoading | None = None
            if distribution is None:
                exact = chosen_loading(dataset, LoadingTerms(seed, found, last, in_order, limits), visitation, is_served)
                self.rank = Rank() if exact is None and dp_rank is None else found
            else:
                own: dict[str, Any] = {"service": None if service is None else _address(service), "seed": seed if is_seeded else None}
                own |= {"visitation": visitation, "in_order": None if in_order else in_order, **limits.passed()}
                if dp_rank is not None or replication != 1:
                    own |= {"dp_rank": found.dp_rank, "dp_size": found.dp_size}
                terms = distributed_terms(distribution, last, own)
                self.rank, self.in_order = terms.rank, terms.in_order
                if not distribution.is_followed:
                    exact, service = exact_loading(distribution.dataset, terms), distribution.service
                    self._output = self._output if dataset._output == "numpy" else dataset._output
            self._loading = exact or StreamLoading(dataset, on_lost=on_lost, is_served=is_served)
        elif given := limits.given():
            raise InvalidArgumentError(f"{given} needs an ms.Dataset, which exactly-once reading divides into splits")
        else:
            self.rank = found
            self._loading = loading_of(
                dataset,
                batch_size=batch_size,
                shuffle=bool(shuffle),
                sampler=sampler,
                batch_sampler=batch_sampler,
                collate=collate_fn,
                last_batch=last_batch or ("DROP" if drop_last else "PARTIAL"),
                seed=seed,
                is_seeded=is_seeded,
                rank=found,
                reader=rank(dp_rank, dp_size, replication=replication).dp_rank,
                window=self._window() if in_order else None,
                worker_init_fn=worker_init_fn,
                element_spec=element_spec,
                processes=num_workers,
                is_served=service is not None or num_workers > 0,
                on_lost=on_lost,
            )
        self.on_lost = on_lost
        self._service = service
        self._own_service: Any = None
        self._reading: Any = None
        self._wanted: int | None = None
        self._prefetched: LoaderIterator | None = None
        #: The iterator that reads the present epoch, as long as the program holds it.
        self._running: Callable[[], LoaderIterator | None] | None = None
        self._latest: int | None = None
        self._has_begun = False
        self._trace: Trace | None = None
        self.name = name
        #: The waits of the training loop, and whether the loader is opening an epoch.
        self._clock, self._is_opening = WaitClock(), False
        #: The step after the last skipped batch of the epoch; 0 if no batch was skipped.
        self._skipped_to = 0
        self._restored(0, 0, [])
        self._given = dataset
        #: Whether a state may set the seed, because the program has passed none; and whether nothing has set the seed yet.
        self._takes_seed = self._is_undrawn = not is_seeded

    # Properties of the loader.

    @property
    def sampler(self) -> Sampler:
        """The object whose ``set_epoch`` libraries call. Each access creates a new object, to avoid a reference cycle."""
        return Sampler(self)

    @property
    def dataset(self) -> Stub:
        """The dataset, with the additional methods that libraries call."""
        return Stub(self, self._given)

    @property
    def element_spec(self) -> Any:
        """The ``TensorSpec`` of a batch, in the structure of a batch."""
        return self._loading.element_spec

    @property
    def epoch(self) -> int:
        """The number of the present epoch. Before the first batch, and after ``load_state_dict``, the epoch that the next iterator reads."""
        return self._epoch + self._is_between

    @property
    def _is_between(self) -> bool:
        """Whether a state of a finished epoch was loaded, and the next epoch has not begun."""
        return self._is_finished and not self._has_begun

    @property
    def step(self) -> int:
        """The number of batches of the epoch that were delivered."""
        return 0 if self._is_between else len(self._delivered)

    @property
    def total_batch_size(self) -> int | None:
        """The number of samples of all trainers in a step."""
        return None if self.batch_size is None else self.batch_size * self.rank.dp_size

    @property
    def last_batch_valid_count(self) -> int | None:
        """The number of samples at the start of the latest batch that are not repeated to fill the batch; ``None`` if unknown."""
        return None if self._latest is None else self._loading.valid(self._latest)

    def __len__(self) -> int:
        """Returns the number of batches of the present epoch. After the end of an epoch, the number of the next epoch.

        The number is that of the whole epoch: batches that were delivered before a resume count. Pass ``initial=loader.step`` to ``tqdm`` after
        ``load_state_dict``.

        Raises:
            TypeError: The number is unknown. The message says why.
        """
        if self._wanted is not None:
            return self._loading.steps(self._wanted)
        return self._loading.steps(self._epoch + self._is_finished)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        named = "" if self.name is None else f" {self.name!r}"
        return (
            f"<millstream.DataLoader{named} of {self._loading} {place_of(self)}, epoch {self.epoch}, step {self.step}, "
            f"trainer {self.rank.dp_rank} of {self.rank.dp_size} ({self.rank.source})>"
        )

    def _repr_html_(self) -> str:
        return html_of(self)

    def _observed(self) -> dict[str, Any]:
        return observed(self)

    def _forked(self) -> None:
        """Forgets the measurements of the parent in a forked child, which must not touch the parent's iterators."""
        self._reading = self._trace = None
        self._clock, self._is_opening = WaitClock(), False

    # Batches.

    def __iter__(self) -> LoaderIterator:
        return LoaderIterator(self)

    async def __aiter__(self) -> AsyncIterator[Any]:
        batches, loop = iter(self), asyncio.get_running_loop()
        try:
            while (batch := await loop.run_in_executor(None, next, batches, END)) is not END:
                yield batch
        finally:
            # Closing ends the wait of the thread that requests the next batch.
            batches.close()

    def start_prefetch(self) -> None:
        """Starts the next epoch in the background, before the program requests its first batch."""
        if self._prefetched is None:
            ahead = LoaderIterator(self)
            # `begin` clears `_prefetched`, so the attribute is set afterwards.
            ahead.begin()
            self._prefetched = ahead

    def skip(self, batches: int = 1) -> int:
        """Skips the next batches, for example bad batches that raise the loss. The running iterator continues after them.

        Skipped batches count as delivered: in ``step``, in the states, and in the numbers of later steps. Trainers that skip the same number
        after the same step stay at one step, so their states are joined and resumed as always. If the position after a step is computed from
        the step, and no iterator runs, skipped batches are not read. Otherwise the method reads and drops them, and blocks until they arrive.
        With ``in_order=False`` these are the batches that arrive next.

        Skipping ends with the epoch: the next epoch begins with its first batch. Without a running iterator, the batches are those that the next
        iterator would deliver first.

        Args:
            batches: The number of batches, at most 4096 in one call.

        Returns:
            The number of skipped batches, which is smaller than ``batches`` only if the epoch has fewer batches left.

        Raises:
            InvalidArgumentError: ``batches`` is negative or too large.

        Example:
            >>> loader = ms.DataLoader(list(range(10)), batch_size=2, output="numpy")
            >>> loader.skip(3)
            3
            >>> [batch.tolist() for batch in loader]
            [[6, 7], [8, 9]]
        """
        if not (count := checked_skip(batches)):
            return 0
        reading = self._prefetched
        if reading is None and self._running is not None and (running := self._running()) is not None and running.reads(self._delivered):
            reading = running
        if reading is None:
            self._position()
            if (steps := self._loading.computed_steps(self._epoch)) is not None:
                skipped = list(itertools.islice(self._delivered.missing(steps), count))
                for step in skipped:
                    self._delivered.add(step)
                self._skipped_to = max([self._skipped_to, *(step + 1 for step in skipped)])
                return len(skipped)
            reading = LoaderIterator(self)
            reading.open()
            self._prefetched = reading
        return reading.skip(count)

    def lineage(self, step: int, *, epoch: int | None = None) -> Lineage:
        """Returns the records of the dataset from which the batch of a step was made, for example after a spike of the loss.

        The answer is computed from the dataset, the seed and the position for datasets with indices, and for exactly-once reading in a fixed
        order whose ``len()`` is known. If an operation such as a filter decides the number of batches, the loader remembers the positions of the
        4096 batches that it delivered last. For another step it reads at most 4096 batches from the nearest known position on, and drops them.
        If an exactly-once loader has ``in_order=False``, only remembered batches have an answer. With ``max_skips``, reading meets the splits that
        end their workers again. With ``max_quarantined``, reading may compute failed elements again, with the same warnings. For a split that left
        elements out, the answer names the split without its records.

        The files of a dataset are listed again, so their names are those of the epoch if no file was added or removed since.

        Args:
            step: The number of the step in the epoch, delivered or not. Skipped batches count.
            epoch: The number of the epoch. The default is the present epoch.

        Returns:
            The records of the batch, by split, index and file.

        Raises:
            OutOfRangeError: The epoch of this trainer has no such step.
            InvalidArgumentError: The position of the step is unknown. The message says what to do.
            FailedPreconditionError: The loader reads a stream, whose batches have unknown records.
            DeadlineExceededError: No batch arrived within the timeout of the loader.
        """
        self._draw_seed()
        epoch, step = self.epoch if epoch is None else operator.index(epoch), operator.index(step)
        if epoch < 0 or step < 0:
            raise OutOfRangeError(f"step {step} of epoch {epoch}: steps and epochs begin at 0")
        return self._loading.lineage(epoch, step, self._at, self.timeout)

    def _window(self) -> int:
        """Returns the maximum number of early batches that the loader keeps. Workers wait when the limit is reached."""
        return (self.prefetch_factor or 0) * self.num_workers or _WINDOW

    def _position(self) -> None:
        """Moves to the position at which the next iterator begins."""
        if self._wanted is not None:
            self._restart(self._wanted)
        elif self._is_finished or self._has_begun:
            self._restart(self._epoch + 1)

    def _begun(self) -> tuple[int, Delivered, Steps]:
        """Starts the next epoch. Returns its number, the delivered steps, and the remaining batches."""
        self._position()
        self._has_begun = True
        self._draw_seed()
        self._clock.follow(None)
        # Opening may wait for a service, so the loader is shown before.
        register(self)
        self._is_opening = True
        try:
            with hidden():
                batches = self._loading.batches(self._epoch, self._delivered, self._at(), self._output)
        finally:
            self._is_opening = False
        self._reading = batches.elements
        self._clock.follow(batches.elements.measurements())
        return self._epoch, self._delivered, batches

    def _draw_seed(self) -> None:
        """Draws the seed that the program has not passed. Several trainers keep the default, because their seeds must be equal."""
        if not self._is_undrawn:
            return
        self._is_undrawn = False
        if isinstance(self._loading, IndexedLoading) and self._loading.draws and self.rank.dp_size == rank().dp_size == 1:
            seed = _draws.of_program()
            self._loading = self._loading if seed is None else self._loading.seeded(seed)

    def _check_complete(self, epoch: int, delivered: Delivered, batches: Steps | None) -> None:
        """Reports the steps that were lost with a worker, at the end of an epoch."""
        if self.on_lost == "ignore" or batches is None or not batches.elements.stats().get("lost_splits"):
            return
        if missing := self._loading.missing(delivered):
            named = ", ".join(map(str, missing[:_STEPS_TOLD])) + (", ..." if len(missing) > _STEPS_TOLD else "")
            text = f"{len(missing)} of {len(self)} steps of epoch {epoch} were lost with their workers: {named}"
            if self.on_lost == "raise":
                raise DataLossError(f"{text}. All other steps were delivered")
            warn_of_loss(text)

    def _at(self) -> Any:
        """Returns the service, and starts the loader's own service if necessary."""
        is_exact = isinstance(self._loading, ExactLoading)
        if self._service is None and (self.num_workers > 0 or is_exact):
            if self._own_service is None:
                from ._local import local

                # One worker has all processes or threads, so that `get_worker_info()` numbers them from 0.
                self._own_service = local(workers=1, threads=self.num_workers or None, inline=self.num_workers == 0)
            return self._own_service
        return self._service

    # The position.

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that the next iterator reads. The epoch starts at its first batch, and a running iterator continues.

        Args:
            epoch: The number of the epoch, from 0.
        """
        if self._has_begun and not self._is_finished and epoch == self._epoch:
            # A running iterator continues; the next one begins the epoch again.
            self._wanted = None if self._prefetched is not None else epoch
        elif self._has_begun or self._is_finished or epoch != self._epoch:
            self._restart(epoch)

    def state_dict(self, *, behind: int = 0) -> dict[str, Any]:
        """Returns the position after the batch that was delivered last, as a few numbers.

        If batches arrive in order, the state is the same on all trainers. Otherwise the state belongs to one trainer, and contains the
        trainer's number.

        Args:
            behind: The number of delivered batches that the trainer has prefetched and not used.

        Returns:
            A dict that JSON can represent.

        Raises:
            InvalidArgumentError: ``behind`` is larger than the number of batches that were delivered in order, or reaches back across skipped
                batches.
        """
        ahead, step = self._delivered.ahead, self._delivered.first
        if behind:
            if ahead or behind > step:
                raise InvalidArgumentError(f"behind={behind}: only {0 if ahead else step} batches were delivered in order")
            step -= behind
            if step < self._skipped_to:
                raise InvalidArgumentError(
                    f"behind={behind} reaches back to step {step}, and the batches up to step {self._skipped_to} were skipped: use the prefetched "
                    "batches before skip(), or save the state before it"
                )
        self._draw_seed()
        state = {
            "version": STATE_VERSION,
            "epoch": self._epoch,
            "step": step,
            "finished": self._is_finished and not behind and self._loading.ends_epoch(self._epoch, step),
            "ahead": ahead,
            **self._loading.identity(),
            **self._loading.state_after(self._epoch, step),
        }
        if ahead:
            state |= {"dp_rank": self.rank.dp_rank, "dp_size": self.rank.dp_size}
        return with_checksum(state)

    def load_state_dict(self, state_dict: dict[str, Any], *, strict: bool = True) -> None:
        """Sets the position of the loader to a saved state. The loader reads no data before the program requests the next batch.

        Afterwards ``epoch`` is the epoch that the next iterator reads. After a state of a finished epoch this is the following epoch.

        For a dataset with indices, no sample is computed again or left out. An iterable dataset is computed again up to the position, without
        delivery of the elements.

        Args:
            state_dict: A state that ``state_dict`` returned.
            strict: Whether to refuse a state of another dataset or order. A loader without a seed takes the seed of the state.

        Raises:
            InvalidArgumentError: The state has another version, seed, size or trainer. The message contains both values. Or entries of the state
                were lost or changed after it was saved.
            FailedPreconditionError: The order of batches differs between runs.
        """
        if state_dict.get("version") != STATE_VERSION:
            raise InvalidArgumentError(
                f"expected a state of version {STATE_VERSION}, found version {state_dict.get('version')!r}: load the state with the "
                "version of Millstream that wrote it"
            )
        check_complete(state_dict)
        loading = self._loading
        if self._takes_seed and isinstance(loading, IndexedLoading) and "seed" in state_dict:
            loading = loading.seeded(int(state_dict["seed"]))
        step, ahead = int(state_dict["step"]), [list(pair) for pair in state_dict["ahead"]]
        if strict:
            if reason := self._loading.unordered(self._service is not None or self.num_workers > 0):
                raise FailedPreconditionError(f"{reason}: load_state_dict(..., strict=False) continues by the number of delivered batches")
            mine = {"dp_rank": self.rank.dp_rank, "dp_size": self.rank.dp_size} if ahead else {}
            for name, value in mine.items():
                if state_dict.get(name) != value:
                    raise InvalidArgumentError(f"the state has {name} {state_dict.get(name)}, this loader {value}: use the state of this trainer")
            step = loading.adapted(state_dict, step)
        else:
            loading.restart(int(state_dict["epoch"]))
        self._loading, self._is_undrawn = loading, False
        self._restored(int(state_dict["epoch"]), step, ahead)
        self._is_finished = bool(state_dict["finished"])

    def _restart(self, epoch: int) -> None:
        """Moves to the first batch of an epoch. A position that was loaded in the epoch is forgotten."""
        self._loading.restart(epoch)
        self._restored(epoch, 0, [])

    def _restored(self, epoch: int, step: int, ahead: list[list[int]]) -> None:
        self._epoch, self._wanted = epoch, None
        self._delivered = Delivered(([[0, step]] if step else []) + ahead)
        self._is_finished = self._has_begun = False
        self._latest = self._prefetched = None
        self._skipped_to = 0

    get_state = state_dict
    set_state = load_state_dict

    async def save(self, directory: str | Path) -> None:
        """Writes the state into a directory.

        Args:
            directory: The directory, which must exist.
        """
        await asyncio.to_thread((Path(directory) / "millstream.json").write_text, json.dumps(self.state_dict()))

    async def load(self, directory: str | Path) -> None:
        """Loads the state from a directory, and continues at its position.

        Args:
            directory: A directory to which ``save`` wrote.
        """
        self.load_state_dict(json.loads(await asyncio.to_thread((Path(directory) / "millstream.json").read_text)))

    # Measurements and the end.

    def stats(self) -> LoaderStats:
        """Returns measurements of the latest epoch. The method does not wait, and may be called from any thread.

        ``waited_s`` and ``wait_share`` are the waits of the training loop: the time that it spent in requests for batches. ``first_wait_s`` is
        the wait for the first batch, which includes the start of the epoch.

        Returns:
            A dict, whose text is a sentence that says whether the training loop waits for data, why, and what to change. Entries are among others
            ``verdict``, ``advice``, ``bottleneck``, ``batches``, ``bytes``, ``transports`` and, for pipelines in this process, ``stages``.

        Example:
            >>> loader = ms.DataLoader(list(range(10)), batch_size=4, output="numpy")
            >>> print(loader.stats())
            The training loop has not requested a batch yet.
        """
        return stats_of(self)

    @contextlib.contextmanager
    def profile(self, path: str | Path, *, memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
        """Records the training loop's work and wait for each batch as a trace, which Perfetto (``ui.perfetto.dev``) and Chrome show.

        A track has the work and the waits, with the epoch and the step. For pipelines in this process a counter has the number of threads that
        each stage keeps busy, ten times a second.

        Args:
            path: The file that is written when the block ends.
            memory_bytes: The limit of the memory for events, 64 MiB by default, which suffices for about 80,000 batches. The trace ends when the
                limit is reached. A warning and the file then say how many events are missing, and from which time on.

        Returns:
            A context manager for the recorded block.
        """
        trace = Trace(name_of(self), memory_bytes)
        self._trace = trace
        try:
            yield
        finally:
            self._trace = None
            trace.write(path)

    def close(self) -> None:
        """Ends the loader's own workers. A closed loader can be iterated over again."""
        if self._prefetched is not None:
            self._prefetched.close()
            self._prefetched = None
        # The last iterator is released, because an iterator tries to reach a closed service as long as the iterator exists.
        self._clock.leave()
        self._reading = None
        if self._own_service is not None:
            self._own_service.close()
            self._own_service = None

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.device is not None and framework_of(self.device) == "jax":
            raise InvalidArgumentError("a loader with a device of JAX cannot be copied or pickled: create it in the process that trains")
        # The copy has the same position, but its own connections and workers.
        state = self.__dict__ | {"_own_service": None, "_prefetched": None, "_reading": None, "_trace": None, "_lane": None, "_running": None}
        own = {"_clock": WaitClock(), "_is_opening": False}
        return state | own | {"_service": getattr(self._service, "target", self._service), "_has_begun": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lane = None if self.device is None else lane_of(self.device)


def _refuse_sample_arguments(batch_size: int | None, **given: Any) -> None:
    """Refuses arguments that choose and join samples, because the elements of an ``ms.Dataset`` are batches in their order."""
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if batch_size not in (None, 1):
        wrong.insert(0, "batch_size")
    if wrong:
        raise InvalidArgumentError(
            f"{', '.join(wrong)}: an ms.Dataset has no such arguments, because its elements are the batches of the loader: call .shuffle(...) and "
            ".batch(...) on the dataset, and leave the arguments out"
        )
