"""The place of this process among the processes of a cluster that share the data.

Owns the rule that a chief is the first worker, and that evaluators read apart. Refuses to know how a cluster was found.
"""

from __future__ import annotations

from typing import Any

__all__ = ["place_of"]


def place_of(resolver: Any, replicas: int | None = None) -> tuple[int, int, int]:
    """Finds the place of this process.

    Args:
        resolver: A cluster resolver: one of this package, or of TensorFlow.
        replicas: The replicas of each process; by default its accelerators, at least one.

    Returns:
        The number of processes that share the data, the number of this one, and the replicas of all of them.

    Raises:
        ValueError: The resolver does not know the task of this process, the task is not in the cluster, or its job reads no data.
    """
    # Some resolvers find the task with the cluster.
    cluster = resolver.cluster_spec().as_dict()
    task_type, task_id = resolver.task_type, resolver.task_id
    if replicas is None:
        replicas = max(sum(resolver.num_accelerators().values()), 1)
    if replicas < 1:
        raise ValueError(f"expected at least one replica in a process, found {replicas}")
    if not cluster:
        return 1, 0, replicas
    if task_type is None or task_id is None:
        raise ValueError(
            f"expected the task of this process, found task_type={task_type!r} and task_id={task_id!r}: set both attributes of the resolver"
        )
    if task_type not in ("chief", "master", "worker", "evaluator"):
        raise ValueError(f"expected the job of a process that reads data (chief, worker or evaluator), found {task_type!r}")
    if task_type == "evaluator" and not cluster.get("evaluator"):
        # An evaluator is often not listed, and reads all data.
        return 1, 0, replicas
    sharing = ["evaluator"] if task_type == "evaluator" else ["chief", "master", "worker"]
    tasks = [(job, index) for job in sharing for index in _indices(cluster.get(job, []))]
    if (task_type, task_id) not in tasks:
        raise ValueError(f"expected a task of the cluster {cluster}, found {task_type} {task_id}")
    return len(tasks), tasks.index((task_type, task_id)), len(tasks) * replicas


def _indices(tasks: Any) -> list[int]:
    return list(range(len(tasks))) if isinstance(tasks, list) else sorted(tasks)
