"""Any Python on workers: datasets of torch, of Hugging Face, and whatever can be iterated over or made by a function.

Workers run it in processes of the user's interpreter, in which this package must be installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from . import _draws
from ._code import Limits, Shelf, packed, unpacked
from ._dataset import AUTOTUNE, Dataset
from ._millstream import Graph
from ._spec import plain
from ._structure import Stack
from ._worker import array_of_torch, described
from .errors import InvalidArgumentError
from .service import ShardingPolicy, _policy
from .service import distribute as _distribute

__all__ = ["distribute", "from_python"]


def default_collate(samples: list[Any], sequence: type[Any] | None = None) -> Any:
    """Samples stacked along a new leading dimension, in every leaf of their structure: once it is known where to.

    ``sequence``: what tuples and lists become, unless they stay what they are.
    """
    first = samples[0]
    if any(sample is None for sample in samples):
        raise TypeError("a sample has None where others may have an array: fill it in the dataset, or by collate_fn")
    if isinstance(first, Mapping):
        return {name: default_collate([sample[name] for sample in samples], sequence) for name in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in samples):
            raise ValueError(f"a batch of lists of {sorted({len(sample) for sample in samples})} items: pad them by collate_fn")
        parts = (default_collate(list(items), sequence) for items in zip(*samples, strict=True))
        return (sequence or (list if isinstance(first, list) else tuple))(parts)
    if isinstance(first, str | bytes):
        return samples
    return Stack([np.asarray(array_of_torch(sample)) for sample in samples])


def _collate_of_torch(samples: list[Any]) -> Any:
    """What torch's own function makes, without its copies to memory that it shares with others: tuples become lists."""
    return default_collate(samples, list)


#: Where torch has its functions.
_COLLATE_OF_TORCH = ("torch.utils.data._utils.collate", "default_collate")
_CONVERT_OF_TORCH = ("torch.utils.data._utils.collate", "default_convert")


def collate_of(loader: Any) -> Callable[[Any], Any] | None:
    """What a ``DataLoader`` of torch does with samples; ``None``: they stay as they are."""
    given: Callable[[Any], Any] = loader.collate_fn
    named = (getattr(given, "__module__", ""), getattr(given, "__name__", ""))
    if named == _COLLATE_OF_TORCH:
        return _collate_of_torch
    return None if named == _CONVERT_OF_TORCH else given


def draws_all(sampler: Any) -> bool:
    """Whether a sampler is one of torch that draws every sample once."""
    count = len(getattr(sampler, "data_source", ()))
    is_random = type(sampler).__name__ == "RandomSampler" and not getattr(sampler, "replacement", False)
    return is_random and getattr(sampler, "num_samples", count) == count


@dataclasses.dataclass(frozen=True, eq=False)
class Fetch:
    """On a worker: the sample of an index, or a batch of several.

    ``collate``: what is made of the samples of a batch, or of a single one. ``millstream_seed``: with it each sample draws by seed, epoch and
    index, and a batch is collated with what the generators draw after its last sample.
    """

    dataset: Any
    collate: Callable[[Any], Any] | None
    is_batched: bool
    worker_init_fn: Callable[[int], Any] | None = None
    millstream_seed: int | None = None

    def __call__(self, indices: Any) -> Any:
        told = _draws.told()
        return self.drawn(indices, None if self.millstream_seed is None or told is None else _draws.base(self.millstream_seed, told[0]))

    def drawn(self, indices: Any, base: int | None, by_place: bool = False) -> Any:
        """Returns the sample or batch.

        Samples draw from ``base`` and their index, and from the place in the batch where an index may come twice. Without a base they draw from the
        generators as they are.

        Args:
            indices: An index, or those of a batch.
            base: The seed that draws are mixed from.
            by_place: Whether the place in the batch counts.

        Returns:
            The sample, or what the collation makes of the batch.
        """
        if not self.is_batched:
            if base is not None:
                _draws.seed_all(_draws.mix(base, int(indices)))
            return self._sample(int(indices))
        # Some fetch several at once better than one by one.
        several = getattr(self.dataset, "__getitems__", None)
        listed = [int(index) for index in indices]
        collate = self.collate or default_collate
        try:
            if several is None:
                return collate([self._indexed(index, base, place if by_place else 0) for place, index in enumerate(listed)])
            if base is not None and listed:
                _draws.seed_all(_draws.mix(base, listed[0]))
            return collate(several(listed))
        except Exception as error:
            _say_of(error, *listed)
            raise

    def _sample(self, index: int) -> Any:
        sample = self._indexed(index)
        try:
            return sample if self.collate is None else self.collate(sample)
        except Exception as error:
            _say_of(error, index)
            raise

    def _indexed(self, index: int, base: int | None = None, place: int = 0) -> Any:
        if base is not None:
            _draws.seed_all(_draws.mix(base + place, index))
        try:
            return self.dataset[index]
        except Exception as error:
            _say_of(error, index)
            raise

    def __repr__(self) -> str:
        return f"the dataset {type(self.dataset).__qualname__}"


def _say_of(error: Exception, *indices: int) -> None:
    """Has an error say of which samples it is, beside what it says itself; where one is known, of that."""
    if not hasattr(error, "millstream_samples"):
        with contextlib.suppress(AttributeError):
            error.millstream_samples = indices  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, eq=False)
class Iterate:
    """On a worker: samples, or batches of them; of the epoch that is said, if it is one of those that shuffle by it."""

    dataset: Any
    collate: Callable[[Any], Any] | None
    batch_size: int | None
    drop_last: bool
    worker_init_fn: Callable[[int], Any] | None = None
    epoch: int | None = None
    #: With it each process begins to draw by seed, pass and its own number.
    millstream_seed: int | None = None

    def loaded(self) -> Iterate:
        """With what is only named: its imports are done before it is called."""
        named = isinstance(self.dataset, str)
        return dataclasses.replace(self, dataset=unpacked(packed(self.dataset))) if named else self

    def __call__(self) -> Iterator[Any]:
        return self.batches(iter(self.made()))

    def made(self) -> Any:
        """Returns the iterable, after telling it the epoch."""
        made = self.loaded().dataset
        if callable(made):
            made = made()
        if self.epoch is not None and hasattr(made, "set_epoch"):
            made.set_epoch(self.epoch)
        return made

    def batches(self, samples: Iterator[Any]) -> Iterator[Any]:
        """Returns the batches of these samples, or the collated samples."""
        if self.batch_size is None:
            return samples if self.collate is None else map(self.collate, samples)
        return self._batches(samples, self.batch_size, self.collate or default_collate)

    def _batches(self, samples: Iterator[Any], size: int, collate: Callable[[Any], Any]) -> Iterator[Any]:
        while batch := list(itertools.islice(samples, size)):
            if len(batch) == size or not self.drop_last:
                yield collate(batch)

    def spec(self) -> tuple[Any, ...]:
        """What it yields, found by computing the first one here.

        Raises:
            InvalidArgumentError: It yields nothing.
        """
        with _draws.kept():
            for first in self():
                return varying(described(first), self.batch_size is not None)
        raise InvalidArgumentError("it yields nothing, which does not show what its elements are: give element_spec")

    def __repr__(self) -> str:
        return f"the dataset {self.dataset if isinstance(self.dataset, str) else type(self.dataset).__qualname__}"


def loose(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """What was found of one element, of which every dimension may differ in others."""
    kind = spec[0]
    if kind == "tensor":
        return (kind, spec[1], (None,) * len(spec[2]))
    if kind == "dict":
        return (kind, [(name, loose(item)) for name, item in spec[1]])
    return spec if kind in ("none", "ragged", "sparse") else (kind, [loose(item) for item in spec[1]])


def varying(spec: tuple[Any, ...], batched: bool) -> tuple[Any, ...]:
    """What was found of one element, with a leading dimension that may differ in the last batch."""
    kind = spec[0]
    if kind == "tensor":
        return (kind, spec[1], (None, *spec[2][1:]) if batched and spec[2] else spec[2])
    if kind == "dict":
        return (kind, [(name, varying(item, batched)) for name, item in spec[1]])
    return spec if kind == "none" else (kind, [varying(item, batched) for item in spec[1]])


class _Loader:
    """What a ``DataLoader`` of torch was made with, or the arguments given instead."""

    def __init__(
        self, x: Any, batch_size: int | None, shuffle: bool, drop_last: bool, collate: Any, limits: Limits
    ) -> None:
        self.dataset, self.batch_size, self.shuffle, self.drop_last, self.collate = (
            x,
            batch_size,
            shuffle,
            drop_last,
            collate,
        )
        self.worker_init_fn: Callable[[int], Any] | None = None
        self.limits = limits
        # By its attributes, so that torch need not be there.
        if not isinstance(x, str) and all(hasattr(x, name) for name in ("dataset", "collate_fn", "batch_sampler")):
            self._take_over(x, batch_size)

    def _take_over(self, loader: Any, batch_size: int | None) -> None:
        if batch_size is not None:
            raise InvalidArgumentError("a DataLoader says batch_size itself")
        sampler = loader.sampler
        self.shuffle = draws_all(sampler)
        is_plain = type(sampler).__name__ in ("SequentialSampler", "_InfiniteConstantSampler")
        if loader.batch_size is None and loader.batch_sampler is not None:
            raise InvalidArgumentError(
                f"the batch_sampler {type(loader.batch_sampler).__name__} cannot be dealt out to workers: ms.wrap(loader, service=...) "
                "asks it for every epoch"
            )
        if not is_plain and not self.shuffle:
            raise InvalidArgumentError(
                f"the sampler {type(sampler).__name__} cannot be dealt out to workers, which read every sample once: give the dataset "
                "with shuffle=True or False; or ms.wrap(loader, service=...), which asks it for every epoch"
            )
        self.dataset, self.collate = loader.dataset, collate_of(loader)
        self.batch_size, self.drop_last = loader.batch_size, bool(loader.drop_last)
        self.worker_init_fn = getattr(loader, "worker_init_fn", None)
        said: dict[str, Any] = {"processes": getattr(loader, "num_workers", 0) or None, "deadline_s": getattr(loader, "timeout", 0) or None}
        self.limits = dataclasses.replace(
            self.limits, **{name: value for name, value in said.items() if getattr(self.limits, name) is None}
        )


def from_python(
    x: Any,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    drop_last: bool = False,
    collate_fn: Callable[[Any], Any] | None = None,
    seed: int | None = None,
    element_spec: Any = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    shelf: Shelf | None = None,
) -> Dataset:
    """Makes the dataset of ``distribute`` without a service.

    Args:
        x: The dataset, loader or iterable.
        batch_size: The samples of a batch.
        shuffle: Whether the order differs from epoch to epoch.
        drop_last: Whether a last batch that is not full is left out.
        collate_fn: The function that makes a batch.
        seed: The seed of order and draws.
        element_spec: The spec of an element.
        num_parallel_calls: The number of Python processes of a worker.
        limits: Limits of the processes.
        shelf: The place for large data, if workers can read it.

    Returns:
        The new dataset.
    """
    loader = _Loader(x, batch_size, shuffle, drop_last, collate_fn, limits or Limits())
    if not is_indexed(loader.dataset):
        return _iterated(loader, element_spec, shelf, seed)
    count, is_batched = len(loader.dataset), loader.batch_size is not None
    indices = Dataset.range(count)
    if is_batched:
        # Dealt out by whole batches, so that only the last one of all workers is short.
        indices = indices.split_size(loader.batch_size or 1)
    if loader.shuffle:
        indices = indices.shuffle(max(count, 1), seed)
    if is_batched:
        indices = indices.batch(loader.batch_size or 1, drop_remainder=loader.drop_last)
    fetch = Fetch(loader.dataset, loader.collate, is_batched, loader.worker_init_fn, seed)
    if element_spec is not None:
        spec = plain(element_spec)
    elif count:
        first = np.arange(min(loader.batch_size or 1, count)) if is_batched else np.int64(0)
        with _draws.kept():
            spec = varying(described(fetch(first)), is_batched)
    else:
        raise InvalidArgumentError("an empty dataset does not show what its elements are: give element_spec")
    asked = num_parallel_calls if num_parallel_calls != AUTOTUNE else loader.limits.processes or 0
    code = packed(fetch, limits=loader.limits, shelf=shelf, seeded=seed is not None)
    return Dataset(indices._graph.map_python(spec, code).parallel(asked))


def is_indexed(dataset: Any) -> bool:
    """Whether it is read by index; else it is iterated over, or called for what is."""
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, str)


def _iterated(loader: _Loader, element_spec: Any, shelf: Shelf | None, seed: int | None) -> Dataset:
    if loader.shuffle:
        raise InvalidArgumentError("what can only be iterated over cannot be shuffled by index: use Dataset.shuffle behind it")
    check_iterable(loader.dataset)
    make = Iterate(loader.dataset, loader.collate, loader.batch_size, loader.drop_last, loader.worker_init_fn, millstream_seed=seed)
    # Workers begin where it stands now, whatever finding the spec reads of it.
    code = packed(make, limits=loader.limits, shelf=shelf, seeded=seed is not None)
    spec = make.spec() if element_spec is None else plain(element_spec)
    return Dataset(Graph.iterable(spec, code, -2))


def check_iterable(source: Any) -> None:
    """Refuses an object that is not a dataset.

    Raises:
        InvalidArgumentError: It can neither be iterated over nor called, or be iterated over once.
    """
    if type(source).__module__ in ("builtins", "itertools") and isinstance(source, Iterator):
        raise InvalidArgumentError(
            f"{source!r} is an iterator, which can be read only once: give what makes it, as a function without arguments"
        )
    if not isinstance(source, str | Iterable) and not callable(source):
        raise InvalidArgumentError(f"{source!r} is not a dataset: it cannot be indexed, iterated over or called")


def distribute(
    x: Any,
    service: Any,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    drop_last: bool = False,
    collate_fn: Callable[[Any], Any] | None = None,
    seed: int | None = None,
    element_spec: Any = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    processing_mode: ShardingPolicy | str | None = None,
    output: str | None = None,
    on_lost: str = "raise",
    **options: Any,
) -> Dataset:
    """Returns a dataset that Python code computes on the workers of a service.

    The code runs in Python processes that each worker supervises, as many as it has calls at a time. Each process knows its number from
    ``torch.utils.data.get_worker_info()``. With ``ms.local(inline=True)`` it runs in threads of this process.

    Args:
        x: What is computed. It is pickled; data of more than a few megabytes can only be read by workers of ``ms.local``, from this process.

            - A dataset with ``len`` and indices, as torch's and Hugging Face's: one worker reads each index, once an epoch.
            - A torch ``DataLoader``. Its dataset, batch size, sampler, collation, ``drop_last``, ``worker_init_fn``, ``timeout`` (as
              ``limits.deadline_s``) and ``num_workers`` are taken over. The sampler must draw every sample once.
            - An iterable, a function without arguments that returns one, or the name ``"module:function"`` of a function that workers can
              import: every worker yields all of its elements.
        service: The address of a service, or an ``ms.local`` service.
        batch_size: The samples of a batch. The default is the samples themselves.
        shuffle: Whether the order of samples differs from epoch to epoch.
        drop_last: Whether a last batch that is not full is left out.
        collate_fn: The function that makes a batch of a list of samples. The default stacks arrays, nested as samples are.
        seed: The seed of the order, and of what ``random``, ``numpy.random`` and ``torch`` draw: these depend on seed, epoch and index alone. In
            an iterable they depend on the number of the process, and go on from element to element. The default is another seed in each
            run. Inline workers draw from this program's own generators.
        element_spec: The ``TensorSpec`` of an element. Without it the first element is computed in this process.
        num_parallel_calls: The number of Python processes of a worker, at most its number of threads. The default is ``num_workers`` of a
            ``DataLoader``, or the number that turns out to be needed.
        limits: The time and the memory that Python processes may take.
        processing_mode: How workers share the dataset. The default is ``"distributed_epoch"`` for datasets by index, and
            ``"parallel_epochs"`` for iterables.
        output: ``"numpy"``, ``"torch"`` or ``"jax"``. The default is torch for torch's own datasets and loaders, and numpy for others.
        on_lost: What happens at the end of an epoch that lost elements with a worker. ``"raise"`` raises ``DataLossError`` after all other
            elements, ``"warn"`` issues a ``DataLossWarning``, ``"ignore"`` does nothing.
        **options: Further parameters of ``ms.service.distribute``.

    Returns:
        The dataset. ``len`` of it is known for datasets by index whose batches are not shuffled.

    Raises:
        InvalidArgumentError: ``x`` is not a dataset, or cannot be sent to workers.
    """
    dataset = from_python(
        x,
        batch_size=batch_size,
        shuffle=shuffle,
        drop_last=drop_last,
        collate_fn=collate_fn,
        seed=seed,
        element_spec=element_spec,
        num_parallel_calls=num_parallel_calls,
        limits=limits,
        shelf=getattr(service, "shelf", None),
    )
    mode = processing_mode or (ShardingPolicy.DYNAMIC if dataset._graph.cardinality >= 0 else ShardingPolicy.OFF)
    distributed = dataset.apply(_distribute(mode, service, on_lost=on_lost, **options))
    batches_drawn = shuffle or draws_all(getattr(x, "sampler", None))
    is_batched = batch_size is not None or getattr(x, "batch_size", None) is not None
    if dataset._graph.cardinality >= 0 and _policy(mode) is ShardingPolicy.DYNAMIC and not (batches_drawn and is_batched):
        # Splits are whole batches, of which each is read once.
        distributed._known_count = dataset._graph.cardinality
    return distributed.with_output(output or ("torch" if _is_of_torch(x) else "numpy"))


def _is_of_torch(x: Any) -> bool:
    """Returns whether it is a dataset or a loader of torch, which then is imported."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(x).__mro__)
