"""A JAX process that trains together with other processes.

``test_several_processes.py`` starts this program with the address of a service, the address of the coordinator, the number of processes, and the
number of this process. The program prints the elements that it read as a line of JSON.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import millstream as ms

#: The number of samples in an epoch, and in a step of one process.
SAMPLES, BATCH, EPOCHS = 64, 8, 3


class Points:
    """A dataset of points on a line, with indices."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        x = np.float32(index / SAMPLES)
        return {"index": np.int32(index), "x": x, "y": np.float32(2) * x + np.float32(1)}


def main() -> None:
    """Trains on one global batch in each step. Each process reads its part of the batch."""
    service, coordinator, count, index = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, count, index)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    # The loader finds the number of this process, and the number of processes, from JAX.
    loader = ms.DataLoader(Points(), BATCH, shuffle=True, service=service, seed=7, device=sharding)

    @jax.jit
    def step(parameters: jax.Array, batch: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        def loss(parameters: jax.Array) -> jax.Array:
            return ((parameters[0] * batch["x"] + parameters[1] - batch["y"]) ** 2).mean()

        return parameters - 0.5 * jax.grad(loss)(parameters), batch["index"].sum()

    parameters = jnp.zeros(2)
    local, sums = [], []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            assert batch["index"].shape == (BATCH * count,)
            local.append([int(index) for part in batch["index"].addressable_shards for index in part.data])
            parameters, total = step(parameters, batch)
            sums.append(int(total))
    print(json.dumps({
        "rank": [loader.rank.dp_rank, loader.rank.dp_size, loader.rank.source],
        "steps": len(loader),
        "local": local,
        "sums": sums,
        "parameters": np.asarray(parameters).tolist(),
    }))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
