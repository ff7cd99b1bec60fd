"""Tests that samples with the same seed draw the same numbers, in any process."""

import random
from typing import Any

import numpy as np
import pytest

import millstream as ms


class Drawing:
    """A dataset whose samples contain random numbers."""

    def __init__(self, count: int = 24) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"i": index, "numpy": np.random.rand(), "python": random.random()}


class Stream:
    """An iterable whose elements contain random numbers."""

    def __iter__(self) -> Any:
        for index in range(12):
            yield {"i": index, "numpy": np.random.rand(), "python": random.random()}


def drawn(batches: Any) -> dict[int, tuple[float, float]]:
    """Returns the random numbers of each sample."""
    found = {}
    for batch in batches:
        for index, one, other in zip(batch["i"], batch["numpy"], batch["python"], strict=True):
            found[int(index)] = (float(one), float(other))
    return found


@pytest.fixture(scope="module")
def service() -> Any:
    with ms.local(workers=2, threads=2) as running:
        yield running


def test_a_seed_decides_what_distributed_samples_draw(service: Any) -> None:
    def dataset(seed: int, size: int = 4) -> Any:
        return ms.distribute(Drawing(), service, batch_size=size, seed=seed)

    first = dataset(3)
    passes = [drawn(first), drawn(first)]
    assert passes[0].keys() == set(range(24))
    assert passes[0] != passes[1]
    assert drawn(dataset(3)) == passes[0]
    assert drawn(dataset(3, size=5)) == passes[0]
    assert drawn(dataset(4)) != passes[0]
    assert len(set(passes[0].values())) == 24


def test_the_same_draws_wherever_a_loader_computes(service: Any) -> None:
    def epochs(**where: Any) -> list[dict[int, tuple[float, float]]]:
        with ms.DataLoader(Drawing(), batch_size=4, shuffle=True, seed=3, output="numpy", **where) as loader:
            return [drawn(loader), drawn(loader)]

    here = epochs()
    assert here[0] != here[1]
    assert epochs(num_workers=1) == here
    assert epochs(num_workers=2, in_order=False) == here
    assert epochs(service=service) == here
    shared = drawn(ms.distribute(Drawing(), service, batch_size=4, seed=3))
    assert shared == here[0]


def test_a_resumed_epoch_draws_what_it_would_have(service: Any) -> None:
    def loader() -> ms.DataLoader:
        return ms.DataLoader(Drawing(), batch_size=4, service=service, seed=3, output="numpy")

    whole, half = drawn(loader()), loader()
    batches = iter(half)
    before = drawn([next(batches), next(batches)])
    batches.close()
    other = loader()
    other.load_state_dict(half.state_dict())
    assert before | drawn(other) == whole
    other.set_epoch(0)
    assert drawn(other) == whole


def test_number_of_trainers_changes_no_draw() -> None:
    def part(rank: int, size: int) -> dict[int, tuple[float, float]]:
        return drawn(ms.DataLoader(Drawing(), batch_size=2, seed=3, dp_rank=rank, dp_size=size, output="numpy"))

    assert part(0, 2) | part(1, 2) == part(0, 1)


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.parametrize("kind", [Drawing, Stream])
def test_a_seeded_loader_leaves_the_programs_generators(kind: Any, is_here: bool, service: Any) -> None:
    np.random.seed(1)
    random.seed(1)
    expected = [(np.random.rand(), random.random()) for _ in range(7)]
    for _ in range(2):
        np.random.seed(1)
        random.seed(1)
        seen = []
        loader = ms.DataLoader(kind(), batch_size=4, seed=3, output="numpy", service=None if is_here else service)
        for _ in loader:
            # The program itself draws numbers in each step, for example for dropout.
            seen.append((np.random.rand(), random.random()))
        assert seen == expected[: len(seen)]


def test_unseeded_samples_draw_from_the_program() -> None:
    class One(Drawing):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"i": index, "numpy": np.random.rand(), "python": 0.0}

    np.random.seed(1)
    expected = [np.random.rand() for _ in range(4)]
    for _ in range(2):
        np.random.seed(1)
        found = []
        for batch in ms.DataLoader(One(2), batch_size=1, output="numpy"):
            found += [float(batch["numpy"][0]), np.random.rand()]
        assert found == expected


def test_streams_draw_by_seed_epoch_and_process(service: Any) -> None:
    def epochs(**where: Any) -> list[dict[int, tuple[float, float]]]:
        with ms.DataLoader(Stream(), batch_size=4, seed=3, output="numpy", **where) as loader:
            return [drawn(loader), drawn(loader)]

    here = epochs()
    assert here[0] != here[1]
    assert epochs(num_workers=1) == here
    assert epochs(service=service) == here
    several = [tuple(map(float, batch["numpy"])) for batch in ms.DataLoader(Stream(), batch_size=4, num_workers=2, seed=3, output="numpy")]
    assert len(set(several)) == len(several) == 6
    assert drawn(ms.distribute(Stream(), service, batch_size=4, seed=3)) == here[0]


def test_a_sample_listed_twice_draws_twice(service: Any) -> None:
    def values(**where: Any) -> list[tuple[float, ...]]:
        loader = ms.DataLoader(Drawing(), batch_size=2, sampler=[5, 5, 5, 6], seed=3, output="numpy", **where)
        return [tuple(map(float, batch["numpy"])) for batch in loader]

    found = values()
    assert len({number for batch in found for number in batch}) == 4
    assert values(service=service) == found


def test_a_process_begins_to_draw_by_the_seed() -> None:
    class Begun(Drawing):
        def __getitem__(self, index: int) -> Any:
            return {"begun": BEGUN}

    def begin(_: int) -> None:
        global BEGUN
        BEGUN = random.random()

    def begun(seed: int) -> float:
        spec = {"begun": ms.TensorSpec((None,), ms.float64)}
        loader = ms.DataLoader(Begun(1), num_workers=1, worker_init_fn=begin, seed=seed, element_spec=spec, output="numpy")
        return float(next(iter(loader))["begun"][0])

    assert begun(3) == begun(3) != begun(4)


BEGUN = 0.0
