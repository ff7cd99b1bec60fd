"""The metrics of this process over HTTP: every loader and reader, for Prometheus, probes and people.

The port only shows. Nothing of the process can be changed through it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ._live import observe
from ._millstream import MetricsPort

__all__ = ["MetricsServer", "serve"]

#: The open ports. A program need not keep the object that `serve` returns.
_open: set[MetricsServer] = set()


class MetricsServer:
    """An open port that shows the loaders of this process. The port closes with ``close``, with a ``with`` block, or with the program."""

    def __init__(self, port: MetricsPort) -> None:
        self._port = port
        self._end = weakref.finalize(self, port.close)
        _open.add(self)

    @property
    def port(self) -> int:
        """The number of the port."""
        return self._port.port

    @property
    def url(self) -> str:
        """The address of the port, such as ``http://127.0.0.1:9464``."""
        return f"http://{self._port.address}"

    def close(self) -> None:
        """Closes the port. Does nothing if the port is closed."""
        self._end()
        _open.discard(self)

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<millstream.MetricsServer {self.url}{'' if self._end.alive else ' closed'}>"


def serve(port: int = 0, host: str = "127.0.0.1", token: str | None = None, *, hosts: Sequence[str] = ()) -> MetricsServer:
    """Opens a port that shows every loader and reader of this process over HTTP.

    The port serves ``/metrics`` (metrics for Prometheus), ``/livez``, ``/readyz`` and ``/api/v1/status`` (JSON). It answers ``GET`` and ``HEAD``
    only. The newest 64 loaders and readers are shown. A thread of its own answers, which needs the lock of the interpreter for a moment. The port stays open until
    ``close`` or the end of the program, although the program drops the result.

    Args:
        port: The number of the port. 0 selects a free port.
        host: The IP address to listen on.
        token: The token that requests must present as ``Authorization: Bearer TOKEN``: 16 to 1024 visible ASCII characters. An address that
            other machines can reach needs a token.
        hosts: The names under which browsers and tools reach the port, besides IP addresses and ``localhost``.

    Returns:
        The open port, which is a context manager.

    Raises:
        InvalidArgumentError: The token is missing or invalid.
        UnavailableError: The port cannot be opened.

    Example:
        >>> import urllib.request
        >>> with ms.metrics.serve() as server:
        ...     print(urllib.request.urlopen(f"{server.url}/livez").read().decode().strip())
        ok
    """
    return MetricsServer(MetricsPort.open(host=host, port=port, token=token, hosts=list(hosts), observe=observe))
