"""The plan of an epoch: the samples of each step on each trainer, as a function of seed, epoch and position.

A loader can therefore resume at any position without stored data, and trainers need not communicate. The plan contains only indices of samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["LAST_BATCHES", "IndexPlan", "ListedPlan", "Plan", "permuted"]

#: The treatments of the last samples if they do not fill a step of all trainers: the trainers divide the samples, or samples from the beginning
#: fill the step, or the samples are left out.
LAST_BATCHES = ("PARTIAL", "FILL", "DROP")

_ROUNDS = 4

Indices = npt.NDArray[np.int64]


class Plan(Protocol):
    """The steps that one trainer reads."""

    @property
    def steps(self) -> int:
        """The number of steps of an epoch, which is equal on all trainers."""

    def rows(self, epoch: int, step: int) -> Indices:
        """Returns the indices of the samples of a step."""

    def valid(self, step: int) -> int:
        """Returns the number of samples at the start of a step that are not repeated to fill the step."""


def _mixed(value: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """Returns the result of the mixing function of SplitMix64."""
    with np.errstate(over="ignore"):
        value = value + np.uint64(key)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def permuted(positions: Indices, count: int, seed: int, epoch: int) -> Indices:
    """Returns the sample at each position of a shuffled pass over ``count`` samples.

    A Feistel network permutes the range up to the next power of four. The network is applied repeatedly until the result is less than ``count``.
    The function needs no memory for the permutation.
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
    base = np.array([seed & 0xFFFFFFFFFFFFFFFF, epoch & 0xFFFFFFFFFFFFFFFF], np.uint64)
    start = int(_mixed(base[:1], int(_mixed(base[1:], 0x9E3779B97F4A7C15)[0]))[0])
    keys = [int(_mixed(np.array([start], np.uint64), turn + 1)[0]) for turn in range(_ROUNDS)]
    found = positions.astype(np.uint64)
    outside = np.ones(len(found), bool)
    while outside.any():
        walked = found[outside]
        left, right = walked >> shift, walked & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right, key) & mask)
        found[outside] = (left << shift) | right
        outside = found >= np.uint64(count)
    return found.astype(np.int64)


@dataclasses.dataclass(frozen=True)
class IndexPlan:
    """The plan for a dataset of ``count`` samples, in order or shuffled. Each of ``dp_size`` trainers reads ``batch_size`` samples in a step.

    A global step takes consecutive positions of the pass, and each trainer takes a consecutive part of these positions. The set of samples before a step
    therefore depends only on the global batch size, not on the number of trainers.
    """

    count: int
    batch_size: int
    dp_rank: int = 0
    dp_size: int = 1
    shuffle: bool = False
    seed: int = 0
    last_batch: str = "PARTIAL"

    def __post_init__(self) -> None:
        if self.last_batch not in LAST_BATCHES:
            raise ValueError(f"last_batch {self.last_batch!r}: use one of {', '.join(LAST_BATCHES)}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size {self.batch_size}: must be at least 1")

    @property
    def global_batch(self) -> int:
        """The number of samples of all trainers in a step."""
        return self.batch_size * self.dp_size

    @property
    def steps(self) -> int:
        """The number of steps of an epoch."""
        full, rest = divmod(self.count, self.global_batch)
        return full + (rest > 0 and self.last_batch != "DROP")

    def rows(self, epoch: int, step: int) -> Indices:
        """Returns the indices of the samples of a step."""
        first, size, _ = self._part(step)
        positions = np.arange(first, first + size, dtype=np.int64) % self.count
        return permuted(positions, self.count, self.seed, epoch) if self.shuffle else positions

    def valid(self, step: int) -> int:
        """Returns the number of samples of a step that are not repeated."""
        return self._part(step)[2]

    def _part(self, step: int) -> tuple[int, int, int]:
        """Returns the first position of this trainer in a step, the number of samples, and the number of samples that are not repeated."""
        begin = step * self.global_batch
        left = self.count - begin
        if left >= self.global_batch or self.last_batch == "FILL":
            first = begin + self.dp_rank * self.batch_size
            return first, self.batch_size, min(max(self.count - first, 0), self.batch_size)
        size, larger = divmod(left, self.dp_size)
        first = begin + self.dp_rank * size + min(self.dp_rank, larger)
        mine = size + (self.dp_rank < larger)
        # A trainer without a sample repeats one, because the other trainers would wait forever in this step.
        return (first, mine, mine) if mine else (first, 1, 0)


@dataclasses.dataclass(frozen=True)
class ListedPlan:
    """The plan of one epoch from a sampler: a list of batches of indices."""

    batches: Sequence[Any]

    @property
    def steps(self) -> int:
        """The number of batches."""
        return len(self.batches)

    def rows(self, epoch: int, step: int) -> Indices:
        """Returns the indices of the samples of a step."""
        return np.asarray(self.batches[step], np.int64).reshape(-1)

    def valid(self, step: int) -> int:
        """Returns the number of samples of a step, because a sampler's batch has no repeated samples."""
        return len(self.rows(0, step))
