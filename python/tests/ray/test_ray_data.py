"""Tests of datasets of Ray Data as sources and results."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import ray
import ray.data
from ray_cluster import SLOT, Cluster

import millstream as ms
from millstream import _ray_data
from millstream.errors import InvalidArgumentError, UnimplementedError

#: The number of nodes besides the head node.
NODES = 2


@pytest.fixture(scope="module")
def service(ray_nodes: Cluster) -> Iterator[ms.ray.RayService]:
    with ms.ray.serve(2, {"CPU": 1, SLOT: 0.5}) as running:
        yield running


def test_rows_are_read_exactly_once(service: ms.ray.RayService) -> None:
    rows = ray.data.range(1000, override_num_blocks=7).map(lambda row: {"id": row["id"], "name": f"row {row['id']}"})
    source = ms.ray.from_dataset(rows)
    assert len(source) == 1000
    exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", dp_rank=0, dp_size=1)
    found = {int(row["id"]): str(row["name"]) for row in source.apply(exactly).as_numpy_iterator()}
    assert found == {number: f"row {number}" for number in range(1000)}


def test_rows_of_many_blocks_are_read(ray_nodes: Cluster) -> None:
    source = ms.ray.from_dataset(ray.data.range(200, override_num_blocks=40))
    places = [199, 0, 5, 100, 5, 198, 57]
    read = source.records.__getitems__(places) if hasattr(source.records, "__getitems__") else [source.records[place] for place in places]
    assert [int(row["id"]) for row in read] == places
    rows = sorted(int(row["id"]) for row in ms.ray.from_dataset(ray.data.range(200, override_num_blocks=40), shuffle=True, seed=3).as_numpy_iterator())
    assert rows == list(range(200))


def test_slow_blocks_keep_their_places(ray_nodes: Cluster) -> None:
    def slow_at_first(rows: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1.0 if rows["id"][0] == 0 else 0.0)
        return rows

    # Ray Data yields blocks as they become ready, unless it is told to keep their order.
    source = ray.data.range(40, override_num_blocks=8).map_batches(slow_at_first, batch_size=None)
    assert [int(row["id"]) for row in ms.ray.from_dataset(source).as_numpy_iterator()] == list(range(40))
    assert not source.context.execution_options.preserve_order


def test_tensors_keep_their_shape(ray_nodes: Cluster) -> None:
    images = np.arange(40 * 6, dtype=np.float32).reshape(40, 2, 3)
    source = ms.ray.from_dataset(ray.data.from_numpy(images))
    assert source.element_spec == {"data": ms.TensorSpec((2, 3), ms.float32)}
    found = np.stack([row["data"] for row in source.as_numpy_iterator()])
    assert np.array_equal(found, images)
    assert np.array_equal(source.records[13]["data"], images[13])


def test_a_loader_reads_the_records(service: ms.ray.RayService) -> None:
    source = ms.ray.from_dataset(ray.data.range(100))
    loader = ms.DataLoader(source.records, batch_size=10, shuffle=True, seed=3, service=service, output="numpy")
    read = [int(number) for batch in loader for number in batch["id"]]
    assert sorted(read) == list(range(100))
    assert read != sorted(read)


def test_foreign_and_empty_datasets_are_refused(ray_nodes: Cluster) -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected a ray\.data\.Dataset, found list"):
        ms.ray.from_dataset([1, 2])
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        ms.ray.from_dataset(ray.data.range(10).filter(lambda row: False))
    with pytest.raises(UnimplementedError, match="different shapes"):
        ms.ray.from_dataset(ray.data.from_items([{"x": 1}, {"x": 2}]).map(lambda row: {"x": np.zeros((row["x"], 2))}))
    nested = ray.data.from_items([{"x": [["a"], ["b", "c"]]}] * 3)
    with pytest.raises(UnimplementedError, match="'x'"):
        ms.ray.from_dataset(nested)


def test_tasks_compute_every_element_once(ray_nodes: Cluster) -> None:
    squares = ms.Dataset.range(3000).map(lambda x: {"x": x, "square": x * x})
    table = ms.ray.to_dataset(squares, parallelism=4)
    rows = sorted((row["x"], row["square"]) for row in table.take_all())
    assert rows == [(number, number * number) for number in range(3000)]
    pairs = ms.ray.to_dataset(ms.Dataset.range(3).map(lambda x: (x, x + 1)), parallelism=1).take_all()
    assert sorted(row["item_1"] for row in pairs) == [1, 2, 3]
    assert sorted(row["item"] for row in ms.ray.to_dataset(ms.Dataset.range(3)).take_all()) == [0, 1, 2]


def test_tasks_divide_the_work(tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def noted(x: object) -> object:
        with calls.open("a") as file:
            file.write(f"{int(x)}\n")  # type: ignore[call-overload]
        return x

    numbers = ms.Dataset.range(3000).map_python(noted, element_spec=ms.TensorSpec((), ms.int64))
    found = [int(x) for part in range(4) for x in _ray_data._share(numbers, 4, part, 0)]
    assert sorted(found) == list(range(3000))
    assert sorted(map(int, calls.read_text().split())) == list(range(3000))


def test_tasks_agree_on_the_order_of_unordered_maps() -> None:
    def slow(x: object) -> object:
        time.sleep(random.random() * 0.01)
        return x

    spec = ms.TensorSpec((), ms.int64)
    numbers = ms.Dataset.range(200).map_python(slow, element_spec=spec, num_parallel_calls=4, deterministic=False).take(100)
    found = [int(x) for part in range(4) for x in _ray_data._share(numbers, 4, part, 0)]
    assert sorted(found) == list(range(100))


@pytest.mark.parametrize("last", ["batch", "take", "shuffle", "filter", "skip"])
def test_parts_form_the_whole_dataset(last: str) -> None:
    numbers = ms.Dataset.range(1000).map(lambda x: x * 3)
    datasets = {
        "batch": lambda: numbers.batch(7),
        "take": lambda: numbers.take(100),
        "shuffle": lambda: numbers.shuffle(50, seed=1),
        "filter": lambda: numbers.filter(lambda x: x % 2 == 0),
        "skip": lambda: numbers.skip(10),
    }
    dataset = datasets[last]()
    whole = [x.tolist() for x in dataset.as_numpy_iterator()]
    parts = [x.tolist() for part in range(3) for x in _ray_data._share(dataset, 3, part, 0).as_numpy_iterator()]
    assert sorted(parts) == sorted(whole)


def test_a_service_is_read_by_one_task(service: ms.ray.RayService) -> None:
    numbers = ms.Dataset.range(200).map(lambda x: {"x": x}).apply(ms.service.distribute("distributed_epoch", service))
    assert sorted(row["x"] for row in ms.ray.to_dataset(numbers, service=service).take_all()) == list(range(200))
    with pytest.raises(InvalidArgumentError, match="expected 1, because the dataset reads a service"):
        ms.ray.to_dataset(numbers, parallelism=2)
    with pytest.raises(InvalidArgumentError, match="infinite"):
        ms.ray.to_dataset(ms.Dataset.range(3).repeat())


@pytest.mark.parametrize("source", ["splits", "places"])
def test_parts_without_a_seed_fit_together(source: str) -> None:
    shuffled = ms.Dataset.range(200).shuffle(200)
    # Splits cannot be divided before ``take``, so each task keeps some places of the whole dataset.
    dataset = shuffled if source == "splits" else shuffled.take(150)
    part = _ray_data._Part(dataset, 3, None)
    # Each task has a copy of its own. Ray runs some tasks again, and expects the same rows.
    found = [[int(x) for block in copy(part)({"id": [number]}) for x in block["item"]] for number in (0, 1, 2, 1)]
    first, second, third, again = found
    assert second == again
    assert len(set(first + second + third)) == len(first + second + third) == (200 if source == "splits" else 150)


def test_one_part_without_a_seed_can_run_again() -> None:
    part = _ray_data._Part(ms.Dataset.range(100).shuffle(100), 1, None)
    runs = [[int(x) for block in task({"id": [0]}) for x in block["item"]] for one in (part, copy(part)) for task in (one, one)]
    assert sorted(runs[0]) == list(range(100)) and runs == [runs[0]] * 4


def copy(part: _ray_data._Part) -> _ray_data._Part:
    """Returns the part that a task of Ray receives."""
    received: _ray_data._Part = cloudpickle.loads(cloudpickle.dumps(part))
    return received
