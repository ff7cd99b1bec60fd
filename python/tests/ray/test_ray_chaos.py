"""Nodes of Ray that are killed under load: exactly-once epochs lose and repeat nothing, and the workers return to their number."""

from __future__ import annotations

import functools
import os
import random
import time
from typing import Any

import numpy as np
import ray
from ray_cluster import SLOT, Cluster, eventually

import millstream as ms

#: The seconds for which nodes are killed. The figure of the documentation is for 120.
STORM_S = float(os.environ.get("MILLSTREAM_RAY_STORM_S", "120"))
#: The seconds between two kills.
PAUSE_S = 10.0
#: The number of nodes, and of workers.
NODES = 4
#: The seconds within which a kill must be noticed, and within which all workers must serve again. Both usually take a few seconds.
RETURN_S = 60.0
#: The number of elements in an epoch.
ELEMENTS = 800


@ray.remote(num_cpus=0)
class Trainer:
    """Reads exactly-once epochs until it is told to stop, and counts lost and repeated elements."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.epochs, self.lost, self.repeated = 0, 0, 0

    def stop(self) -> None:
        self.is_stopped = True

    def train(self, service: ms.ray.RayService) -> tuple[int, int, int]:
        def worked(x: object) -> object:
            time.sleep(0.02)
            return x

        numbers = ms.Dataset.range(ELEMENTS).split_size(4).map_python(worked, element_spec=ms.TensorSpec((), ms.int64))
        while not self.is_stopped:
            exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", dp_rank=0, dp_size=1, in_order=False)
            counts = np.zeros(ELEMENTS, np.int64)
            for number in numbers.apply(exactly):
                counts[int(number)] += 1
            self.epochs += 1
            self.lost += int((counts == 0).sum())
            self.repeated += int((counts > 1).sum())
        return self.epochs, self.lost, self.repeated


def is_lost(service: ms.ray.RayService, before: list[dict[str, Any]]) -> bool:
    """Returns whether one of these workers is gone."""
    return not {worker["name"] for worker in before} <= {worker["name"] for worker in service.workers()}


def test_killed_nodes_lose_and_repeat_nothing(ray_nodes: Cluster) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with ms.ray.serve(NODES, {"CPU": 1, SLOT: 0.25}) as service:
        trainer = Trainer.options(max_concurrency=2, resources={"node:__internal_head__": 0.001}).remote()
        trained = trainer.train.remote(service)
        time.sleep(3)
        took_s = []
        end = time.monotonic() + STORM_S
        while time.monotonic() < end:
            next_kill = time.monotonic() + PAUSE_S
            before = service.workers()
            ray_nodes.kill(chance.choice(before)["node_address"])
            killed = time.monotonic()
            eventually("a worker is lost", RETURN_S, functools.partial(is_lost, service, before))
            service.wait(NODES, timeout_s=RETURN_S)
            took_s.append(time.monotonic() - killed)
            print(f"all workers serve {took_s[-1]:.1f} s after the kill of a node")
            ray_nodes.add()
            time.sleep(max(0.0, next_kill - time.monotonic()))
        ray.get(trainer.stop.remote())
        epochs, lost, repeated = ray.get(trained, timeout=300)
    print(f"{len(took_s)} nodes killed, {epochs} epochs of {ELEMENTS} elements, {lost} lost, {repeated} repeated, slowest return {max(took_s):.1f} s")
    assert epochs >= 1
    assert (lost, repeated) == (0, 0)
