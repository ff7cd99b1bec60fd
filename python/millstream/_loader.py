"""The loader: what training loops and trainers expect of one, over Python's datasets and native ones, here or on a service.

It takes the arguments of torch's ``DataLoader`` by name. Which samples a step has is a function of seed, epoch and position,
so its state is a few numbers, and restoring reads nothing that was read before.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from ._dataset import Dataset
from ._distribute import collate_of, default_collate, draws_all
from ._feed import Lane, lane_of
from ._iteration import END, LoaderIterator
from ._loading import Loading, StreamLoading, loading_of
from ._notices import warn_of_loss
from ._output import taker
from ._positions import Delivered
from ._ranks import Rank, rank
from ._steps import Steps
from .errors import DataLossError, FailedPreconditionError, InvalidArgumentError
from .service import ON_LOST

__all__ = ["DataLoader", "wrap"]

#: Of the states that this version writes and reads.
STATE_VERSION = 1

#: Batches that are kept until an earlier one comes, unless ``prefetch_factor`` says how many each worker is to be ahead.
_WINDOW = 16

#: Steps that an error names.
_STEPS_TOLD = 16


class DataLoader:
    """Batches of a dataset, for a training loop.

    The parameters up to ``in_order`` are those of torch's ``DataLoader``, with the same meanings. The others are keywords.

    Where batches are computed:

    - with a ``service``, on its workers, each with at most ``num_workers`` Python processes;
    - with ``num_workers`` alone, on a worker of this machine with that many Python processes, which ends with the loader. An
      ``ms.Dataset`` uses threads in place of processes;
    - with neither, in this process, one batch after the other.

    An iterable dataset is iterated over by every process. ``torch.utils.data.get_worker_info()`` says which process this is. Each worker
    of a ``service`` yields the whole dataset.

    Order: with ``in_order=True``, batches of a dataset by index come in the order of their steps, from several workers too. The loader
    keeps at most ``prefetch_factor`` batches of each worker, 16 by default, that come before their turn. With ``in_order=False`` batches
    come when they are ready. Batches of an iterable dataset on a service come when they are ready in both cases.

    Waits: Ctrl-C ends every wait within a tenth of a second. After ``timeout`` seconds without a batch the loader raises
    ``DeadlineExceededError`` and ends the epoch; 0 sets no limit. Neither interrupts Python code that computes in this process.

    Args:
        dataset: A dataset by index, as torch's and Hugging Face's; an iterable; a function that returns one; or an ``ms.Dataset``, whose
            elements are batches already.
        service: The address of a service, or an ``ms.local`` service. Its workers compute the batches.
        output: ``"numpy"``, ``"torch"`` or ``"jax"``. The default is torch if the program has imported it, and numpy if not.
        seed: The seed of the order of samples, and of what ``random``, ``numpy.random`` and ``torch`` draw in the dataset. Both depend on
            seed, epoch and sample alone, whatever computes them; draws of an iterable dataset depend on the number of the process too. The
            default is the seed of ``generator``, or 0. Without both, a dataset in this process draws from the program's own
            generators, as in torch.
        dp_rank: The number of this data-parallel trainer. The default is found as ``ms.rank`` finds it, unless a sampler is given.
        dp_size: The number of data-parallel trainers.
        replication: How many consecutive trainers read the same batches, as in tensor parallelism.
        last_batch: What becomes of samples that do not fill a step of all trainers. ``"PARTIAL"`` gives each trainer a part of them,
            ``"FILL"`` adds samples from the beginning, ``"DROP"`` leaves them out, as ``drop_last`` does. All trainers have
            equally many steps.
        element_spec: The ``TensorSpec`` of a batch, for datasets whose first batch is too expensive to compute in this process. Without it
            the first batch says how batches are nested and typed; their sizes may differ.
        pin_memory: Has no effect and warns: ``device`` copies from pinned memory.
        device: The torch device of the batches. Copies to it go on beside its computation, as in ``ms.feed``.
        on_lost: What happens at the end of an epoch that lost batches with a worker. ``"raise"`` raises ``DataLossError`` after all other
            batches, ``"warn"`` issues a ``DataLossWarning``, ``"ignore"`` does nothing.

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
    ) -> None:
        if pin_memory:
            warnings.warn("pin_memory has no effect: device copies from pinned memory", stacklevel=2)
        if pin_memory_device:
            warnings.warn("pin_memory_device has no effect: give device", DeprecationWarning, stacklevel=2)
        if batch_size is not None and batch_size < 1:
            raise InvalidArgumentError(f"batch_size={batch_size}: a batch has at least one sample; None: samples as they are")
        if num_workers < 0:
            raise InvalidArgumentError(f"num_workers={num_workers}: how many processes compute, or 0 to compute here")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise InvalidArgumentError(f"prefetch_factor={prefetch_factor}: batches for each worker, at least 1, or None")
        if batch_sampler is not None and (batch_size not in (None, 1) or drop_last):
            raise InvalidArgumentError("batch_sampler, batch_size and drop_last exclude each other: the sampler says what batches are")
        if on_lost not in ON_LOST:
            raise InvalidArgumentError(f"on_lost {on_lost!r}: use {', '.join(map(repr, ON_LOST))}")
        if timeout < 0:
            raise InvalidArgumentError(f"timeout={timeout}: seconds, or 0 to wait as long as it takes")
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = bool(drop_last) or last_batch == "DROP"
        self.num_workers, self.collate_fn = num_workers, collate_fn or default_collate
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.multiprocessing_context, self.generator = None, generator
        self.prefetch_factor, self.persistent_workers, self.in_order = prefetch_factor, persistent_workers, in_order
        self.device = device
        #: Trainers that look into it for a sampler find that of ``sampler``.
        self.batch_sampler = None
        self._output = output or ("torch" if device is not None or "torch" in sys.modules else "numpy")
        taker(self._output)
        if device is not None and self._output != "torch":
            raise InvalidArgumentError(f"device={device!r} is one of torch: it needs output='torch', not {self._output!r}")
        #: What opens a way to the device.
        self._lane: Callable[[], Lane] | None = None if device is None else lane_of(device)
        found = rank(dp_rank, dp_size, replication=replication) if sampler is batch_sampler is None else Rank()
        is_seeded = seed is not None or generator is not None
        if seed is None:
            seed = 0 if generator is None else int(generator.initial_seed())
        self._loading: Loading
        if isinstance(dataset, Dataset):
            self.rank, self.batch_size = (Rank() if dp_rank is None else found), None
            self._loading = StreamLoading(dataset, on_lost=on_lost)
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
        self._measured: dict[str, Any] = {}
        self._wanted: int | None = None
        self._prefetched: LoaderIterator | None = None
        self._latest: int | None = None
        self._has_begun = False
        self._profiled: list[dict[str, Any]] | None = None
        self._restored(0, 0, [])
        self._given = dataset

    # What it is.

    @property
    def sampler(self) -> _Sampler:
        """What trainers tell the epoch. Made when it is asked for: a loader that nobody has any more goes at once."""
        return _Sampler(self)

    @property
    def dataset(self) -> _Stub:
        """The dataset, with what trainers ask of one."""
        return _Stub(self, self._given)

    @property
    def element_spec(self) -> Any:
        """The ``TensorSpec`` of a batch, nested as batches are."""
        return self._loading.element_spec

    @property
    def epoch(self) -> int:
        """The epoch that is read, or will be."""
        return self._epoch

    @property
    def step(self) -> int:
        """How many batches of the epoch were delivered."""
        return len(self._delivered)

    @property
    def total_batch_size(self) -> int | None:
        """The samples of a step on all trainers together."""
        return None if self.batch_size is None else self.batch_size * self.rank.dp_size

    @property
    def last_batch_valid_count(self) -> int | None:
        """How many samples of the latest batch, from the first on, do not repeat others to make it full; where that is known."""
        return None if self._latest is None else self._loading.valid(self._latest)

    def __len__(self) -> int:
        """Batches of an epoch, as many on all trainers.

        Raises:
            TypeError: Nobody knows.
        """
        return self._loading.steps(self._epoch)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        where = "here" if self._service is None and not self.num_workers else f"on {self._service or 'workers of its own'}"
        return (
            f"<millstream.DataLoader of {self._loading} {where}, epoch {self._epoch}, step {self.step}, "
            f"trainer {self.rank.dp_rank} of {self.rank.dp_size} ({self.rank.source})>"
        )

    # Batches.

    def __iter__(self) -> LoaderIterator:
        return LoaderIterator(self)

    async def __aiter__(self) -> AsyncIterator[Any]:
        batches, loop = iter(self), asyncio.get_running_loop()
        try:
            while (batch := await loop.run_in_executor(None, next, batches, END)) is not END:
                yield batch
        finally:
            # Else a thread would wait on for a batch that nobody wants.
            batches.close()

    def start_prefetch(self) -> None:
        """Has the next epoch begin in the background, while the program is not ready for it yet."""
        if self._prefetched is None:
            ahead = LoaderIterator(self)
            # Beginning an epoch forgets what was begun ahead before.
            ahead.begin()
            self._prefetched = ahead

    def _window(self) -> int:
        """Batches that are kept until an earlier one comes, before workers wait."""
        return (self.prefetch_factor or 0) * self.num_workers or _WINDOW

    def _begun(self) -> tuple[int, Delivered, Steps]:
        """The next epoch, which begins now: its number, what of it was delivered before, and what is left."""
        if self._wanted is not None:
            self._restored(self._wanted, 0, [])
        elif self._is_finished or self._has_begun:
            self._restored(self._epoch + 1, 0, [])
        self._has_begun = True
        batches = self._loading.batches(self._epoch, self._delivered, self._at(), self._output)
        self._reading = batches.elements
        return self._epoch, self._delivered, batches

    def _check_complete(self, epoch: int, delivered: Delivered, batches: Steps | None) -> None:
        """Looks at the end of an epoch for steps that were lost with a worker."""
        if self.on_lost == "ignore" or batches is None or not batches.elements.stats().get("lost_splits"):
            return
        if missing := self._loading.missing(delivered):
            named = ", ".join(map(str, missing[:_STEPS_TOLD])) + (", ..." if len(missing) > _STEPS_TOLD else "")
            text = f"{len(missing)} of {len(self)} steps of epoch {epoch} were lost with their workers: {named}"
            if self.on_lost == "raise":
                raise DataLossError(f"{text}. All others were delivered")
            warn_of_loss(text)

    def _at(self) -> Any:
        """The service, started if it is this loader's own."""
        if self._service is None and self.num_workers > 0:
            if self._own_service is None:
                from ._local import local

                # One, which has so many processes of Python, or threads: they know each other's numbers.
                self._own_service = local(workers=1, threads=self.num_workers)
            return self._own_service
        return self._service

    # Where it is.

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iterator reads. It begins at its beginning, unless it is being read.

        Args:
            epoch: The number of the epoch, from 0.
        """
        if self._has_begun and not self._is_finished and epoch == self._epoch:
            # A running iterator continues; the next one begins the epoch again.
            self._wanted = None if self._prefetched is not None else epoch
        elif self._has_begun or self._is_finished or epoch != self._epoch:
            self._restored(epoch, 0, [])

    def state_dict(self, *, behind: int = 0) -> dict[str, Any]:
        """The position, as a few plain numbers: after the batch that was delivered last.

        It is the same on all trainers if batches come in order. Otherwise it names its trainer.

        Args:
            behind: Batches before the last one, for trainers that prefetch.

        Returns:
            A dict that JSON can hold.

        Raises:
            InvalidArgumentError: That many batches were not delivered in order.
        """
        ahead, step = self._delivered.ahead, self._delivered.first
        if behind:
            if ahead or behind > step:
                raise InvalidArgumentError(f"behind={behind}: so many batches were not delivered in order")
            step -= behind
        state = {
            "version": STATE_VERSION,
            "epoch": self._epoch,
            "step": step,
            "finished": self._is_finished and not behind,
            "ahead": ahead,
            **self._loading.identity(),
            **self._loading.state_after(self._epoch, step),
        }
        if ahead:
            state |= {"dp_rank": self.rank.dp_rank, "dp_size": self.rank.dp_size}
        return state

    def load_state_dict(self, state_dict: dict[str, Any], *, strict: bool = True) -> None:
        """Continues after the batch that was delivered last when the state was taken. Nothing is read before the next batch.

        For a dataset by index, no sample is computed again or left out. An iterable dataset is computed again up to the position, without
        delivering the elements.

        Args:
            state_dict: A state of ``state_dict``.
            strict: Whether a state of another dataset or order is refused.

        Raises:
            InvalidArgumentError: The state has another version, seed, size or trainer; the message has both values.
            FailedPreconditionError: The order of batches is not the same in every run.
        """
        if state_dict.get("version") != STATE_VERSION:
            raise InvalidArgumentError(
                f"the state is of version {state_dict.get('version')!r}, this is {STATE_VERSION}: it was written by another Millstream"
            )
        step, ahead = int(state_dict["step"]), [list(pair) for pair in state_dict["ahead"]]
        if strict:
            if reason := self._loading.unordered(self._service is not None or self.num_workers > 0):
                raise FailedPreconditionError(f"{reason}: load_state_dict(..., strict=False) goes on by count")
            mine = {"dp_rank": self.rank.dp_rank, "dp_size": self.rank.dp_size} if ahead else {}
            for name, value in mine.items():
                if state_dict.get(name) != value:
                    raise InvalidArgumentError(f"the state has {name} {state_dict.get(name)}, this loader {value}")
            step = self._loading.adapted(state_dict, step)
        self._restored(int(state_dict["epoch"]), step, ahead)
        self._is_finished = bool(state_dict["finished"])

    def _restored(self, epoch: int, step: int, ahead: list[list[int]]) -> None:
        self._epoch, self._wanted = epoch, None
        self._delivered = Delivered(([[0, step]] if step else []) + ahead)
        self._is_finished = self._has_begun = False
        self._latest = self._prefetched = None

    get_state = state_dict
    set_state = load_state_dict

    async def save(self, directory: str | Path) -> None:
        """Writes the state into a directory.

        Args:
            directory: The directory, which must exist.
        """
        await asyncio.to_thread((Path(directory) / "millstream.json").write_text, json.dumps(self.state_dict()))

    async def load(self, directory: str | Path) -> None:
        """Continues where a state in a directory says.

        Args:
            directory: A directory that ``save`` wrote to.
        """
        self.load_state_dict(json.loads(await asyncio.to_thread((Path(directory) / "millstream.json").read_text)))

    # The rest of what is expected.

    def stats(self) -> dict[str, Any]:
        """Measurements of the latest epoch.

        Returns:
            The bottleneck (trainer, network or workers) with rates, waits and transports.
        """
        if self._reading is not None:
            self._measured = self._reading.stats()
        return {**self._measured, "epoch": self._epoch, "step": self.step}

    @contextlib.contextmanager
    def profile(self, path: str | Path) -> Iterator[None]:
        """Records how long the program waited for each batch and worked on it, in the form of Chrome's trace viewers.

        Args:
            path: The file to write when the block ends.

        Returns:
            A context manager for the block to record.
        """
        events: list[dict[str, Any]] = []
        self._profiled = events
        try:
            yield
        finally:
            self._profiled = None
            Path(path).write_text(json.dumps({"traceEvents": events}))

    def close(self) -> None:
        """Ends the workers that are its own. It can be iterated over again."""
        if self._prefetched is not None:
            self._prefetched.close()
            self._prefetched = None
        # Else what was read last would look for its service as long as the loader is there.
        self.stats()
        self._reading = None
        if self._own_service is not None:
            self._own_service.close()
            self._own_service = None

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # The copy goes on where this one is, by connections and workers of its own.
        state = self.__dict__ | {"_own_service": None, "_prefetched": None, "_reading": None, "_profiled": None, "_lane": None}
        return state | {"_service": getattr(self._service, "target", self._service), "_has_begun": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lane = None if self.device is None else lane_of(self.device)


class _Sampler:
    """What trainers look for to tell the epoch."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """See ``DataLoader.set_epoch``."""
        self._loader.set_epoch(epoch)


class _Stub:
    """The dataset of a loader: what trainers ask of one, and else the user's own."""

    def __init__(self, loader: DataLoader, dataset: Any) -> None:
        self._loader, self._dataset = loader, dataset

    @property
    def num_shards(self) -> int:
        """Into how many parts it can be divided: any number."""
        return max(1, self._loader._loading.samples or 1)

    n_shards = num_shards

    def shard(self, num_shards: int, index: int, contiguous: bool = True) -> DataLoader:
        """The part of one of so many trainers, as a loader of its own."""
        part = copy.copy(self._loader)
        part._loading = self._loader._loading.sharded(num_shards, index)
        part.rank = Rank(index, num_shards, "shard")
        part._restored(self._loader._epoch, 0, [])
        return part

    def set_epoch(self, epoch: int) -> None:
        """See ``DataLoader.set_epoch``."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """See ``DataLoader.state_dict``."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``DataLoader.load_state_dict``."""
        self._loader.load_state_dict(state_dict)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_dataset"):
            raise AttributeError(name)
        return getattr(self._dataset, name)


def wrap(x: Any, **arguments: Any) -> DataLoader:
    """Makes a loader of a loader or dataset that a program has already.

    Args:
        x: A torch ``DataLoader``, whose arguments are taken over, or any dataset.
        **arguments: Arguments of ``ms.DataLoader``, which replace those of ``x``.

    Returns:
        The loader.
    """
    if isinstance(x, DataLoader | str) or not all(hasattr(x, name) for name in ("dataset", "collate_fn", "batch_sampler")):
        return DataLoader(x, **{"batch_size": None, **arguments})
    names = ("batch_size", "num_workers", "pin_memory", "drop_last", "timeout", "worker_init_fn", "generator")
    taken = {name: getattr(x, name) for name in (*names, "prefetch_factor", "in_order") if hasattr(x, name)}
    taken["collate_fn"] = collate_of(x)
    if draws_all(x.sampler):
        taken["shuffle"] = True
    elif type(x.sampler).__name__ not in ("SequentialSampler", "_InfiniteConstantSampler"):
        taken["sampler"] = x.sampler
    if taken.get("batch_size") is None and x.batch_sampler is not None:
        taken.pop("sampler", None)
        taken["batch_sampler"] = x.batch_sampler
    return DataLoader(x.dataset, **{**taken, **arguments})
