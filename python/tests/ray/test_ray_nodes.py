"""Tests of the choice of nodes, without a cluster."""

from __future__ import annotations

import collections
import socket
import threading
from collections.abc import Collection, Mapping

from millstream._ray_nodes import Health, Node, Placement, Probes

NEEDS = {"CPU": 2.0}


def node(name: str, cpus: float, free: float | None = None) -> Node:
    return Node(name, "127.0.0.1", 1, {"CPU": cpus}, {"CPU": cpus if free is None else free})


def placed(
    *nodes: Node,
    count: int,
    used: Mapping[str, int] | None = None,
    unsettled: Mapping[str, int] | None = None,
    avoided: Collection[str] = (),
    dead: str = "",
    needs: Mapping[str, float] = NEEDS,
) -> list[str | None]:
    """Returns the names of the nodes of ``count`` workers."""
    probes = Probes(lambda node: Health.SILENT if node.name == dead else Health.ALIVE)
    placement = Placement(nodes, used or {}, unsettled or {}, avoided, needs, None, probes)
    assert placement.is_large_enough == any(node.offers(needs, None) for node in nodes)
    chosen = [placement.next() for _ in range(count)]
    return [None if node is None else node.name for node in chosen]


def test_workers_are_spread_by_size() -> None:
    assert collections.Counter(placed(node("a", 4), node("b", 12), count=8)) == {"a": 2, "b": 6}
    assert placed(node("a", 4), node("b", 4), count=1, used={"a": 1}) == ["b"]
    assert set(placed(node("a", 4), node("b", 4), count=2, needs={"CPU": 0.0})) == {"a", "b"}


def test_full_nodes_are_left_out() -> None:
    assert placed(node("a", 4, free=1.0), node("b", 4), count=3) == ["b", "b", None]
    assert placed(node("a", 4, free=0.0), count=1) == [None]
    assert placed(node("a", 1), count=1) == [None]
    assert placed(node("a", 1), count=4, needs={"CPU": 0.1 + 0.2}) == ["a", "a", "a", None]


def test_starting_workers_count_as_used() -> None:
    assert placed(node("a", 4), count=2, used={"a": 1}, unsettled={"a": 1}) == ["a", None]


def test_dead_and_late_nodes_come_last() -> None:
    assert placed(node("a", 8), node("b", 4), count=2, dead="a") == ["b", "b"]
    assert placed(node("a", 8), node("b", 4), count=3, avoided={"a"}) == ["b", "b", "a"]


def test_nodes_are_probed_at_once() -> None:
    everyone = threading.Barrier(50)
    probed = []

    def probe(node: Node) -> Health:
        # Probes that follow each other never reach the number.
        everyone.wait(timeout=60)
        probed.append(node.name)
        return Health.SILENT

    nodes = [node(f"n{number % 50}", 1) for number in range(200)]
    probes = Probes(probe)
    assert set(probes.of(nodes).values()) == {Health.SILENT}
    probes.of(nodes)
    assert len(probed) == 50


def test_an_ended_manager_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert Probes().of([Node("a", "127.0.0.1", port, {}, {})]) == {"a": Health.ALIVE}
    assert Probes().of([Node("a", "127.0.0.1", port, {}, {})]) == {"a": Health.ENDED}
