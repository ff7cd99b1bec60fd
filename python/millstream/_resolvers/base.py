"""The interface of cluster resolvers, and the resolvers that ask no cluster manager: of given values, and of other resolvers.

Names, arguments and defaults are those of ``tf.distribute.cluster_resolver``.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from .accelerators import count_gpus
from .spec import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "UnionResolver", "url"]


def url(address: str, rpc_layer: str | None) -> str:
    """Returns an address with the protocol in front, if one is set."""
    return f"{rpc_layer}://{address}" if rpc_layer else address


class ClusterResolver(abc.ABC):
    """Finds the processes of a cluster, and the place of this process among them.

    Subclasses implement ``cluster_spec`` and ``master``, and find the cluster again in every call.
    """

    _task_type: str | None = None
    _task_id: int | None = None
    _rpc_layer: str | None = None

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """Finds the jobs of the cluster, and the addresses of their tasks.

        Returns:
            The cluster at present.
        """

    @abc.abstractmethod
    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task; this process's own by default.
            task_id: The index of the task; this process's own by default.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address; empty if there is no such task.
        """

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Counts the accelerators of this process.

        Args:
            task_type: The job of a task. The accelerators of other processes are unknown, and not counted.
            task_id: The index of a task.
            config_proto: Accepted as in TensorFlow; has no effect.

        Returns:
            The number of accelerators of each kind.
        """
        if task_type is not None and task_id is not None and (task_type, task_id) != (self.task_type, self.task_id):
            return {}
        found = count_gpus()
        return {"GPU": found} if found else {}

    @property
    def environment(self) -> str | None:
        """The environment of the program, which is empty outside of Google."""
        return ""

    @property
    def task_type(self) -> str | None:
        """The job of this process: ``chief``, ``worker``, ``ps``, ``evaluator``, or ``None`` if it is unknown."""
        return self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index of this process in its job; ``None`` if it is unknown."""
        return self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol that stands in front of addresses."""
        return self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    def _own_master(self, task_type: str | None, task_id: int | None, rpc_layer: str | None) -> str:
        """Returns the address of a task, this process's own by default; empty if this process's place is unknown."""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            return ""
        return url(self.cluster_spec().task_address(task_type, task_id), rpc_layer or self.rpc_layer)


class SimpleClusterResolver(ClusterResolver):
    """Resolves a cluster that the program knows.

    Args:
        cluster_spec: The cluster.
        master: The address that ``master`` returns without arguments.
        task_type: The job of this process.
        task_id: The index of this process in its job.
        environment: The environment of the program.
        num_accelerators: The number of accelerators of each kind.
        rpc_layer: The protocol in front of addresses.

    Raises:
        TypeError: The cluster is not a ``ClusterSpec``, or the master is not text.

    Example:
        >>> spec = ms.resolvers.ClusterSpec({"worker": ["a:1", "b:1"]})
        >>> resolver = ms.resolvers.SimpleClusterResolver(spec, task_type="worker", task_id=1, rpc_layer="grpc")
        >>> resolver.master("worker", 1)
        'grpc://b:1'
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Mapping[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(f"expected a ClusterSpec, found {cluster_spec!r}")
        if not isinstance(master, str):
            raise TypeError(f"expected the master as text, found {master!r}")
        self._spec = cluster_spec
        self._master = master
        self._task_type = task_type
        self._task_id = task_id
        self._environment = environment
        self._accelerators = num_accelerators
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Returns the given cluster."""
        return self._spec

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task.
            task_id: The index of the task.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address of the task; the given master if a job or an index is missing.
        """
        known = self._master if task_type is None or task_id is None else self._spec.task_address(task_type, task_id)
        return url(known, rpc_layer or self._rpc_layer)

    @property
    def environment(self) -> str:
        """The given environment."""
        return self._environment

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Returns the given accelerators.

        Args:
            task_type: Accepted as in TensorFlow; has no effect.
            task_id: Accepted as in TensorFlow; has no effect.
            config_proto: Accepted as in TensorFlow; has no effect.
        """
        return self._accelerators or {}


class UnionResolver(ClusterResolver):
    """Resolves the union of several clusters. Everything but the cluster is that of the first resolver.

    Args:
        *args: The resolvers.
        **kwargs: ``task_type``, ``task_id`` and ``rpc_layer`` replace those of the first resolver.

    Raises:
        TypeError: An argument is not a resolver.
        ValueError: There is no resolver, or an unknown keyword.

    Example:
        >>> one = ms.resolvers.SimpleClusterResolver(ms.resolvers.ClusterSpec({"worker": ["a:1"]}), task_type="worker", task_id=0)
        >>> two = ms.resolvers.SimpleClusterResolver(ms.resolvers.ClusterSpec({"worker": ["b:1"]}))
        >>> ms.resolvers.UnionResolver(one, two).cluster_spec()
        ClusterSpec({'worker': ['a:1', 'b:1']})
    """

    def __init__(self, *args: ClusterResolver, **kwargs: Any) -> None:
        self._rpc_layer = kwargs.pop("rpc_layer", None)
        self._task_type = kwargs.pop("task_type", None)
        self._task_id = kwargs.pop("task_id", None)
        if kwargs:
            raise ValueError(f"expected task_type, task_id or rpc_layer, found {', '.join(kwargs)}")
        if not args:
            raise ValueError("expected at least one cluster resolver, found none")
        for resolver in args:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError(f"expected cluster resolvers, found {resolver!r}")
        self._resolvers = args

    def cluster_spec(self) -> ClusterSpec:
        """Finds the union of the clusters.

        Returns:
            The union. The tasks of a job that is a list in every cluster follow each other. Otherwise all tasks keep their indices.

        Raises:
            KeyError: Two tasks have the same job and index.
        """
        clusters = [resolver.cluster_spec().as_dict() for resolver in self._resolvers]
        merged: dict[str, list[str] | dict[int, str]] = {}
        for name in dict.fromkeys(name for cluster in clusters for name in cluster):
            parts = [cluster[name] for cluster in clusters if name in cluster]
            lists = [part for part in parts if isinstance(part, list)]
            merged[name] = [task for part in lists for task in part] if len(lists) == len(parts) else _numbered(name, parts)
        return ClusterSpec(merged)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task.
            task_id: The index of the task.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address of the task; the master of the first resolver if a job or an index is missing.
        """
        if task_type is not None and task_id is not None:
            return url(self.cluster_spec().task_address(task_type, task_id), rpc_layer or self._rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)

    @property
    def task_type(self) -> str | None:
        """The job of this process."""
        return self._resolvers[0].task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index of this process in its job."""
        return self._resolvers[0].task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def environment(self) -> str | None:
        """The environment of the first resolver."""
        return self._resolvers[0].environment

    @property
    def rpc_layer(self) -> str | None:
        """The protocol that stands in front of addresses."""
        return self._resolvers[0].rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Counts the accelerators as the first resolver does.

        Args:
            task_type: The job of a task.
            task_id: The index of a task.
            config_proto: Accepted as in TensorFlow; has no effect.

        Returns:
            The number of accelerators of each kind.
        """
        return self._resolvers[0].num_accelerators(task_type, task_id, config_proto)


def _numbered(name: str, parts: list[list[str] | dict[int, str]]) -> dict[int, str]:
    merged: dict[int, str] = {}
    for part in parts:
        tasks = dict(enumerate(part)) if isinstance(part, list) else part
        twice = sorted(merged.keys() & tasks.keys())
        if twice:
            raise KeyError(f"two clusters have the tasks {twice} of job {name!r}: give tasks of one job different indices")
        merged.update(tasks)
    return merged
