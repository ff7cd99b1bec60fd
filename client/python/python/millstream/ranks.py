"""Which of several trainers this one is, as whoever started it says."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

__all__ = ["Rank", "rank"]

#: Variables by which launchers number processes: who sets them, the number, how many there are.
_VARIABLES = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "JOB_PARALLELISM"),
)


@dataclasses.dataclass(frozen=True)
class Rank:
    """One of several trainers.

    Attributes:
        dp_rank: Its number, from 0.
        dp_size: How many there are.
        source: Where this was found.
    """

    dp_rank: int = 0
    dp_size: int = 1
    source: str = "default: one trainer"


def rank(
    dp_rank: int | None = None, dp_size: int | None = None, environ: Mapping[str, str] | None = None
) -> Rank:
    """Which trainer this is: as given, else as torchrun, SLURM, Open MPI, JAX, ``TF_CONFIG`` or Kubernetes say.

    Raises:
        ValueError: Only one of both is given, or they contradict each other.
    """
    if (dp_rank is None) != (dp_size is None):
        raise ValueError("dp_rank and dp_size belong together: give both or neither")
    if dp_rank is not None and dp_size is not None:
        return _checked(dp_rank, dp_size, "arguments")
    environ = os.environ if environ is None else environ
    for launcher, index, size in _VARIABLES:
        if index in environ and size in environ:
            return _checked(int(environ[index]), int(environ[size]), f"{launcher}: {index}, {size}")
    if "TF_CONFIG" in environ:
        found = _tf_config(environ["TF_CONFIG"])
        if found is not None:
            return _checked(*found, "TF_CONFIG")
    return Rank()


def _tf_config(text: str) -> tuple[int, int] | None:
    config = json.loads(text)
    cluster, task = config.get("cluster", {}), config.get("task", {})
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
