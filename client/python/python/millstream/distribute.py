"""Any Python on workers: datasets of torch, of Hugging Face, and whatever can be iterated over or made by a function.

Workers run it in processes of the user's interpreter, in which this package must be installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._millstream import Graph
from .code import Limits, packed, unpacked
from .dataset import AUTOTUNE, Dataset
from .errors import InvalidArgumentError
from .service import ShardingPolicy
from .service import distribute as _distribute
from .spec import plain
from .structure import Stack
from .worker import array_of_torch, described

__all__ = ["distribute", "from_python"]


def default_collate(samples: list[Any], sequence: type[Any] = tuple) -> Any:
    """Samples stacked along a new leading dimension, in every leaf of their structure: once it is known where to."""
    first = samples[0]
    if isinstance(first, dict):
        return {name: default_collate([sample[name] for sample in samples], sequence) for name in first}
    if isinstance(first, tuple | list):
        return sequence(default_collate(list(items), sequence) for items in zip(*samples, strict=True))
    if isinstance(first, str | bytes):
        return samples
    return Stack([np.asarray(array_of_torch(sample)) for sample in samples])


def _collate_of_torch(samples: list[Any]) -> Any:
    """What torch's own function makes, without its copies to memory that it shares with others: tuples become lists."""
    return default_collate(samples, list)


@dataclasses.dataclass(frozen=True)
class _Fetch:
    """On a worker: the sample of an index, or a batch of several."""

    dataset: Any
    collate: Callable[[list[Any]], Any] | None
    worker_init_fn: Callable[[int], Any] | None

    def __call__(self, indices: Any) -> Any:
        if self.collate is None:
            return self._sample(int(indices))
        # Some fetch several at once better than one by one.
        several = getattr(self.dataset, "__getitems__", None)
        listed = [int(index) for index in indices]
        try:
            return self.collate(several(listed) if several is not None else [self._sample(index) for index in listed])
        except Exception as error:
            _say_of(error, *listed)
            raise

    def _sample(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            _say_of(error, index)
            raise


def _say_of(error: Exception, *indices: int) -> None:
    """Has an error say of which samples it is, beside what it says itself; where one is known, of that."""
    if not hasattr(error, "millstream_samples"):
        with contextlib.suppress(AttributeError):
            error.millstream_samples = indices  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class _Iterate:
    """On a worker: samples, or batches of them."""

    dataset: Any
    collate: Callable[[list[Any]], Any] | None
    batch_size: int | None
    drop_last: bool
    worker_init_fn: Callable[[int], Any] | None

    def loaded(self) -> _Iterate:
        """With what is only named: its imports are done before it is called."""
        named = isinstance(self.dataset, str)
        return dataclasses.replace(self, dataset=unpacked(packed(self.dataset))) if named else self

    def __call__(self) -> Any:
        made = self.loaded().dataset
        samples = iter(made() if callable(made) else made)
        if self.batch_size is None or self.collate is None:
            yield from samples
            return
        batch: list[Any] = []
        for sample in samples:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate(batch)


def _varying(spec: tuple[Any, ...], batched: bool) -> tuple[Any, ...]:
    """What was found of one element, with a leading dimension that may differ in the last batch."""
    kind = spec[0]
    if kind == "tensor":
        return (kind, spec[1], (None, *spec[2][1:]) if batched and spec[2] else spec[2])
    if kind == "dict":
        return (kind, [(name, _varying(item, batched)) for name, item in spec[1]])
    return spec if kind == "none" else (kind, [_varying(item, batched) for item in spec[1]])


#: Where torch has its function.
_COLLATE_OF_TORCH = ("torch.utils.data._utils.collate", "default_collate")


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
        sampler = type(loader.sampler).__name__
        if sampler not in ("SequentialSampler", "RandomSampler", "_InfiniteConstantSampler"):
            raise InvalidArgumentError(
                f"the sampler {sampler} cannot be dealt out to workers: give the dataset with shuffle=True or False"
            )
        self.dataset, self.collate = loader.dataset, loader.collate_fn
        self.batch_size, self.drop_last = loader.batch_size, bool(loader.drop_last)
        self.shuffle = sampler == "RandomSampler"
        if self.batch_size is None:
            self.collate = None
        elif (getattr(self.collate, "__module__", ""), getattr(self.collate, "__name__", "")) == _COLLATE_OF_TORCH:
            self.collate = _collate_of_torch
        self.worker_init_fn = getattr(loader, "worker_init_fn", None)
        said = {"processes": getattr(loader, "num_workers", 0) or None, "deadline_s": getattr(loader, "timeout", 0) or None}
        self.limits = dataclasses.replace(
            self.limits, **{name: value for name, value in said.items() if getattr(self.limits, name) is None}
        )


def from_python(
    x: Any,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    drop_last: bool = False,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    seed: int | None = None,
    element_spec: Any = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
) -> Dataset:
    """A dataset of Python's own: see ``distribute``, whose workers it is for."""
    loader = _Loader(x, batch_size, shuffle, drop_last, collate_fn, limits or Limits())
    batched = loader.batch_size is not None
    collate = (loader.collate or default_collate) if batched else None
    source = loader.dataset
    if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, str):
        count = len(source)
        indices = Dataset.range(count)
        if loader.shuffle:
            indices = indices.shuffle(max(count, 1), seed)
        if batched:
            indices = indices.batch(loader.batch_size or 1, drop_remainder=loader.drop_last)
        fetch = _Fetch(source, collate, loader.worker_init_fn)
        found = element_spec
        if found is None:
            if not count:
                raise InvalidArgumentError("an empty dataset does not show what its elements are: give element_spec")
            first = np.arange(min(loader.batch_size or 1, count)) if batched else np.int64(0)
            spec = _varying(described(fetch(first)), batched)
        else:
            spec = plain(found)
        asked = num_parallel_calls if num_parallel_calls != AUTOTUNE else loader.limits.processes or 0
        graph = indices._graph.map_python(spec, packed(fetch, limits=loader.limits)).parallel(asked)
        return Dataset(graph)
    return _iterated(source, collate, loader, element_spec)


def _iterated(source: Any, collate: Any, loader: _Loader, element_spec: Any) -> Dataset:
    if loader.shuffle:
        raise InvalidArgumentError("what can only be iterated over cannot be shuffled by index: use Dataset.shuffle behind it")
    if not isinstance(source, str | Iterable) and not callable(source):
        raise InvalidArgumentError(f"{source!r} is no dataset: it can be neither indexed, iterated over, nor called")
    make = _Iterate(source, collate, loader.batch_size, loader.drop_last, loader.worker_init_fn)
    if element_spec is None:
        for first in make():
            spec = _varying(described(first), collate is not None)
            break
        else:
            raise InvalidArgumentError("it yields nothing, which does not show what its elements are: give element_spec")
    else:
        spec = plain(element_spec)
    return Dataset(Graph.iterable(spec, packed(make, limits=loader.limits), -2))


def distribute(
    x: Any,
    service: Any,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    drop_last: bool = False,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    seed: int | None = None,
    element_spec: Any = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    processing_mode: ShardingPolicy | str | None = None,
    **options: Any,
) -> Dataset:
    """A dataset that is computed by code of Python on the workers of a service.

    ``x`` is anything that has ``len`` and indices, as datasets of torch and Hugging Face have: each index is read by one
    worker, once an epoch. Or a ``DataLoader`` of torch, whose dataset, batch size, sampler, collation, ``drop_last``,
    ``worker_init_fn``, ``timeout`` (as ``limits.deadline_s``) and ``num_workers`` are taken over; or what can only be iterated over, a function without arguments that makes such a thing, or the name
    ``"module:function"`` of one that the workers have: of these every worker yields all.

    The code runs in processes of the user's interpreter that each worker supervises, as many as calls at once:
    ``num_parallel_calls``, else ``num_workers``, else what turns out to be needed, and no more than a worker has threads. Each
    knows who it is from ``torch.utils.data.get_worker_info()``; what ``random``, ``numpy.random`` and ``torch`` draw follows from
    seed, epoch and element. ``limits`` says how long they may take and how large they may grow.

    What elements are is found by computing the first one here, unless ``element_spec`` says it. ``options`` are those of
    ``service.distribute``.

    Raises:
        InvalidArgumentError: It cannot be sent to workers, or is no dataset.
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
    )
    is_indexed = dataset._graph.cardinality >= 0
    mode = processing_mode or (ShardingPolicy.DYNAMIC if is_indexed else ShardingPolicy.OFF)
    return dataset.apply(_distribute(mode, service, **options))
