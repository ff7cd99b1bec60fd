"""Tests of JAX arrays on a GPU. ``python/check --gpu`` runs these tests in an environment whose JAX supports GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream.service import distribute

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="JAX finds no GPU, so these tests did not run"
)


def numbered(count: int) -> ms.Dataset:
    """Returns a dataset whose element i has an array of a megabyte that is filled with the number i."""
    whole = {"x": ms.TensorSpec((1 << 18,), ms.int32), "name": ms.TensorSpec((), ms.string)}

    def element(number: Any) -> dict[str, Any]:
        return {"x": np.full(1 << 18, int(number), np.int32), "name": f"n{int(number)}"}

    return ms.Dataset.range(count).map_python(element, element_spec=whole)


def test_arrays_are_on_the_default_device(processes: ms.LocalService) -> None:
    dataset = numbered(30).apply(distribute("distributed_epoch", processes)).with_output("jax")
    device = jax.devices()[0]
    found = []
    for element in dataset:
        assert element["x"].devices() == {device} and bool((element["x"] == element["x"][0]).all())
        found.append(int(element["x"][0]))
    assert sorted(found) == list(range(30))


def test_a_feed_prefetches_to_a_device(processes: ms.LocalService) -> None:
    dataset = numbered(60).apply(distribute("distributed_epoch", processes))
    kept = list(ms.feed(dataset, jax.devices()[0]))
    for element in kept:
        assert element["x"].devices() == {jax.devices()[0]} and bool((element["x"] == element["x"][0]).all())
        assert element["name"] == f"n{int(element['x'][0])}"
    assert sorted(int(element["x"][0]) for element in kept) == list(range(60))


def test_a_step_may_donate_its_batch(processes: ms.LocalService) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    dataset = numbered(40).map(lambda element: element["x"]).batch(2)
    batches = ms.DataLoader(dataset, batch_size=None, service=processes, seed=3, device=sharding)
    step = jax.jit(lambda total, x: (total + x[:, 0].sum(), x * 2), donate_argnums=(1,))
    total: Any = np.int32(0)
    donated = []
    for batch in batches:
        assert batch.sharding == sharding
        total, _ = step(total, batch)
        assert batch.is_deleted()
        donated.append(batch)
    assert int(total) == sum(range(40))
