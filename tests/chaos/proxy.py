"""A proxy that forwards datagrams to one address, and that can drop them."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

#: The maximum number of clients, each of which has a socket. A round has fewer than fifty clients.
CLIENTS_MAX = 256
#: The size of the largest datagram in bytes.
DATAGRAM_MAX = 65_536


class Proxy:
    """A proxy that forwards datagrams between its own port and ``target``. Each client has its own socket."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._front = _bound()
        self.address = f"127.0.0.1:{self._front.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._front, selectors.EVENT_READ)
        self._backs: dict[tuple[str, int], socket.socket] = {}
        self._clients: dict[socket.socket, tuple[str, int]] = {}
        #: The number of cuts that are not healed. Several faults may cut one link at the same time.
        self._cuts = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        #: The number of datagrams that were dropped during a cut. A fault without dropped datagrams did not happen.
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Drops every datagram until :meth:`heal` is called as often as this method."""
        with self._lock:
            self._cuts += 1

    def heal(self) -> None:
        """Ends one cut. The proxy forwards datagrams again if no other cut is left."""
        with self._lock:
            self._cuts -= 1

    def close(self) -> None:
        """Ends the proxy and its thread."""
        self._stop.set()
        self._thread.join()
        for bound in (self._front, *self._clients):
            bound.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(timeout=0.05):
                bound = key.fileobj
                assert isinstance(bound, socket.socket)
                try:
                    self._relay(bound)
                except OSError:
                    # The other end is gone. Its peers notice this by missing packets, as on a real network.
                    continue

    def _relay(self, bound: socket.socket) -> None:
        datagram, source = bound.recvfrom(DATAGRAM_MAX)
        if self._cuts:
            self.dropped += 1
        elif bound is self._front:
            self._back(source).sendto(datagram, self._target)
        else:
            self._front.sendto(datagram, self._clients[bound])

    def _back(self, client: tuple[str, int]) -> socket.socket:
        back = self._backs.get(client)
        if back is None:
            assert len(self._backs) < CLIENTS_MAX, f"more than {CLIENTS_MAX} clients of one proxy"
            back = self._backs[client] = _bound()
            self._clients[back] = client
            self._selector.register(back, selectors.EVENT_READ)
        return back


def _bound() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    bound.bind(("127.0.0.1", 0))
    return bound
