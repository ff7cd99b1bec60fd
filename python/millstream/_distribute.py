"""Distributes Python code among workers: torch and Hugging Face datasets, iterables, and functions that return an iterable.

Workers run the code in processes of the user's interpreter, in which this package must be installed.
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
    """Stacks samples along a new leading dimension, in every leaf of their structure. The arrays are copied later, to their final place.

    ``sequence`` is the type that replaces tuples and lists. Without ``sequence`` tuples and lists keep their types.
    """
    first = samples[0]
    if any(sample is None for sample in samples):
        raise TypeError("expected an array in every sample, found None: replace None in the dataset or in collate_fn")
    if isinstance(first, Mapping):
        return {name: default_collate([sample[name] for sample in samples], sequence) for name in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in samples):
            lengths = sorted({len(sample) for sample in samples})
            raise ValueError(f"expected lists of equal lengths in a batch, found lengths {lengths}: pad the lists in collate_fn")
        parts = (default_collate(list(items), sequence) for items in zip(*samples, strict=True))
        return (sequence or (list if isinstance(first, list) else tuple))(parts)
    if isinstance(first, str | bytes):
        return samples
    return Stack([np.asarray(array_of_torch(sample)) for sample in samples])


def _collate_of_torch(samples: list[Any]) -> Any:
    """Returns the result of torch's ``default_collate``, in which tuples become lists, without torch's copies to shared memory."""
    return default_collate(samples, list)


#: The modules and names of torch's own collate functions.
_COLLATE_OF_TORCH = ("torch.utils.data._utils.collate", "default_collate")
_CONVERT_OF_TORCH = ("torch.utils.data._utils.collate", "default_convert")


def collate_of(loader: Any) -> Callable[[Any], Any] | None:
    """Returns the collate function of a torch ``DataLoader``; ``None`` if the loader yields samples unchanged."""
    given: Callable[[Any], Any] = loader.collate_fn
    named = (getattr(given, "__module__", ""), getattr(given, "__name__", ""))
    if named == _COLLATE_OF_TORCH:
        return _collate_of_torch
    return None if named == _CONVERT_OF_TORCH else given


def draws_all(sampler: Any) -> bool:
    """Returns whether a sampler is a torch ``RandomSampler`` that draws every sample exactly once."""
    count = len(getattr(sampler, "data_source", ()))
    is_random = type(sampler).__name__ == "RandomSampler" and not getattr(sampler, "replacement", False)
    return is_random and getattr(sampler, "num_samples", count) == count


@dataclasses.dataclass(frozen=True, eq=False)
class Fetch:
    """The function that returns the sample of an index, or the batch of several indices. Runs on a worker.

    ``collate`` is applied to the samples of a batch, or to a single sample. With ``millstream_seed`` the generators are seeded for each sample by
    seed, epoch and index. The collate function of a batch continues with the generators of the last sample.
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
        """Returns the sample of an index, or the batch of several indices.

        ``base`` and the index seed the generators for each sample. With ``by_place`` the position in the batch is part of the seed, because a batch
        may contain an index twice. Without a base the generators keep their present states.

        Args:
            indices: An index, or the indices of a batch.
            base: The base of the seeds.
            by_place: Whether the position in the batch is part of the seed.

        Returns:
            The sample, or the collated batch.
        """
        if not self.is_batched:
            if base is not None:
                _draws.seed_all(_draws.mix(base, int(indices)))
            return self._sample(int(indices))
        # Some datasets fetch several samples at once faster than one by one.
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
    """Adds the indices of the failing samples to an error, unless the error already has indices."""
    if not hasattr(error, "millstream_samples"):
        with contextlib.suppress(AttributeError):
            error.millstream_samples = indices  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, eq=False)
class Iterate:
    """The function that returns an iterator over samples or batches. Runs on a worker. Calls the iterable's ``set_epoch`` if an epoch is set."""

    dataset: Any
    collate: Callable[[Any], Any] | None
    batch_size: int | None
    drop_last: bool
    worker_init_fn: Callable[[int], Any] | None = None
    epoch: int | None = None
    #: The seed. With a seed, the seed, the pass and the process's number seed the generators of each process.
    millstream_seed: int | None = None

    def loaded(self) -> Iterate:
        """Returns a copy with the imported dataset, if the dataset is only a name."""
        named = isinstance(self.dataset, str)
        return dataclasses.replace(self, dataset=unpacked(packed(self.dataset))) if named else self

    def __call__(self) -> Iterator[Any]:
        return self.batches(iter(self.made()))

    def made(self) -> Any:
        """Returns the iterable, after a call of its ``set_epoch``."""
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
        """Returns the spec of the elements, by computing the first element in this process.

        Raises:
            InvalidArgumentError: The iterable yields no element.
        """
        with _draws.kept():
            for first in self():
                return varying(described(first), self.batch_size is not None)
        raise InvalidArgumentError("the iterable yields nothing, so the spec of its elements is unknown: pass element_spec")

    def __repr__(self) -> str:
        return f"the dataset {self.dataset if isinstance(self.dataset, str) else type(self.dataset).__qualname__}"


def loose(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the spec of one element with all dimensions unknown, because other elements may have other shapes."""
    kind = spec[0]
    if kind == "tensor":
        return (kind, spec[1], (None,) * len(spec[2]))
    if kind == "dict":
        return (kind, [(name, loose(item)) for name, item in spec[1]])
    return spec if kind in ("none", "ragged", "sparse") else (kind, [loose(item) for item in spec[1]])


def varying(spec: tuple[Any, ...], batched: bool) -> tuple[Any, ...]:
    """Returns the spec of one element. The leading dimension of a batch is unknown, because the last batch may be smaller."""
    kind = spec[0]
    if kind == "tensor":
        return (kind, spec[1], (None, *spec[2][1:]) if batched and spec[2] else spec[2])
    if kind == "dict":
        return (kind, [(name, varying(item, batched)) for name, item in spec[1]])
    return spec if kind == "none" else (kind, [varying(item, batched) for item in spec[1]])


class _Loader:
    """The settings of a torch ``DataLoader``, or the arguments that the caller passed instead of a loader."""

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
        # The attributes identify a loader, so that torch need not be imported.
        if not isinstance(x, str) and all(hasattr(x, name) for name in ("dataset", "collate_fn", "batch_sampler")):
            self._take_over(x, batch_size)

    def _take_over(self, loader: Any, batch_size: int | None) -> None:
        if batch_size is not None:
            raise InvalidArgumentError("a DataLoader has its own batch_size: leave out the argument batch_size")
        sampler = loader.sampler
        self.shuffle = draws_all(sampler)
        is_plain = type(sampler).__name__ in ("SequentialSampler", "_InfiniteConstantSampler")
        if loader.batch_size is None and loader.batch_sampler is not None:
            raise InvalidArgumentError(
                f"the batch_sampler {type(loader.batch_sampler).__name__} cannot be divided among workers: use ms.wrap(loader, "
                "service=...), which calls the batch_sampler for every epoch"
            )
        if not is_plain and not self.shuffle:
            raise InvalidArgumentError(
                f"the sampler {type(sampler).__name__} cannot be divided among workers, which read every sample once: pass the dataset "
                "with shuffle=True or False, or use ms.wrap(loader, service=...), which calls the sampler for every epoch"
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
    """Returns the dataset of ``distribute``, without a service.

    Args:
        x: The dataset, loader or iterable.
        batch_size: The number of samples in a batch.
        shuffle: Whether every epoch has a different order.
        drop_last: Whether to leave out an incomplete last batch.
        collate_fn: The function that turns a list of samples into a batch.
        seed: The seed of the order and of random draws.
        element_spec: The spec of an element.
        num_parallel_calls: The number of Python processes of each worker.
        limits: The limits of the processes.
        shelf: The store for large data, if workers can read it.

    Returns:
        The new dataset.
    """
    loader = _Loader(x, batch_size, shuffle, drop_last, collate_fn, limits or Limits())
    if not is_indexed(loader.dataset):
        return _iterated(loader, element_spec, shelf, seed)
    count, is_batched = len(loader.dataset), loader.batch_size is not None
    indices = Dataset.range(count)
    if is_batched:
        # A split is a whole batch, so that only the last batch of the dataset is short.
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
        raise InvalidArgumentError("the dataset is empty, so the spec of its elements is unknown: pass element_spec")
    asked = num_parallel_calls if num_parallel_calls != AUTOTUNE else loader.limits.processes or 0
    code = packed(fetch, limits=loader.limits, shelf=shelf, seeded=seed is not None)
    return Dataset(indices._graph.map_python(spec, code).parallel(asked))


def is_indexed(dataset: Any) -> bool:
    """Returns whether a dataset is read by index, instead of by iteration."""
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, str)


def _iterated(loader: _Loader, element_spec: Any, shelf: Shelf | None, seed: int | None) -> Dataset:
    if loader.shuffle:
        raise InvalidArgumentError("an object that can only be iterated over cannot be shuffled by index: use Dataset.shuffle after from_python")
    check_iterable(loader.dataset)
    make = Iterate(loader.dataset, loader.collate, loader.batch_size, loader.drop_last, loader.worker_init_fn, millstream_seed=seed)
    # The iterable is packed before the spec reads an element of it, so that workers begin at its present position.
    code = packed(make, limits=loader.limits, shelf=shelf, seeded=seed is not None)
    spec = make.spec() if element_spec is None else plain(element_spec)
    return Dataset(Graph.iterable(spec, code, -2))


def check_iterable(source: Any) -> None:
    """Checks that an object is an iterable that can be read several times, or a function.

    Raises:
        InvalidArgumentError: The object can neither be iterated over nor called, or can be iterated over only once.
    """
    if type(source).__module__ in ("builtins", "itertools") and isinstance(source, Iterator):
        raise InvalidArgumentError(
            f"{source!r} is an iterator, which can be read only once: pass a function without arguments that returns the iterator"
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

    Each worker runs the code in supervised Python processes, one process for each concurrent call. ``torch.utils.data.get_worker_info()`` returns
    the number of the process. With ``ms.local(inline=True)`` the code runs in threads of this process.

    Args:
        x: The data and code, which are pickled. Data of more than a few megabytes can be read only by workers of ``ms.local``, from this process.

            - A dataset with ``len`` and indices, for example of torch or Hugging Face: each index is read once in an epoch, by one worker.
            - A torch ``DataLoader``. The result uses the loader's dataset, batch size, sampler, collate function, ``drop_last``,
              ``worker_init_fn``, ``timeout`` (as ``limits.deadline_s``) and ``num_workers``. The sampler must draw every sample once.
            - An iterable, a function without arguments that returns an iterable, or the name ``"module:function"`` of such a function that
              workers can import: every worker yields all elements of the iterable.
        service: The address of a service, or an ``ms.local`` service.
        batch_size: The number of samples in a batch. By default the dataset yields single samples.
        shuffle: Whether every epoch has a different order of samples.
        drop_last: Whether to leave out an incomplete last batch.
        collate_fn: The function that turns a list of samples into a batch. The default stacks the arrays in each leaf of the samples.
        seed: The seed of the order, and of random draws by ``random``, ``numpy.random`` and ``torch``. Draws depend only on the seed, the epoch
            and the index. Draws of an iterable depend on the number of the process, and the generators are not seeded again for each element.
            By default each run has another seed. Inline workers draw from this program's own generators.
        element_spec: The ``TensorSpec`` of an element. By default the first element is computed in this process, to find the spec.
        num_parallel_calls: The number of Python processes of each worker, at most its number of threads. The default is ``num_workers`` of a
            ``DataLoader``, or a number that is tuned at run time.
        limits: The limits of the Python processes, such as time and memory.
        processing_mode: The policy by which workers divide the dataset. The default is ``"distributed_epoch"`` for datasets with indices, and
            ``"parallel_epochs"`` for iterables.
        output: The framework of the arrays: ``"numpy"``, ``"torch"`` or ``"jax"``. The default is torch for torch's datasets and loaders, and
            numpy otherwise.
        on_lost: The reaction to the end of an epoch that lost elements with a worker. ``"raise"`` raises ``DataLossError`` after all other
            elements, ``"warn"`` issues a ``DataLossWarning``, and ``"ignore"`` does nothing.
        **options: Further parameters of ``ms.service.distribute``.

    Returns:
        The dataset. ``len`` of the dataset is known for datasets with indices whose batches are not shuffled.

    Raises:
        InvalidArgumentError: ``x`` is not a dataset, or ``x`` cannot be sent to workers.
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
        # Each split is a whole batch and is read once, so the number of batches is known.
        distributed._known_count = dataset._graph.cardinality
    return distributed.with_output(output or ("torch" if _is_of_torch(x) else "numpy"))


def _is_of_torch(x: Any) -> bool:
    """Returns whether an object is a torch dataset or loader."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(x).__mro__)
