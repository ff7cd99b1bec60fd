"""Traces of sampled splits: where the time goes between a split's lease and the hand-over of its elements.

The spans go to a collector of OpenTelemetry. Traces are off by default. The variable ``MILLSTREAM_TRACES`` with the URL of a collector starts
them without a change of the program.
"""

from __future__ import annotations

import atexit

from ._millstream import start_traces, stop_traces

__all__ = ["start", "stop"]

# The last spans are sent before the interpreter ends.
atexit.register(stop_traces)


def start(url: str | None = None, ratio: float | None = None) -> None:
    """Sends traces of sampled splits to a collector of OpenTelemetry, over OTLP with HTTP.

    Readers, loaders, workers and dispatchers that this process starts afterwards record spans. Workers and dispatchers in other processes have
    flags of their own, ``--traces`` and ``--trace-ratio``. Give all processes the same ratio: they then trace the same splits. A later call
    replaces the earlier destination.

    Args:
        url: The URL of the collector, such as ``http://127.0.0.1:4318``. The default is the variable ``MILLSTREAM_TRACES``. The variable
            ``OTEL_EXPORTER_OTLP_HEADERS`` sets headers, for a token.
        ratio: The fraction of the splits that are traced, above 0 and at most 1. The default is the variable ``MILLSTREAM_TRACE_RATIO``, or
            else 0.01.

    Raises:
        InvalidArgumentError: The URL or the ratio cannot be used.

    Example:
        >>> ms.traces.start("http://127.0.0.1:4318", ratio=0.1)
        >>> ms.traces.stop()
    """
    start_traces(url, ratio)


def stop() -> None:
    """Sends the remaining spans, for 2 seconds at most, and ends the traces of this process. Running readers record nothing more."""
    stop_traces()
