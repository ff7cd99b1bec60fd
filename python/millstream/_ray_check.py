"""The check that all nodes of a Ray cluster run the versions of the program, before a service starts there.

Objects of other versions may not even be readable on a node. Therefore the check sends a function by value, which returns texts only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ._ray_actors import Release
from ._ray_nodes import Node
from .errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["check_nodes"]


def check_nodes(release: Release, nodes: Sequence[Node], runtime_env: Mapping[str, Any] | None, timeout_s: float) -> None:
    """Raises an error if a node cannot run the processes of a service. Skips nodes that do not answer in time.

    Args:
        release: The versions of the program.
        nodes: The nodes to check, which should be alive.
        runtime_env: Ray's environment of the processes.
        timeout_s: The maximum seconds to wait for the nodes.

    Raises:
        FailedPreconditionError: A node runs other versions, or cannot import Millstream.
        InvalidArgumentError: Ray refuses the environment.
    """

    def found() -> tuple[str, str]:
        import sys

        from millstream import _millstream

        return _millstream.version(), "{}.{}".format(*sys.version_info)

    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0}
    if runtime_env is not None:
        options["runtime_env"] = dict(runtime_env)
    try:
        task = ray.remote(found)
        tasks = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.name, soft=False), **options).remote() for node in nodes
        ]
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"runtime_env={runtime_env!r}: Ray refuses it: {error}") from error
    if not tasks:
        return
    ready = set(ray.wait(tasks, num_returns=len(tasks), timeout=timeout_s)[0])
    for node, answer in zip(nodes, tasks, strict=True):
        if answer in ready:
            _check_answer(release, f"the Ray node {node.address}", answer)
        else:
            ray.cancel(answer)


def _check_answer(release: Release, where: str, answer: Any) -> None:
    try:
        release.check(where, Release(*ray.get(answer)))
    except ray.exceptions.RuntimeEnvSetupError as error:
        raise InvalidArgumentError(f"runtime_env: {where} cannot set it up: {error}") from error
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, ImportError):
            raise
        raise FailedPreconditionError(
            f"{where} cannot import millstream ({error.cause}): install millstream {release.millstream} there, for example with runtime_env"
        ) from error
    except ray.exceptions.RayError:
        # The node has died meanwhile. Another node may do its part.
        return
