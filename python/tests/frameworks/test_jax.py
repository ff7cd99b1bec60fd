"""Tests of elements as JAX arrays."""

from __future__ import annotations

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["bool", "i1", "i4", "u1", "u2", "f2", "f4", "c8", "bfloat16"])
def test_arrays_of_every_type_arrive_as_they_are(dtype: str, processes: ms.LocalService) -> None:
    kind = getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype
    value = (np.arange(4096).reshape(2, -1) % 100).astype(kind)
    dataset = Dataset.from_tensors(value).repeat(3).apply(distribute("parallel_epochs", processes))
    for array in dataset.with_output("jax"):
        assert isinstance(array, jax.Array) and array.dtype == value.dtype
        assert np.array_equal(np.asarray(array), value)


def test_arrays_are_not_written_over_while_they_live(processes: ms.LocalService) -> None:
    rows = np.arange(60)[:, None] * np.ones(2048, np.int64)
    dataset = Dataset.from_tensor_slices(rows.astype(np.int32)).apply(distribute("distributed_epoch", processes))
    kept = list(dataset.with_output("jax"))
    assert sorted(int(array[0]) for array in kept) == list(range(60))
    assert all(bool((array == array[0]).all()) for array in kept)


def test_a_jitted_step_trains(processes: ms.LocalService) -> None:
    x = np.linspace(-1, 1, 256, dtype=np.float32)
    dataset = Dataset.from_tensor_slices({"x": x, "y": 2 * x + 1}).shuffle(256).batch(16, drop_remainder=True)
    dataset = dataset.apply(distribute("distributed_epoch", processes)).with_output("jax")

    @jax.jit
    def step(parameters: tuple[float, float], batch: dict[str, jax.Array]) -> tuple[float, float]:
        def loss(parameters: tuple[float, float]) -> jax.Array:
            return ((parameters[0] * batch["x"] + parameters[1] - batch["y"]) ** 2).mean()

        return jax.tree.map(lambda value, slope: value - 0.3 * slope, parameters, jax.grad(loss)(parameters))

    parameters = (0.0, 0.0)
    for _ in range(20):
        for batch in dataset:
            parameters = step(parameters, batch)
    assert abs(parameters[0] - 2) < 0.1 and abs(parameters[1] - 1) < 0.1
