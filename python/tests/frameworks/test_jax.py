"""Tests of elements as JAX arrays."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

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


class Squares:
    """A dataset with indices."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(2048, index, np.float32), "name": f"n{index}", "index": index}


def on(where: Any, seed: int = 7) -> ms.DataLoader:
    return ms.DataLoader(Squares(), 4, shuffle=True, seed=seed, device=where, dp_rank=0, dp_size=1)


def sharding() -> Any:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))


@pytest.mark.parametrize("where", [lambda: jax.devices()[1], sharding], ids=["device", "sharding"])
def test_a_loader_feeds_a_device_and_resumes(where: Callable[[], Any]) -> None:
    def indices(batches: Any) -> list[list[int]]:
        found = []
        for batch in batches:
            assert isinstance(batch["x"], jax.Array) and batch["x"].sharding.is_equivalent_to(placed, batch["x"].ndim)
            assert batch["index"].tolist() == batch["x"][:, 0].tolist()
            assert [str(name) for name in batch["name"]] == [f"n{index}" for index in batch["index"]]
            found.append(batch["index"].tolist())
        return found

    placed = where() if where is sharding else jax.sharding.SingleDeviceSharding(where())
    whole = indices(on(where()))
    assert sorted(index for batch in whole for index in batch) == list(range(40))
    interrupted = on(where())
    iterator = iter(interrupted)
    before = indices(next(iterator) for _ in range(3))
    resumed = on(where())
    resumed.load_state_dict(interrupted.state_dict())
    assert before + indices(resumed) == whole


def test_a_step_may_donate_the_arrays(processes: ms.LocalService) -> None:
    rows = np.arange(40)[:, None] * np.ones(2048, np.int32)
    served = Dataset.from_tensor_slices(rows.astype(np.int32)).batch(2).apply(distribute("distributed_epoch", processes))
    step = jax.jit(lambda total, x: (total + x[:, 0].sum(), x * 2), donate_argnums=(1,))
    total: Any = np.int32(0)
    # The program still holds the donated arrays when the feed waits for their copies.
    donated = []
    for batch in ms.feed(served, jax.devices()[0]):
        total, _ = step(total, batch)
        assert batch.is_deleted()
        donated.append(batch)
    assert int(total) == sum(range(40))


def test_values_without_a_type_in_jax_stay() -> None:
    record = np.zeros(2, [("a", "i4")])
    elements = [{"scalar": np.float32(3), "text": np.array(["a"], object), "date": np.array(["2026-01-01"], "M8[D]"), "record": record}]
    (element,) = ms.feed(elements, jax.devices()[0])
    assert isinstance(element["scalar"], jax.Array) and float(element["scalar"]) == 3
    assert all(element[name] is elements[0][name] for name in ("text", "date", "record"))


def test_a_device_of_jax_refuses_another_output() -> None:
    assert ms.DataLoader([1], output="jax", device=jax.devices()[0]).device == jax.devices()[0]
    with pytest.raises(ms.errors.InvalidArgumentError, match="needs output='jax', found output='numpy'"):
        ms.DataLoader([1], output="numpy", device=jax.devices()[0])
    pytest.importorskip("torch")
    with pytest.raises(ms.errors.InvalidArgumentError, match=r"needs with_output\('torch'\), found with_output\('jax'\)"):
        ms.DataLoader(Dataset.range(3).with_output("jax"), batch_size=None, device="cpu")


def test_a_feed_refuses_tensors_of_another_framework() -> None:
    torch = pytest.importorskip("torch")
    loader = ms.DataLoader([1, 2, 3], output="torch")
    with pytest.raises(ms.errors.InvalidArgumentError, match="needs a loader with output='numpy', found output='torch'"):
        ms.feed(loader, jax.devices()[0])
    with pytest.raises(ms.errors.InvalidArgumentError, match="found a torch tensor"):
        next(iter(ms.feed([torch.ones(3)], jax.devices()[0])))
    with pytest.raises(ms.errors.InvalidArgumentError, match="needs a loader with output='torch', found output='numpy'"):
        ms.feed(ms.DataLoader([1, 2, 3], output="numpy"), "cpu")


def test_the_device_replaces_the_datasets_output(monkeypatch: pytest.MonkeyPatch) -> None:
    # Arrays from capsules would be copied twice.
    monkeypatch.setattr(jax.dlpack, "from_dlpack", lambda *_: pytest.fail("the output of the dataset was used"))
    dataset = Dataset.range(6).batch(2).with_output("jax")
    batches = list(ms.DataLoader(dataset, batch_size=None, device=jax.devices()[1]))
    assert len(batches) == 3 and all(batch.devices() == {jax.devices()[1]} for batch in batches)


def test_loaders_yield_the_output_of_exactly_once_datasets(processes: ms.LocalService) -> None:
    exactly = distribute("distributed_epoch", processes, visitation="exactly_once")
    dataset = Dataset.range(6).batch(2).apply(exactly).with_output("jax")
    found = list(ms.DataLoader(dataset))
    assert len(found) == 3 and all(isinstance(batch, jax.Array) for batch in found)


def test_loaders_with_a_jax_device_are_not_pickled() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="create it in the process that trains"):
        pickle.dumps(on(jax.devices()[0]))


def test_the_programs_default_device_is_used(processes: ms.LocalService) -> None:
    dataset = Dataset.from_tensors(np.ones(4096)).apply(distribute("parallel_epochs", processes)).with_output("jax")
    first, second = jax.devices()[:2]
    for default, device in ((second, second), ("cpu", first)):
        with jax.default_device(default):
            for array in dataset:
                # A copy on another device is not committed, so that JAX may move it to sharded parameters.
                assert array.devices() == {device} and array.committed == (device == first)


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
