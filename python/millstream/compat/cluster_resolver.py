"""Cluster resolvers, named as in ``tf.distribute.cluster_resolver``: those of ``millstream.resolvers``.

Owns the names, and the refusal of those that need TensorFlow's own runtime. Refuses to know how a cluster is found.
"""

from __future__ import annotations

from typing import Any

from ..resolvers import (
    ClusterResolver,
    GCEClusterResolver,
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
    SimpleClusterResolver,
    SlurmClusterResolver,
    TFConfigClusterResolver,
    UnionResolver,
)
from ._refusal import refuses

__all__ = [
    "ClusterResolver",
    "GCEClusterResolver",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "TPUClusterResolver",
    "UnionResolver",
]


@refuses(
    "tf.distribute.cluster_resolver.TPUClusterResolver",
    "it starts the TPU system of TensorFlow's runtime. Pass TensorFlow's own resolver to TensorFlow, and its hosts to "
    "ms.resolvers.SimpleClusterResolver",
)
class TPUClusterResolver:
    """Resolves the hosts of a TPU. Refused: TensorFlow's runtime owns TPUs.

    Args:
        tpu: The name of the TPU.
        zone: The zone.
        project: The project.
        job_name: The job of the hosts.
        coordinator_name: The job of the coordinator.
        coordinator_address: The address of the coordinator.
        credentials: The credentials.
        service: A client of the TPU service.
        discovery_url: The address of the service's description.
    """

    def __init__(
        self,
        tpu: str | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
        credentials: Any = "default",
        service: Any = None,
        discovery_url: str | None = None,
    ) -> None:
        raise AssertionError("the decorator replaces this constructor")
