"""Tests that the seed determines the draws of torch's generator in samples, like the draws of ``random`` and numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millstream as ms

torch = pytest.importorskip("torch")


class Drawing:
    """A dataset whose samples contain draws of torch's generator."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"i": index, "drawn": float(torch.rand(()))}


class Stream:
    """A stream whose elements contain draws of torch's generator."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (Drawing()[index] for index in range(12))


def drawn(batches: Any) -> dict[int, float]:
    """Returns the draw of each sample."""
    return {int(i): float(value) for batch in batches for i, value in zip(batch["i"], batch["drawn"], strict=True)}


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    with ms.local(workers=2, threads=1) as running:
        yield running


def test_torch_draws_follow_seed_and_epoch(service: ms.LocalService) -> None:
    def epochs(seed: int, **where: Any) -> list[dict[int, float]]:
        with ms.DataLoader(Drawing(), batch_size=4, seed=seed, output="numpy", **where) as loader:
            return [drawn(loader), drawn(loader)]

    here = epochs(3)
    assert len(set(here[0].values()) | set(here[1].values())) == 24
    assert epochs(4)[0] != here[0]
    assert epochs(3, num_workers=1) == here
    assert epochs(3, service=service) == here
    assert drawn(ms.distribute(Drawing(), service, batch_size=4, seed=3)) == here[0]


def test_torch_draws_of_streams_follow_the_seed(service: ms.LocalService) -> None:
    def epoch(seed: int, **where: Any) -> dict[int, float]:
        with ms.DataLoader(Stream(), batch_size=4, seed=seed, output="numpy", **where) as loader:
            return drawn(loader)

    here = epoch(3)
    assert len(set(here.values())) == 12
    assert epoch(4) != here
    assert epoch(3, num_workers=1) == here
    assert epoch(3, service=service) == here


@pytest.mark.parametrize("kind", [Drawing, Stream])
def test_seeded_loaders_leave_the_programs_torch_generator(kind: Any) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3).tolist()
    torch.manual_seed(1)
    loader = ms.DataLoader(kind(), batch_size=4, seed=3, output="numpy")
    assert [float(torch.rand(())) for _ in loader] == pytest.approx(expected)


class Indices:
    """A dataset whose samples are their indices."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        return index


def shuffled(**arguments: Any) -> Any:
    return ms.DataLoader(Indices(), batch_size=4, shuffle=True, output="numpy", **arguments)


def order(loader: Any) -> list[int]:
    return [int(index) for batch in loader for index in batch]


def test_the_order_follows_torchs_default_generator() -> None:
    def drawn_by(seed: int) -> list[int]:
        loader = shuffled()
        torch.manual_seed(seed)
        return order(loader)

    assert sorted(drawn_by(1)) == list(range(40))
    assert drawn_by(1) == drawn_by(1) != drawn_by(2)
    torch.manual_seed(1)
    assert order(shuffled()) != order(shuffled())
    assert order(shuffled(seed=5)) == order(shuffled(seed=5))


def test_a_drawn_seed_is_part_of_the_state() -> None:
    torch.manual_seed(1)
    batches = iter(loader := shuffled())
    before = [int(index) for _ in range(3) for index in next(batches)]
    state = loader.state_dict()
    torch.manual_seed(2)
    resumed = shuffled()
    resumed.load_state_dict(state)
    rest = order(resumed)
    assert sorted(before + rest) == list(range(40))
    assert rest == order(batches) and order(resumed) == order(loader)


def test_several_trainers_keep_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trainer(number: int, **arguments: Any) -> list[int]:
        torch.manual_seed(number)
        return order(shuffled(**arguments))

    parts = [trainer(number, dp_rank=number, dp_size=2) for number in range(2)]
    assert sorted(parts[0] + parts[1]) == list(range(40))
    # Processes that read the same batches, as with tensor parallelism, need the same seed, too.
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert trainer(1, dp_rank=0, dp_size=1) == trainer(2, dp_rank=0, dp_size=1)
