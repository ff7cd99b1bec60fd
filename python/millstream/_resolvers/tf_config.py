"""The resolver of clusters that the variable ``TF_CONFIG`` describes.

Owns the names in that variable. Refuses to remember it: every call reads the variable again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .base import ClusterResolver, url
from .spec import ClusterSpec

__all__ = ["TFConfigClusterResolver"]

_VARIABLE = "TF_CONFIG"


class TFConfigClusterResolver(ClusterResolver):
    """Resolves the cluster in the environment variable ``TF_CONFIG``, which Kubeflow, Vertex AI and others set.

    Args:
        task_type: The job of this process, instead of the one in the variable.
        task_id: The index of this process, instead of the one in the variable.
        rpc_layer: The protocol in front of addresses, instead of the one in the variable.
        environment: The environment of the program.

    Example:
        >>> import json, os
        >>> os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})
        >>> resolver = ms.resolvers.TFConfigClusterResolver()
        >>> resolver.task_type, resolver.task_id, resolver.master()
        ('worker', 1, 'b:1')
        >>> del os.environ["TF_CONFIG"]
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    @property
    def task_type(self) -> str | None:
        """The job of this process.

        Raises:
            ValueError: The variable is not valid JSON.
        """
        found = _section("task").get("type") if self._task_type is None else self._task_type
        return None if found is None else str(found)

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index of this process in its job.

        Raises:
            ValueError: The variable is not valid JSON, or the index is not a number.
        """
        found = _section("task").get("index") if self._task_id is None else self._task_id
        return None if found is None else int(found)

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def environment(self) -> str | None:
        """The given environment."""
        return self._environment

    @property
    def rpc_layer(self) -> str | None:
        """The protocol that stands in front of addresses."""
        found: str | None = _config().get("rpc_layer") if self._rpc_layer is None else self._rpc_layer
        return found

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Reads the cluster.

        Returns:
            The cluster in the variable; an empty one if the variable describes none.

        Raises:
            ValueError: The variable is not valid JSON.
            TypeError: The cluster is not a dict of addresses.
        """
        return ClusterSpec(_section("cluster"))

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task; this process's own by default.
            task_id: The index of the task; this process's own by default.
            rpc_layer: The protocol in front of the address.

        Returns:
            The ``session_master`` of the variable, if the variable has one. Otherwise the address of the task; empty if the cluster has at
            most one task.

        Raises:
            ValueError: There is no such task, or the variable is not valid JSON.
        """
        session_master: str | None = _config().get("session_master")
        if session_master is not None:
            return session_master
        spec = self.cluster_spec()
        if sum(spec.num_tasks(job) for job in spec.jobs) <= 1 and len(spec.jobs) <= 1:
            return ""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            raise ValueError(f"expected the task of this process in {_VARIABLE}, found none: pass task_type and task_id")
        return url(spec.task_address(task_type, task_id), self.rpc_layer if rpc_layer is None else rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Counts the accelerators of this process.

        Args:
            task_type: The job of a task; this process's own by default.
            task_id: The index of a task; this process's own by default.
            config_proto: Accepted as in TensorFlow; has no effect.

        Returns:
            The number of accelerators of each kind; nothing for other tasks.
        """
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        return super().num_accelerators(task_type, task_id, config_proto)


def _config() -> Mapping[str, Any]:
    text = os.environ.get(_VARIABLE, "{}")
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected JSON in the environment variable {_VARIABLE}, found {text[:200]!r}: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"expected a JSON object in the environment variable {_VARIABLE}, found {text[:200]!r}")
    return config


def _section(name: str) -> Mapping[str, Any]:
    section = _config().get(name) or {}
    if not isinstance(section, dict):
        raise ValueError(f"expected a JSON object as {name!r} in the environment variable {_VARIABLE}, found {section!r}")
    return section
