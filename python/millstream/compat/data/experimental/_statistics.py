"""Statistics of iterators, named as in TensorFlow up to 2.5: ``latency_stats`` and ``bytes_produced_stats``. Owns their names."""

from __future__ import annotations

from ...._dataset import Dataset
from ...._options import Options
from ._transformations import Transformation

__all__ = ["bytes_produced_stats", "latency_stats"]


def latency_stats(tag: str) -> Transformation:
    """Records how long a program waits for each element of the whole dataset, in milliseconds.

    Args:
        tag: The name of the statistic.

    Returns:
        The transformation. It records nothing unless ``Options.experimental_stats.aggregator`` is set.

    Example:
        >>> aggregator, options = tf.data.experimental.StatsAggregator(), tf.data.Options()
        >>> options.experimental_stats.aggregator = aggregator
        >>> _ = list(tf.data.Dataset.range(3).apply(tf.data.experimental.latency_stats("wait")).with_options(options))
        >>> aggregator.get_summary()["wait"]["count"]
        3
    """
    return _recording("latency", tag)


def bytes_produced_stats(tag: str) -> Transformation:
    """Records how many bytes each element of the whole dataset has.

    Args:
        tag: The name of the statistic.

    Returns:
        The transformation. It records nothing unless ``Options.experimental_stats.aggregator`` is set.

    Example:
        >>> aggregator, options = tf.data.experimental.StatsAggregator(), tf.data.Options()
        >>> options.experimental_stats.aggregator = aggregator
        >>> _ = list(tf.data.Dataset.range(3).apply(tf.data.experimental.bytes_produced_stats("size")).with_options(options))
        >>> aggregator.get_summary()["size"]["mean"]
        8.0
    """
    return _recording("bytes", tag)


def _recording(measure: str, tag: str) -> Transformation:
    def recording(dataset: Dataset) -> Dataset:
        options = Options()
        options.experimental_stats.tags = (*(dataset.options().experimental_stats.tags or ()), (measure, str(tag)))
        return dataset.with_options(options)

    return recording
