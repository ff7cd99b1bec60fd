"""Sends traces of sampled splits to OpenTelemetry: the time from a split's lease to the hand-over of its elements.

Traces are off by default. The variable ``MILLSTREAM_TRACES`` with the URL of a collector starts them without a change of the program.
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
    flags of their own, ``--traces`` and ``--trace-ratio``. Use one ratio in all processes: they then trace the same splits. A later call ends
    the earlier export, and readers that already run record nothing afterwards.

    Args:
        url: The URL of the collector, such as ``http://127.0.0.1:4318``. The path ``/v1/traces`` is added if the URL has none. The default is
            the variable ``MILLSTREAM_TRACES``. The variable ``OTEL_EXPORTER_OTLP_HEADERS`` sets headers, for a token.
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
