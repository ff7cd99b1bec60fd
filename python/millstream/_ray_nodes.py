"""The nodes of a Ray cluster, and the choice of the node for the next worker.

Ray takes about 15 seconds to notice a dead node, and starts actors there meanwhile. Therefore a connection to the node's manager decides
whether a node lives.
"""

from __future__ import annotations

import dataclasses
import enum
import heapq
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray._private.state import available_resources_per_node

__all__ = ["Health", "Node", "Placement", "Probes", "nodes"]

#: The seconds within which the manager of a node must accept a connection.
_PROBE_S = 0.5
#: The maximum number of nodes that are probed at the same time.
_PROBES_MAX = 128
#: The part of a resource that counts as nothing. Ray counts resources in units of 0.0001.
_NOTHING = 0.00005


@dataclasses.dataclass(frozen=True)
class Node:
    """A node that Ray lists as alive.

    Attributes:
        name: Ray's id.
        address: The address of the node's manager.
        port: The port of the node's manager.
        resources: All resources of the node.
        free: The resources that no process has taken.
    """

    name: str
    address: str
    port: int
    resources: Mapping[str, float] = dataclasses.field(hash=False, compare=False)
    free: Mapping[str, float] = dataclasses.field(hash=False, compare=False)

    def offers(self, needs: Mapping[str, float], near: str | None) -> bool:
        """Returns whether the node is large enough for a process with these needs, and has the resource ``near``."""
        is_near = near is None or self.resources.get(near, 0.0) > 0.0
        return is_near and all(self.resources.get(name, 0.0) >= amount for name, amount in needs.items())

    def room(self, needs: Mapping[str, float]) -> float:
        """Returns the number of processes with these needs for which resources are free."""
        return _fitting(self.free, needs, float("inf"))


class Health(enum.Enum):
    """The state of a node's manager."""

    ALIVE = enum.auto()
    #: The host does not answer: it is dead, cut off or slow.
    SILENT = enum.auto()
    #: The host refuses connections, so the manager has ended.
    ENDED = enum.auto()


class Probes:
    """The health of nodes in one look at the service. Each node is probed at most once."""

    def __init__(self, probe: Callable[[Node], Health] | None = None) -> None:
        self._probe = probe or _health
        self._found: dict[str, Health] = {}

    def of(self, found: Iterable[Node]) -> Mapping[str, Health]:
        """Returns the health of these nodes by name, which are probed at the same time."""
        new = list({node.name: node for node in found if node.name not in self._found}.values())
        if new:
            with ThreadPoolExecutor(min(len(new), _PROBES_MAX)) as pool:
                self._found.update(zip((node.name for node in new), pool.map(self._probe, new), strict=True))
        return self._found


class Placement:
    """The places of the workers that start in one look at the service.

    The next place is the living node with the fewest workers for its size, among the nodes with free resources.

    Args:
        candidates: The nodes that Ray lists.
        used: The number of running workers by node.
        unsettled: The number of workers by node that Ray may not have subtracted from the free resources yet.
        avoided: The nodes that are the last choice, because a worker did not start there in time.
        needs: The resources of a worker.
        near: A resource that the nodes must have, or ``None``.
        probes: The probes of this look.
    """

    def __init__(
        self,
        candidates: Collection[Node],
        used: Mapping[str, int],
        unsettled: Mapping[str, int],
        avoided: Collection[str],
        needs: Mapping[str, float],
        near: str | None,
        probes: Probes,
    ) -> None:
        self._offering = [node for node in candidates if node.offers(needs, near)]
        health = probes.of(self._offering)
        #: The nodes by name, with the number of workers that still fit.
        self._room: dict[str, tuple[Node, float]] = {}
        #: The places, the next one first: whether it is the last choice, the load after the next worker, and the node's name.
        self._places: list[tuple[bool, float, str]] = []
        self._size = {node.name: _fitting(node.resources, needs, 1.0) for node in self._offering}
        self._used = dict(used)
        for node in self._offering:
            room = node.room(needs) - unsettled.get(node.name, 0)
            if health[node.name] is Health.ALIVE and room >= 1.0:
                self._room[node.name] = node, room
                self._places.append((node.name in avoided, self._load(node.name), node.name))
        heapq.heapify(self._places)

    @property
    def is_large_enough(self) -> bool:
        """Whether some node could hold a worker if no other process ran there."""
        return bool(self._offering)

    def next(self) -> Node | None:
        """Returns the node for the next worker, or ``None`` if no node has room."""
        if not self._places:
            return None
        is_avoided, _, name = heapq.heappop(self._places)
        node, room = self._room[name]
        self._used[name] = self._used.get(name, 0) + 1
        self._room[name] = node, room - 1.0
        if room >= 2.0:
            heapq.heappush(self._places, (is_avoided, self._load(name), name))
        return node

    def _load(self, name: str) -> float:
        """Returns the load of a node after one more worker, as a part of the node's size."""
        return (self._used.get(name, 0) + 1) / self._size[name]


def nodes() -> list[Node]:
    """Returns the nodes that Ray lists as alive."""
    found: Iterable[Mapping[str, Any]] = ray.nodes()
    free: Mapping[str, Mapping[str, float]] = available_resources_per_node()
    listed = []
    for node in found:
        if node["Alive"]:
            resources = node.get("Resources") or {}
            # A node that has just joined may have no entry yet.
            free_there = free.get(node["NodeID"], resources)
            listed.append(Node(node["NodeID"], node["NodeManagerAddress"], node["NodeManagerPort"], resources, free_there))
    return listed


def _fitting(resources: Mapping[str, float], needs: Mapping[str, float], default: float) -> float:
    """Returns the number of processes with these needs that fit into the resources, and ``default`` for processes that need nothing."""
    return min(((resources.get(name, 0.0) + _NOTHING) / amount for name, amount in needs.items() if amount > 0), default=default)


def _health(node: Node) -> Health:
    try:
        with socket.create_connection((node.address, node.port), _PROBE_S):
            return Health.ALIVE
    except ConnectionRefusedError:
        return Health.ENDED
    except OSError:
        return Health.SILENT
