"""Finds the rank of this trainer, from arguments, frameworks or the launcher's environment variables."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Rank", "from_device_mesh", "rank"]

#: The environment variables of launchers: the launcher, the variable with the rank, and the variable with the number of processes.
_VARIABLES = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "JOB_PARALLELISM"),
)


@dataclasses.dataclass(frozen=True)
class Rank:
    """The rank of a data-parallel trainer.

    Attributes:
        dp_rank: The number of this trainer, from 0.
        dp_size: The number of trainers.
        source: The place where the rank was found.
    """

    dp_rank: int = 0
    dp_size: int = 1
    source: str = "default: one trainer"


def rank(
    dp_rank: int | None = None,
    dp_size: int | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    replication: int = 1,
) -> Rank:
    """Finds the rank of this process among several trainers.

    The function uses the first source that exists: the arguments; ``torch.distributed`` or ``jax.distributed``, if initialised; the environment
    variables of torchrun, SLURM, Open MPI, JAX, Kubernetes or ``TF_CONFIG``.

    Args:
        dp_rank: The number of this trainer, from 0.
        dp_size: The number of trainers.
        environ: Environment variables to use instead of the process's environment.
        replication: The number of consecutive processes that form one trainer, for example with tensor parallelism.

    Returns:
        The rank and its source.

    Raises:
        ValueError: Only one of ``dp_rank`` and ``dp_size`` is passed, ``dp_rank`` is out of range, or the number of processes is not a multiple
            of ``replication``.

    Example:
        >>> ms.rank(1, 4).dp_size
        4
    """
    if (dp_rank is None) != (dp_size is None):
        raise ValueError("dp_rank and dp_size belong together: pass both or neither")
    if dp_rank is not None and dp_size is not None:
        return _checked(dp_rank, dp_size, "arguments")
    found = (_running() if environ is None else None) or _found(os.environ if environ is None else environ)
    if replication < 1 or found.dp_size % replication:
        raise ValueError(f"replication={replication}: the number of processes, {found.dp_size} ({found.source}), is not a multiple of replication")
    return Rank(found.dp_rank // replication, found.dp_size // replication, found.source)


def _running() -> Rank | None:
    """Returns the rank from torch or JAX, if the program has imported and initialised their distributed mode; otherwise ``None``."""
    torch = getattr(sys.modules.get("torch"), "distributed", None)
    if torch is not None and torch.is_available() and torch.is_initialized():
        return Rank(torch.get_rank(), torch.get_world_size(), "torch.distributed")
    jax = sys.modules.get("jax")
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is not None and is_initialized is not None and is_initialized():
        return Rank(jax.process_index(), jax.process_count(), "jax.distributed")
    return None


def _found(environ: Mapping[str, str]) -> Rank:
    for launcher, index, size in _VARIABLES:
        if index in environ and size in environ:
            return _checked(_number(environ, index), _number(environ, size), f"{launcher}: {index}, {size}")
    if "TF_CONFIG" in environ:
        found = _tf_config(environ["TF_CONFIG"])
        if found is not None:
            return _checked(*found, "TF_CONFIG")
    return Rank()


def from_device_mesh(mesh: Any, dims: Sequence[str] = ("dp_replicate", "dp_shard", "dp")) -> Rank:
    """Finds the rank of this process in a torch device mesh.

    Args:
        mesh: The device mesh.
        dims: The possible names of data-parallel dimensions. The function uses the names that the mesh has.

    Returns:
        The rank.

    Raises:
        ValueError: The mesh has none of the dimensions.
    """
    found = [name for name in dims if name in (mesh.mesh_dim_names or ())]
    if not found:
        raise ValueError(f"the mesh has the dimensions {mesh.mesh_dim_names}, none of {tuple(dims)}: pass dims")
    dp_rank, dp_size = 0, 1
    for name in found:
        size = mesh.size(mesh.mesh_dim_names.index(name))
        dp_rank, dp_size = dp_rank * size + mesh.get_local_rank(name), dp_size * size
    return _checked(dp_rank, dp_size, f"device mesh: {', '.join(found)}")


def _number(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise ValueError(f"{name}={environ[name]!r} in the environment is not a number: correct the variable, or pass dp_rank and dp_size") from None


def _tf_config(text: str) -> tuple[int, int] | None:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG in the environment is invalid JSON: {error}. Correct the variable, or pass dp_rank and dp_size") from error
    cluster, task = config.get("cluster", {}), config.get("task", {})
    # Evaluators and parameter servers do not share the training data.
    if task.get("type") not in ("chief", "master", "worker", None):
        return None
    # The chief is the first worker.
    chiefs, workers = len(cluster.get("chief", [])), len(cluster.get("worker", []))
    if not chiefs + workers or "index" not in task:
        return None
    offset = chiefs if task.get("type") == "worker" else 0
    return offset + int(task["index"]), chiefs + workers


def _checked(dp_rank: int, dp_size: int, source: str) -> Rank:
    if not 0 <= dp_rank < dp_size:
        raise ValueError(f"rank {dp_rank} of {dp_size} ({source}): ranks are 0 to {dp_size - 1}")
    return Rank(dp_rank, dp_size, source)
