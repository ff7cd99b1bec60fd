"""Connections with services: one for each address, shared by the datasets that are read through it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ._millstream import Elements, Graph, Service

__all__ = ["Connection", "connect"]

_lock = threading.Lock()
_connections: weakref.WeakValueDictionary[tuple[str, bool, float | None], Connection] = weakref.WeakValueDictionary()


class Connection:
    """A connection that says goodbye when its last holder is gone. A call holds it while it runs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._goodbye = weakref.finalize(self, service.close)

    def is_usable(self) -> bool:
        """Whether this process made it, and nobody gave it up."""
        return self._service.is_usable()

    def register(self, graph: Graph, dataset_id: str | None) -> str:
        """Registers a dataset, and returns its id."""
        return self._service.register(graph, dataset_id)

    def dataset(self, dataset_id: str) -> dict[str, Any]:
        """What is known of a dataset."""
        return self._service.dataset(dataset_id)

    def distributed(self, request: dict[str, Any], reading: dict[str, Any]) -> Graph:
        """The dataset of what a job yields."""
        return self._service.distributed(request, reading)

    def job(self, request: dict[str, Any]) -> int:
        """The number of the job that a request is for."""
        return self._service.job(request)

    def read(
        self, job: int, repetition: int, reading: dict[str, Any], take: Callable[[Any], Any] | None
    ) -> Elements:
        """One pass of a job."""
        return self._service.read(job, repetition, reading, take)

    def workers(self) -> list[dict[str, Any]]:
        """The workers that live: dicts of address, tags, tasks."""
        return self._service.workers()

    def shutdown(self) -> None:
        """Ends the service."""
        self._service.shutdown()


def connect(
    address: str,
    *,
    shares_memory: bool = True,
    timeout_s: float | None = None,
    dispatcher_timeout_s: float | None = None,
) -> Connection:
    """The connection with the dispatcher at ``host:port``; made if there is none of this process.

    A dispatcher that is not there yet is waited for ``timeout_s``, by default 60 seconds. One that was there may be out of reach for
    ``dispatcher_timeout_s``, by default what ``MILLSTREAM_DISPATCHER_TIMEOUT_S`` says, else 600 seconds.

    Raises:
        UnavailableError: The dispatcher cannot be reached.
    """
    key = (address, shares_memory, dispatcher_timeout_s)
    with _lock:
        connection = _connections.get(key)
    if connection is not None and connection.is_usable():
        return connection
    # Without the lock: it may take a minute. Two that connect at once both get what they want.
    connection = Connection(Service.connect(address, shares_memory, timeout_s, dispatcher_timeout_s))
    with _lock:
        _connections[key] = connection
    return connection


def _after_fork() -> None:
    global _lock
    # The parent's lock may be held for ever; its connections are told apart by `is_usable`.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
