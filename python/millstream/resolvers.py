"""Cluster resolvers, named as in ``tf.distribute.cluster_resolver``: which processes form a cluster, and which of them this process is.

``ms.InputContext.from_resolver`` finds from a resolver which part of the data a process reads.
"""

from __future__ import annotations

from ._resolvers.base import ClusterResolver, SimpleClusterResolver, UnionResolver
from ._resolvers.gce import GCEClusterResolver
from ._resolvers.http import Request, Response, Transport
from ._resolvers.kubernetes import KubernetesClusterResolver, KubernetesExecutableLocation
from ._resolvers.slurm import SlurmClusterResolver
from ._resolvers.spec import ClusterSpec
from ._resolvers.tf_config import TFConfigClusterResolver

__all__ = [
    "ClusterResolver",
    "ClusterSpec",
    "GCEClusterResolver",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "Request",
    "Response",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "Transport",
    "UnionResolver",
]
