"""The iterator that records statistics: how long a program waited for each element, and how many bytes each had.

Refuses to know the measurements of workers, which ``stats()`` of an iterator and ``millstream top`` show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._composites import Ragged, Sparse
from ._options import Options, StatsOptions

__all__ = ["Recording", "recorded"]


class Recording:
    """An iterator that records statistics of the elements that it hands over, and else is the iterator that it wraps."""

    def __init__(self, elements: Any, options: StatsOptions) -> None:
        self._elements, self._options = elements, options

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        began = time.perf_counter()
        element = next(self._elements)
        waited_ms = (time.perf_counter() - began) * 1e3
        aggregator = self._options.aggregator
        for measure, tag in self._options.tags or ():
            if aggregator is not None:
                aggregator.record(f"{self._options.prefix or ''}{tag}", waited_ms if measure == "latency" else float(_bytes(element)))
        return element

    def __getattr__(self, name: str) -> Any:
        return getattr(self._elements, name)


def recorded(elements: Any, options: Options) -> Any:
    """Returns the iterator, or one that records statistics if options ask for them."""
    stats = options.experimental_stats
    return Recording(elements, stats) if stats.aggregator is not None and stats.tags else elements


def _bytes(element: Any) -> int:
    """Returns the bytes of the tensors of an element."""
    if isinstance(element, dict):
        return sum(map(_bytes, element.values()))
    if isinstance(element, tuple | list):
        return sum(map(_bytes, element))
    if isinstance(element, Ragged):
        return sum(map(_bytes, (element.values, *element.nested_row_splits)))
    if isinstance(element, Sparse):
        return sum(map(_bytes, (element.indices, element.values, element.dense_shape)))
    if isinstance(element, str):
        return len(element.encode())
    if isinstance(element, bytes):
        return len(element)
    if isinstance(element, np.ndarray) and element.dtype == object:
        return sum(map(_bytes, element.reshape(-1).tolist()))
    return int(getattr(element, "nbytes", 0))
