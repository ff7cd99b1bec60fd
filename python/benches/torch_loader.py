"""A transform of Python: torch's ``DataLoader`` beside the workers of a service on this host, with as many processes.

``PYTHON=… python/check --bench-torch`` runs it, with an interpreter that has torch, numpy and cloudpickle. Both read the same dataset,
collate the same batches and hand over tensors; rounds are interleaved, and of each the median is told. Steps are counted after the first batches,
so that starting processes is no part of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import millstream as ms

#: Batches before the clock starts: both have filled what they hold ahead.
_WARM = 12


class Pictures(Dataset[Any]):
    """Pictures of random pixels, cropped, flipped and normalised as for training: some milliseconds of Python each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = np.random.default_rng(index)
        picture = generator.integers(0, 256, (256, 256, 3), np.uint8)
        top, left = generator.integers(0, 32, 2)
        picture = picture[top : top + 224, left : left + 224]
        if index % 2:
            picture = picture[:, ::-1]
        scaled = (picture.astype(np.float32) / 255 - 0.45) / 0.22
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1))), index % 10


class Numbers(Dataset[Any]):
    """As little as a dataset can do: what an element costs by itself."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


def rate(batches: Iterable[Any], count: int) -> float:
    """Batches a second."""
    iterator = iter(batches)
    for _ in range(_WARM):
        next(iterator)
    begun = time.perf_counter()
    taken = 0
    for _ in iterator:
        taken += 1
        if taken == count:
            break
    return taken / (time.perf_counter() - begun)


def compare(name: str, dataset: Any, batch_size: int | None, processes: int, count: int, rounds: int, service: Any) -> None:
    """Prints one row."""
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=processes)
    ours = ms.distribute(loader, service).with_output("torch")
    rates: dict[str, list[float]] = {"torch": [], "millstream": []}
    for _ in range(rounds):
        rates["torch"].append(rate(loader, count))
        rates["millstream"].append(rate(ours, count))
    of_torch, of_ours = (statistics.median(rates[of]) for of in ("torch", "millstream"))
    print(f"{name:<28}{of_torch:>14.1f}{of_ours:>14.1f}{of_ours / of_torch:>9.2f}", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    arguments = parser.parse_args()
    print(f"{arguments.processes} processes each, batches a second, medians of {arguments.rounds} rounds")
    print(f"{'':<28}{'DataLoader':>14}{'Millstream':>14}{'ratio':>9}")
    with ms.local(workers=1, threads=arguments.processes) as service:

        def row(name: str, kind: Any, batch_size: int | None, count: int) -> None:
            samples = (count + 4 * _WARM) * (batch_size or 1)
            compare(name, kind(samples), batch_size, arguments.processes, count, arguments.rounds, service)

        row("pictures, batches of 16", Pictures, 16, arguments.batches)
        row("numbers, batches of 64", Numbers, 64, 20 * arguments.batches)
        row("numbers, one by one", Numbers, None, 100 * arguments.batches)


if __name__ == "__main__":
    main()
