"""Tests of trainers with several processes or replicas: each reads a part of the dataset, and together they read the whole dataset."""

from __future__ import annotations

import json

import pytest
from trainers import free_addresses, needs, told

import millstream as ms


def test_processes_of_jax_read_parts_of_global_batches(processes: ms.LocalService) -> None:
    needs("jax")
    (coordinator,) = free_addresses(1)
    count = 2
    said = told("jax_trainer.py", *(([processes.target, coordinator, str(count), str(index)], {}) for index in range(count)))
    assert [one["rank"] for one in said] == [[index, count, "jax.distributed"] for index in range(count)]
    first, second = said
    assert first["steps"] == second["steps"] == 4
    # Both processes know the sums over both parts.
    assert first["sums"] == second["sums"] == [sum(a) + sum(b) for a, b in zip(first["local"], second["local"], strict=True)]
    for epoch in range(3):
        of_epoch = [batch for one in said for batch in one["local"][4 * epoch : 4 * epoch + 4]]
        assert sorted(index for batch in of_epoch for index in batch) == list(range(64))
    assert first["local"][:4] != first["local"][4:8]
    assert first["parameters"] == second["parameters"] and abs(first["parameters"][0] - 2) < 1


@pytest.mark.parametrize("way", ["dataset", "function", "millstream"])
def test_replicas_of_a_mirrored_strategy_share_global_batches(way: str, processes: ms.LocalService) -> None:
    needs("tensorflow")
    (said,) = told("tensorflow_trainer.py", ([processes.target, "mirrored", way], {}))
    assert said["replicas"] == 2 and len(said["seen"]) == 8
    for parts, total in zip(said["seen"], said["sums"], strict=True):
        assert [len(part) for part in parts] == [4, 4] and total == sum(map(sum, parts))
    assert sorted(x for parts in said["seen"] for part in parts for x in part) == list(range(64))


def test_keras_fits_under_a_mirrored_strategy(processes: ms.LocalService) -> None:
    needs("keras")
    (said,) = told("tensorflow_trainer.py", ([processes.target, "mirrored", "keras"], {}))
    assert said["replicas"] == 2 and said["loss"] < 0.01


@pytest.mark.parametrize("way", ["dataset", "function"])
def test_strategy_processes_share_a_job(way: str, processes: ms.LocalService) -> None:
    needs("tensorflow")
    cluster = {"worker": free_addresses(2)}
    configs = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(2)]
    said = told(
        "tensorflow_trainer.py", *(([processes.target, "multi-worker", way], {"TF_CONFIG": config}) for config in configs)
    )
    assert [one["rank"] for one in said] == [[0, 2, "TF_CONFIG"], [1, 2, "TF_CONFIG"]]
    assert [one["replicas"] for one in said] == [2, 2]
    # A process whose data has ended still takes part in the steps of the other process, so both know all sums.
    assert said[0]["sums"] == said[1]["sums"] and sum(said[0]["sums"]) == sum(range(64))
    assert sorted(x for one in said for parts in one["seen"] for part in parts for x in part) == list(range(64))
