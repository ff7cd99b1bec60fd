"""Statistics by name, which iterators record. Refuses to know the measured objects."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["StatsAggregator"]


class StatsAggregator:
    """The statistics of iterators over datasets whose options name this aggregator.

    Example:
        >>> aggregator, options = tf.data.experimental.StatsAggregator(), tf.data.Options()
        >>> options.experimental_stats.aggregator = aggregator
        >>> numbers = tf.data.Dataset.range(3).apply(tf.data.experimental.bytes_produced_stats("numbers")).with_options(options)
        >>> _ = list(numbers)
        >>> aggregator.get_summary()["numbers"]["count"], aggregator.get_summary()["numbers"]["sum"]
        (3, 24.0)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float, float, float]] = {}

    def record(self, tag: str, value: float) -> None:
        """Adds one value.

        Args:
            tag: The name of the statistic.
            value: The value.
        """
        with self._lock:
            count, total, least, most = self._known.get(tag, (0, 0.0, value, value))
            self._known[tag] = (count + 1, total + value, min(least, value), max(most, value))

    def get_summary(self) -> dict[str, dict[str, float]]:
        """Returns the statistics by name, each with ``count``, ``sum``, ``min``, ``max`` and ``mean``."""
        with self._lock:
            known = dict(self._known)
        return {
            tag: {"count": count, "sum": total, "min": least, "max": most, "mean": total / count}
            for tag, (count, total, least, most) in known.items()
        }

    def __deepcopy__(self, _: Any) -> StatsAggregator:
        # Datasets copy their options, and all of them record here.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has statistics of its own.
        return (StatsAggregator, ())
