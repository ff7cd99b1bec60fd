"""Tests of Ray Train, whose trainers read from a service on the same cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray_cluster import SLOT, Cluster

import millstream as ms

#: The number of nodes besides the head node.
NODES = 2
EPOCHS, SAMPLES, BATCH = 2, 1000, 32


def test_trainers_of_ray_train_share_epochs(ray_nodes: Cluster, tmp_path: Path) -> None:
    """The trainers get the service and the samples as their configuration, as in the guide. Each sample arrives once."""

    def train(config: dict[str, Any]) -> None:
        context = ray.train.get_context()
        rank = context.get_world_rank()
        loader: Any = ms.DataLoader(
            config["samples"],
            batch_size=BATCH,
            shuffle=True,
            seed=7,
            service=config["service"],
            last_batch="DROP",
            dp_rank=rank,
            dp_size=context.get_world_size(),
        )
        for epoch in range(EPOCHS):
            numbers = [[int(x), int(y)] for xs, ys in loader for x, y in zip(xs, ys, strict=True)]
            (tmp_path / f"{epoch}-{rank}.json").write_text(json.dumps(numbers))

    with ms.ray.serve(2, {"CPU": 0.5, SLOT: 0.5}) as service:
        trainer = DataParallelTrainer(
            train,
            train_loop_config={"service": service, "samples": [(x, x * x) for x in range(SAMPLES)]},
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
            run_config=RunConfig(storage_path=str(tmp_path / "results")),
        )
        assert trainer.fit().error is None
    orders = []
    for epoch in range(EPOCHS):
        parts = [json.loads((tmp_path / f"{epoch}-{rank}.json").read_text()) for rank in range(2)]
        assert [len(part) for part in parts] == [SAMPLES // (2 * BATCH) * BATCH] * 2
        pairs = [(x, y) for part in parts for x, y in part]
        assert len(set(pairs)) == len(pairs), f"epoch {epoch} repeats samples"
        assert all(y == x * x for x, y in pairs)
        orders.append(pairs)
    assert orders[0] != orders[1], "each epoch has its own order"
