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
