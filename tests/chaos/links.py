"""The links between the processes of a service, as proxies that can be cut."""

from __future__ import annotations

from dataclasses import dataclass

from .proxy import Proxy


@dataclass(frozen=True)
class WorkerLinks:
    """The links of one worker."""

    to_dispatcher: Proxy
    to_trainers: Proxy


class Links:
    """The links of one dispatcher, its workers and its trainers. Only the harness itself reaches the dispatcher without a proxy."""

    def __init__(self, dispatcher: str) -> None:
        self._dispatcher = dispatcher
        #: The link between the trainers and the dispatcher.
        self.trainers = Proxy(dispatcher)
        #: The links of the workers, by the address at which trainers reach the worker.
        self.workers: dict[str, WorkerLinks] = {}

    def add_worker(self, bound: str) -> WorkerLinks:
        """Returns the links of a new worker that is bound to the address ``bound``."""
        links = WorkerLinks(Proxy(self._dispatcher), Proxy(bound))
        self.workers[links.to_trainers.address] = links
        return links

    def of_dispatcher(self) -> list[Proxy]:
        """Returns all links of the dispatcher."""
        return [self.trainers, *(links.to_dispatcher for links in list(self.workers.values()))]

    def close(self) -> None:
        """Ends all proxies."""
        for proxy in (*self.of_dispatcher(), *(links.to_trainers for links in self.workers.values())):
            proxy.close()
