"""Connections to services. All datasets that read from the same address share one connection."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ._millstream import Elements, Graph, Service
from .errors import MillstreamError

__all__ = ["Connection", "connect", "on_connection"]

T = TypeVar("T")

_lock = threading.Lock()
_connections: weakref.WeakValueDictionary[tuple[str, bool, float | None], Connection] = weakref.WeakValueDictionary()


class Connection:
    """A connection to a dispatcher. The connection sends a goodbye message and closes when its last user is gone."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._goodbye = weakref.finalize(self, service.close)

    def is_usable(self) -> bool:
        """Returns whether this process opened the connection, and the connection is still open."""
        return self._service.is_usable()

    def has_failed(self) -> bool:
        """Returns whether every later request fails, for example because the dispatcher restarted without its memory."""
        return self._service.has_failed()

    def register(self, graph: Graph, dataset_id: str | None) -> str:
        """Registers a dataset, and returns its id."""
        return self._service.register(graph, dataset_id)

    def dataset(self, dataset_id: str) -> dict[str, Any]:
        """Returns the properties of a registered dataset."""
        return self._service.dataset(dataset_id)

    def distributed(self, request: dict[str, Any], reading: dict[str, Any]) -> Graph:
        """Returns the graph of a dataset that yields the elements of a job."""
        return self._service.distributed(request, reading)

    def job(self, request: dict[str, Any]) -> int:
        """Returns the number of the requested job, which is created if necessary."""
        return self._service.job(request)

    def read(
        self, job: int, repetition: int, reading: dict[str, Any], take: Callable[[Any], Any] | None
    ) -> Elements:
        """Opens one pass of a job."""
        return self._service.read(job, repetition, reading, take)

    def workers(self) -> list[dict[str, Any]]:
        """Returns the living workers, as dicts of address, tags and tasks."""
        return self._service.workers()

    def workers_and_wanted(self) -> tuple[list[dict[str, Any]], int | None]:
        """Returns the living workers, and the number of workers that the dispatcher wants, or ``None`` if it has not decided yet."""
        return self._service.workers_and_wanted()

    def shutdown(self) -> None:
        """Shuts the service down."""
        self._service.shutdown()


def connect(
    address: str,
    *,
    shares_memory: bool = True,
    timeout_s: float | None = None,
    dispatcher_timeout_s: float | None = None,
) -> Connection:
    """Returns this process's connection to the dispatcher at ``host:port``. Opens the connection if necessary.

    Waits up to ``timeout_s`` (60 seconds by default) for a dispatcher that has not started yet. An open connection tolerates an unreachable
    dispatcher for ``dispatcher_timeout_s``. The default is the value of ``MILLSTREAM_DISPATCHER_TIMEOUT_S``, or 600 seconds.

    Raises:
        UnavailableError: The dispatcher cannot be reached.
    """
    key = (address, shares_memory, dispatcher_timeout_s)
    with _lock:
        connection = _connections.get(key)
    if connection is not None and connection.is_usable() and not connection.has_failed():
        return connection
    # Connecting may take a minute, so the lock is not held. Two threads that connect at once open two connections.
    connection = Connection(Service.connect(address, shares_memory, timeout_s, dispatcher_timeout_s))
    with _lock:
        _connections[key] = connection
    return connection


def on_connection(connected: Callable[[], Connection], action: Callable[[Connection], T]) -> T:
    """Runs an action on a connection, which ``connected`` returns. Runs it again on a new connection if the first one fails for good.

    A connection that other datasets of this process hold may lead to a dispatcher that has restarted without its memory meanwhile. The
    action must therefore use no id that an earlier connection returned.
    """
    connection = connected()
    try:
        return action(connection)
    except MillstreamError:
        if not connection.has_failed():
            raise
    return action(connected())


def _after_fork() -> None:
    global _lock
    # A thread of the parent may hold the old lock forever. `is_usable` is false for the parent's connections.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
