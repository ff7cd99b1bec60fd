"""A process of JAX that trains together with others.

``test_several_processes.py`` starts it with the address of a service, the address of the coordinator, the number of processes, and its own
number. It prints what it read as a line of JSON.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import millstream as ms

#: Samples of an epoch, and of a step of one process.
SAMPLES, BATCH, EPOCHS = 64, 8, 3


class Points:
    """A line, by index."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        x = np.float32(index / SAMPLES)
        return {"index": np.int32(index), "x": x, "y": np.float32(2) * x + np.float32(1)}


def main() -> None:
    """Trains on a global batch a step, of which each process reads its part."""
    service, coordinator, count, index = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, count, index)
    # Neither which process this is nor how many there are is said.
    loader = ms.DataLoader(Points(), BATCH, shuffle=True, service=service, output="numpy", seed=7)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

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
            local.append(batch["index"].tolist())
            shape = (BATCH * count,)
            arrays = {
                name: jax.make_array_from_process_local_data(sharding, value, shape) for name, value in batch.items()
            }
            parameters, total = step(parameters, arrays)
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
