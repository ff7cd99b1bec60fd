"""The resolver of the tasks of a SLURM job step.

Owns the formats of SLURM's variables. Refuses to call SLURM: everything it needs stands in the environment of a step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .accelerators import count_gpus
from .base import ClusterResolver
from .spec import ClusterSpec

__all__ = ["SlurmClusterResolver", "expand_hostlist", "expand_tasks_per_node"]

#: Hosts that one expression may name, so that a wrong range does not fill the memory.
_HOSTS_MAX = 1 << 20
_HOST = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")


class SlurmClusterResolver(ClusterResolver):
    """Resolves the tasks of a SLURM job step.

    Ranks are given to the jobs in alphabetical order, and to the nodes in alphabetical order. Each task of a node has a port of its own.
    ``cluster_spec`` finds ``task_type`` and ``task_id``, which are ``None`` before.

    Args:
        jobs: The number of tasks of each job; by default all tasks are ``worker``.
        port_base: The port of the first task of each node. Others follow.
        gpus_per_node: The number of GPUs of each node; by default those of this node.
        gpus_per_task: The number of GPUs of each task; by default equally many for the tasks of the fullest node.
        tasks_per_node: The number of tasks of each node, or a dict from hosts to numbers; by default as SLURM says.
        auto_set_gpu: Whether ``cluster_spec`` sets ``CUDA_VISIBLE_DEVICES`` to the GPUs of this task.
        rpc_layer: The protocol in front of addresses.

    Raises:
        RuntimeError: A variable of SLURM is missing, or there are too few GPUs or tasks.
        ValueError: A variable has another format.

    Example:
        >>> import os
        >>> step = {"PROCID": "1", "STEP_NUM_TASKS": "2", "STEP_NODELIST": "n[1-2]", "STEP_TASKS_PER_NODE": "1(x2)"}
        >>> os.environ.update({f"SLURM_{name}": value for name, value in step.items()})
        >>> resolver = ms.resolvers.SlurmClusterResolver(gpus_per_node=0)
        >>> resolver.cluster_spec(), resolver.task_id
        (ClusterSpec({'worker': ['n1:8888', 'n2:8888']}), 1)
        >>> for name in step:
        ...     del os.environ[f"SLURM_{name}"]
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | Mapping[str, int] | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str | None = "grpc",
    ) -> None:
        self._rank = _number("PROCID")
        self._jobs = {"worker": _number("STEP_NUM_TASKS")} if jobs is None else dict(jobs)
        self._port_base = port_base
        self._auto_set_gpu = auto_set_gpu
        self._rpc_layer = rpc_layer
        if tasks_per_node is None:
            counts = expand_tasks_per_node(_variable("STEP_TASKS_PER_NODE"))
            self._tasks = dict(zip(expand_hostlist(_variable("STEP_NODELIST")), counts, strict=False))
        elif isinstance(tasks_per_node, Mapping):
            self._tasks = dict(tasks_per_node)
        else:
            self._tasks = dict.fromkeys(expand_hostlist(_variable("STEP_NODELIST")), int(tasks_per_node))
        fullest, assigned, wanted = max(self._tasks.values(), default=0), sum(self._tasks.values()), sum(self._jobs.values())
        self._gpus_per_node = count_gpus() if gpus_per_node is None else gpus_per_node
        self._gpus_per_task = self._gpus_per_node // max(fullest, 1) if gpus_per_task is None else gpus_per_task
        if fullest * self._gpus_per_task > self._gpus_per_node:
            raise RuntimeError(
                f"Requested more GPUs per node than available: {fullest} tasks of {self._gpus_per_task} GPUs each, on nodes of "
                f"{self._gpus_per_node}. Pass a smaller gpus_per_task"
            )
        if wanted != assigned:
            raise RuntimeError(f"Requested {wanted} tasks but only {assigned} were assigned: pass jobs with {assigned} tasks in all")
        if not 0 <= self._rank < assigned:
            raise RuntimeError(f"expected a rank below the {assigned} tasks of the step in SLURM_PROCID, found {self._rank}")

    def cluster_spec(self) -> ClusterSpec:
        """Finds the tasks of the step, and the place of this process among them.

        Returns:
            The cluster.
        """
        addresses = [f"{host}:{self._port_base + index}" for host, count in sorted(self._tasks.items()) for index in range(count)]
        cluster, first = {}, 0
        for job, count in sorted(self._jobs.items()):
            cluster[job] = addresses[first : first + count]
            if first <= self._rank < first + count:
                self._task_type, self._task_id = job, self._rank - first
            first += count
        if self._auto_set_gpu and self._gpus_per_task:
            os.environ["CUDA_VISIBLE_DEVICES"] = self._own_gpus()
        return ClusterSpec(cluster)

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Returns the job and the index of this process, as ``cluster_spec`` found them."""
        return self.task_type, self.task_id

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task; this process's own by default.
            task_id: The index of the task; this process's own by default.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address; empty before ``cluster_spec`` found the place of this process.
        """
        return self._own_master(task_type, task_id, rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> Mapping[str, int]:
        """Returns the GPUs of each task.

        Args:
            task_type: Accepted as in TensorFlow; has no effect.
            task_id: Accepted as in TensorFlow; has no effect.
            config_proto: Accepted as in TensorFlow; has no effect.
        """
        return {"GPU": self._gpus_per_task}

    def _own_gpus(self) -> str:
        """Returns the numbers of the GPUs of this task, counted on its node."""
        index = self._rank
        for _, count in sorted(self._tasks.items()):
            if index < count:
                break
            index -= count
        first = index * self._gpus_per_task
        return ",".join(map(str, range(first, first + self._gpus_per_task)))


def expand_hostlist(hostlist: str) -> list[str]:
    """Lists the hosts of an expression such as ``n[1-2,4],m5``, in the order of the expression.

    Raises:
        ValueError: The expression has another format, or names too many hosts.
    """
    parts = _HOST.findall(hostlist)
    if ",".join(parts) != hostlist:
        raise ValueError(f"expected a list of hosts such as n[1-2],m5, found {hostlist!r}")
    hosts = []
    for part in parts:
        for host in _expanded(part, hostlist):
            hosts.append(host)
            if len(hosts) > _HOSTS_MAX:
                raise ValueError(f"expected at most {_HOSTS_MAX} hosts, found more in {hostlist!r}")
    return hosts


def _expanded(part: str, hostlist: str) -> Iterator[str]:
    """Yields the hosts of one part. The last of several brackets counts fastest."""
    brackets = _BRACKETS.search(part)
    if brackets is None:
        yield part
        return
    before, after = part[: brackets.start()], part[brackets.end() :]
    for numbers in brackets[1].split(","):
        first, dash, last = numbers.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"expected numbers such as 1-3 in the brackets of a list of hosts, found {numbers!r} in {hostlist!r}")
        for number in range(int(first), int(last if dash else first) + 1):
            for rest in _expanded(after, hostlist):
                yield f"{before}{number:0{len(first)}}{rest}"


def expand_tasks_per_node(tasks_per_node: str) -> list[int]:
    """Lists the tasks of each node of an expression such as ``3(x2),1``.

    Raises:
        ValueError: The expression has another format, or lists too many nodes.
    """
    counts: list[int] = []
    for part in tasks_per_node.split(","):
        found = _COUNT.fullmatch(part)
        times = int(found[2] or 1) if found else 0
        if found is None or len(counts) + times > _HOSTS_MAX:
            raise ValueError(f"expected numbers of tasks such as 3(x2),1, found {tasks_per_node!r}")
        counts += [int(found[1])] * times
    return counts


def _variable(name: str) -> str:
    try:
        return os.environ[f"SLURM_{name}"]
    except KeyError:
        raise RuntimeError(f"SLURM_{name} not found in the environment: start this program with srun, within a step of SLURM") from None


def _number(name: str) -> int:
    text = _variable(name)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a number in SLURM_{name}, found {text!r}") from None
