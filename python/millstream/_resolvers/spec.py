"""The jobs of a cluster, and the address of each of their tasks.

Owns the checks of names, indices and addresses. Refuses to know where the addresses come from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..errors import UnimplementedError

__all__ = ["ClusterSpec"]


class ClusterSpec:
    """The jobs of a cluster: for each job the addresses of its tasks, as ``tf.train.ClusterSpec``.

    Args:
        cluster: A dict from the name of each job to a list of addresses, or to a dict from indices to addresses. Another ``ClusterSpec``, and
            the specs and definitions of TensorFlow, are accepted too.

    Raises:
        TypeError: The argument is nothing of these, or an address or a name is not text.

    Example:
        >>> spec = ms.resolvers.ClusterSpec({"worker": ["a:1", "b:1"], "ps": {3: "c:1"}})
        >>> spec.jobs, spec.task_address("worker", 1), spec.task_indices("ps")
        (['worker', 'ps'], 'b:1', [3])
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, cluster: Any) -> None:
        self._tasks: dict[str, dict[int, str]] = {}
        for name, tasks in _jobs(cluster).items():
            if not isinstance(name, str | bytes):
                raise TypeError(f"expected the name of a job as text, found {name!r}")
            if isinstance(tasks, list | tuple):
                indexed: dict[Any, Any] = dict(enumerate(tasks))
            elif isinstance(tasks, Mapping):
                indexed = dict(tasks)
            else:
                raise TypeError(f"expected a list or a dict of the tasks of job {name!r}, found {tasks!r}")
            self._tasks[_text(name)] = {int(index): _address(address) for index, address in sorted(indexed.items())}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._tasks == other._tasks

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._tasks)

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Returns the tasks of each job.

        Returns:
            A dict from names of jobs to lists of addresses. A job whose indices have gaps, or that has no task, is a dict.
        """
        return {name: list(tasks.values()) if _is_dense(tasks) else copy.copy(tasks) for name, tasks in self._tasks.items()}

    def num_tasks(self, job_name: str) -> int:
        """Counts the tasks of a job.

        Args:
            job_name: The name of the job.

        Returns:
            The number of tasks.

        Raises:
            ValueError: There is no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Lists the indices of the tasks of a job.

        Args:
            job_name: The name of the job.

        Returns:
            The indices, in order.

        Raises:
            ValueError: There is no such job.
        """
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Finds the address of a task.

        Args:
            job_name: The name of the job.
            task_index: The index of the task.

        Returns:
            The address.

        Raises:
            ValueError: There is no such job, or no such task in the job.
        """
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"expected the index of a task of job {job_name!r}, one of {list(tasks)}, found {task_index!r}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Lists the addresses of a job.

        Args:
            job_name: The name of the job.

        Returns:
            The address of each index, ``None`` where the job has no task.

        Raises:
            ValueError: There is no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_cluster_def(self) -> Any:
        """Converts the jobs to TensorFlow's message.

        Returns:
            A ``tf.train.ClusterDef``.

        Raises:
            UnimplementedError: TensorFlow is not installed.
        """
        try:
            import tensorflow as tf
        except ImportError as error:
            raise UnimplementedError("as_cluster_def makes a message of TensorFlow, which is not installed: use as_dict") from error
        return tf.train.ClusterSpec(self.as_dict()).as_cluster_def()

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._tasks:
            raise ValueError(f"expected the name of a job, one of {self.jobs}, found {name!r}")
        return self._tasks[name]


def _jobs(cluster: Any) -> Mapping[Any, Any]:
    if isinstance(cluster, Mapping):
        return cluster
    if hasattr(cluster, "as_dict"):
        found: Mapping[Any, Any] = cluster.as_dict()
        return found
    # The message of TensorFlow lists jobs of a name and tasks.
    if hasattr(cluster, "job"):
        return {job.name: dict(job.tasks) for job in cluster.job}
    raise TypeError(f"expected a dict from names of jobs to addresses, found {cluster!r}")


def _address(address: Any) -> str:
    if not isinstance(address, str | bytes):
        raise TypeError(f"expected the address of a task as text, found {address!r}")
    return _text(address)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _is_dense(tasks: dict[int, str]) -> bool:
    return bool(tasks) and list(tasks) == list(range(len(tasks)))
