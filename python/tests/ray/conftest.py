"""Fixtures for tests on Ray: one cluster for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray_cluster import Cluster


@pytest.fixture(scope="module")
def ray_nodes(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yields a Ray cluster of a head node, and as many nodes as the constant ``NODES`` of the test file."""
    with Cluster() as cluster:
        for _ in range(request.module.NODES):
            cluster.add()
        yield cluster
