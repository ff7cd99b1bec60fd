"""The resolver of the pods of a Kubernetes cluster.

Owns the question for pods and the addresses made of the answer. Refuses to need the package ``kubernetes``, whose client is used if passed.
"""

from __future__ import annotations

import enum
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import kube_config
from .base import ClusterResolver
from .http import Request, Transport, ask, send
from .spec import ClusterSpec

__all__ = ["KubernetesClusterResolver", "KubernetesExecutableLocation"]

#: Pods of one answer.
_PAGE = 500
#: Answers of one question, so that a broken server does not hold the caller for ever.
_PAGES_MAX = 1000


class KubernetesExecutableLocation(enum.Enum):
    """Where the program runs: in a pod of the cluster, or outside of the cluster with a kubeconfig file.

    Example:
        >>> ms.resolvers.KubernetesExecutableLocation.OFF_CLUSTER.value
        1
    """

    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


class KubernetesClusterResolver(ClusterResolver):
    """Resolves the running pods of a Kubernetes cluster that have given labels.

    The address of a task is that of the pod's node. ``task_type`` and ``task_id`` are unknown until the program sets both attributes. Every
    ``cluster_spec`` asks the server, with the account of the pod, or with the kubeconfig file outside of the cluster.

    Args:
        job_to_label_mapping: The label selectors of each job; by default ``{"worker": ["job-name=tensorflow"]}``.
        tf_server_port: The port of every task.
        rpc_layer: The protocol in front of addresses.
        override_client: A client of the package ``kubernetes``, whose ``list_pod_for_all_namespaces`` is called instead.
        executable_location: Whether the program runs in the cluster.
        timeout_s: The seconds that each request may take.
        transport: What sends requests, instead of Python's own HTTP.

    Raises:
        ValueError: The location is not one.

    Example:
        >>> from types import SimpleNamespace as Space
        >>> pod = Space(metadata=Space(name="p"), status=Space(phase="Running", host_ip="10.0.0.1"))
        >>> client = Space(list_pod_for_all_namespaces=lambda label_selector: Space(items=[pod]))
        >>> ms.resolvers.KubernetesClusterResolver(override_client=client).cluster_spec()
        ClusterSpec({'worker': ['10.0.0.1:8470']})
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        executable_location: KubernetesExecutableLocation = KubernetesExecutableLocation.WITHIN_CLUSTER,
        *,
        timeout_s: float = 10.0,
        transport: Transport = send,
    ) -> None:
        if not override_client and not isinstance(executable_location, KubernetesExecutableLocation):
            raise ValueError(f"expected a KubernetesExecutableLocation, found {executable_location!r}")
        self._labels = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._port = tf_server_port
        self._client = override_client
        self._location = executable_location
        self._timeout_s = timeout_s
        self._transport = transport
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Asks the cluster for its pods.

        Returns:
            The addresses of the pods, in the order of the selectors, and of names within a selector.

        Raises:
            RuntimeError: A pod with one of the labels does not run.
            MillstreamError: The server cannot be reached or refuses, or this process has no access.
        """
        pods = self._of_client if self._client else self._of_server()
        cluster = {}
        for job, selectors in self._labels.items():
            cluster[job] = [f"{host}:{self._port}" for selector in selectors for host in _running(sorted(pods(selector)))]
        return ClusterSpec(cluster)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task; the attribute by default.
            task_id: The index of the task; the attribute by default.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address; empty if a job or an index is missing.
        """
        return self._own_master(task_type, task_id, rpc_layer)

    def _of_client(self, selector: str) -> list[_Pod]:
        listed = self._client.list_pod_for_all_namespaces(label_selector=selector)
        return [(pod.metadata.name, pod.status.phase, pod.status.host_ip) for pod in listed.items]

    def _of_server(self) -> Any:
        off_cluster = self._location is KubernetesExecutableLocation.OFF_CLUSTER
        access = kube_config.from_files() if off_cluster else kube_config.from_pod()

        def pods(selector: str) -> list[_Pod]:
            return [_pod(item) for page in self._pages(access, selector) for item in page.get("items") or []]

        return pods

    def _pages(self, access: kube_config.Access, selector: str) -> Iterator[Mapping[str, Any]]:
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        headers = {"Accept": "application/json", **access.headers}
        for _ in range(_PAGES_MAX):
            url = f"{access.server.rstrip('/')}/api/v1/pods?{urllib.parse.urlencode(query)}"
            page = ask(self._transport, Request(url, headers=headers, timeout_s=self._timeout_s, tls=access.tls))
            yield page
            after = (page.get("metadata") or {}).get("continue")
            if not after:
                return
            query["continue"] = after
        raise RuntimeError(f"expected at most {_PAGES_MAX * _PAGE} pods with the label {selector!r}, found more: use a narrower label")


#: The name of a pod, its phase, and the address of its node.
_Pod = tuple[str, str, str]


def _pod(item: Mapping[str, Any]) -> _Pod:
    status = item.get("status") or {}
    return item["metadata"]["name"], status.get("phase", "Unknown"), status.get("hostIP", "")


def _running(pods: list[_Pod]) -> Iterator[str]:
    for name, phase, host in pods:
        if phase != "Running":
            raise RuntimeError(f'Pod "{name}" is not running; phase: "{phase}". Wait until all pods run, or use a narrower label')
        yield host
