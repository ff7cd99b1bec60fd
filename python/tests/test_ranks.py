"""Tests of the rank of a trainer, from arguments, frameworks, or a launcher's environment variables."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from millstream import Rank, from_device_mesh, rank

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, (0, 1, "default")),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8, "torchrun")),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4"}, (1, 4, "SLURM")),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, "Open MPI")),
        ({"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "1", "SLURM_NTASKS": "4"}, (0, 2, "torchrun")),
        ({"JAX_PROCESS_ID": "2", "JAX_NUM_PROCESSES": "3"}, (2, 3, "JAX")),
        ({"JOB_COMPLETION_INDEX": "1", "JOB_PARALLELISM": "2"}, (1, 2, "Kubernetes")),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})}, (2, 3, "TF_CONFIG")),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}})}, (0, 3, "TF_CONFIG")),
        ({"TF_CONFIG": "{}"}, (0, 1, "default")),
        ({"RANK": "3"}, (0, 1, "default")),
    ],
)
def test_the_launcher_says_which_trainer_this_is(environ: dict[str, str], found: tuple[int, int, str]) -> None:
    told = rank(environ=environ)
    assert (told.dp_rank, told.dp_size) == found[:2] and found[2] in told.source


def test_trainers_that_read_the_same_count_once() -> None:
    environ = {"RANK": "5", "WORLD_SIZE": "8"}
    assert rank(environ=environ, replication=4) == Rank(1, 2, "torchrun: RANK, WORLD_SIZE")
    with pytest.raises(ValueError, match="multiple"):
        rank(environ=environ, replication=3)


def test_running_frameworks_override_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    yes, no = (lambda: True), (lambda: False)
    idle = SimpleNamespace(is_available=yes, is_initialized=no)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=idle))
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(distributed=SimpleNamespace(is_initialized=no)))
    assert rank() == Rank(0, 2, "torchrun: RANK, WORLD_SIZE")
    jax = SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=yes), process_index=lambda: 1, process_count=lambda: 3
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert rank() == Rank(1, 3, "jax.distributed")
    running = SimpleNamespace(is_available=yes, is_initialized=yes, get_rank=lambda: 3, get_world_size=lambda: 4)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=running))
    assert rank() == Rank(3, 4, "torch.distributed")


def test_a_device_mesh_says_which_trainer_this_is() -> None:
    class Mesh:
        """A stand-in for a torch device mesh with replicated data parallelism, sharded data parallelism and tensor parallelism."""

        mesh_dim_names = ("dp_replicate", "dp_shard", "tp")

        def size(self, dim: int) -> int:
            return (2, 3, 4)[dim]

        def get_local_rank(self, name: str) -> int:
            return {"dp_replicate": 1, "dp_shard": 2, "tp": 3}[name]

    assert from_device_mesh(Mesh()) == Rank(5, 6, "device mesh: dp_replicate, dp_shard")
    with pytest.raises(ValueError, match="none of"):
        from_device_mesh(Mesh(), ["data"])


def test_what_is_given_wins_and_is_checked() -> None:
    assert rank(1, 4, {"RANK": "3", "WORLD_SIZE": "8"}) == Rank(1, 4, "arguments")
    with pytest.raises(ValueError, match="both"):
        rank(1)
    with pytest.raises(ValueError, match="ranks are 0 to 3"):
        rank(4, 4)


@pytest.mark.parametrize(
    ("environ", "says"),
    [({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'.*dp_rank"), ({"TF_CONFIG": "{"}, "TF_CONFIG.*dp_rank")],
)
def test_variables_that_say_nothing_are_named(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rank(environ=environ)


def test_evaluators_and_parameter_servers_share_no_data() -> None:
    for kind in ("evaluator", "ps"):
        config = {"cluster": {"worker": ["a", "b"], kind: ["c"]}, "task": {"type": kind, "index": 0}}
        assert rank(environ={"TF_CONFIG": json.dumps(config)}).dp_size == 1
