"""Which samples each step of an epoch is made of, on each of several trainers: a function of seed, epoch and position alone.

So nothing has to be remembered to go on anywhere, and no trainer has to ask another one. Refuses to know what samples are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["LAST_BATCHES", "IndexPlan", "ListedPlan", "Plan", "permuted"]

#: What becomes of samples at the end that fill no step of all trainers: each has its part of them, or they are made up with
#: samples of the beginning, or left out.
LAST_BATCHES = ("PARTIAL", "FILL", "DROP")

_ROUNDS = 4

Indices = npt.NDArray[np.int64]


class Plan(Protocol):
    """What one trainer reads."""

    @property
    def steps(self) -> int:
        """How many steps an epoch has: on every trainer as many."""

    def rows(self, epoch: int, step: int) -> Indices:
        """The samples of a step."""

    def valid(self, step: int) -> int:
        """How many of them, from the first on, are not there only to make the step full."""


def _mixed(value: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """The mixing function of SplitMix64."""
    with np.errstate(over="ignore"):
        value = value + np.uint64(key)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def permuted(positions: Indices, count: int, seed: int, epoch: int) -> Indices:
    """Returns the sample at each position of a shuffled pass over ``count`` samples.

    A Feistel network over the next power of four is walked until it is within the range. It takes no memory, however many samples there are.
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
    """Indices of a dataset of ``count`` samples, in order or shuffled, ``batch_size`` a step for each of ``dp_size`` trainers.

    A global step takes consecutive positions of the pass, of which trainers have consecutive parts: what is read up to a step
    does not depend on how many trainers read it.
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
            raise ValueError(f"batch_size {self.batch_size}: a batch has at least one sample")

    @property
    def global_batch(self) -> int:
        """The samples of a step on all trainers together."""
        return self.batch_size * self.dp_size

    @property
    def steps(self) -> int:
        """How many steps an epoch has."""
        full, rest = divmod(self.count, self.global_batch)
        return full + (rest > 0 and self.last_batch != "DROP")

    def rows(self, epoch: int, step: int) -> Indices:
        """The samples of a step."""
        first, size, _ = self._part(step)
        positions = np.arange(first, first + size, dtype=np.int64) % self.count
        return permuted(positions, self.count, self.seed, epoch) if self.shuffle else positions

    def valid(self, step: int) -> int:
        """How many of them are not repeated ones."""
        return self._part(step)[2]

    def _part(self, step: int) -> tuple[int, int, int]:
        """The first position, how many, and how many of them are not repeated."""
        begin = step * self.global_batch
        left = self.count - begin
        if left >= self.global_batch or self.last_batch == "FILL":
            first = begin + self.dp_rank * self.batch_size
            return first, self.batch_size, min(max(self.count - first, 0), self.batch_size)
        size, larger = divmod(left, self.dp_size)
        first = begin + self.dp_rank * size + min(self.dp_rank, larger)
        mine = size + (self.dp_rank < larger)
        # A trainer without a sample in a step that others make would have them wait for ever: it repeats one.
        return (first, mine, mine) if mine else (first, 1, 0)


@dataclasses.dataclass(frozen=True)
class ListedPlan:
    """Batches of indices as a sampler listed them for one epoch."""

    batches: Sequence[Any]

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.batches)

    def rows(self, epoch: int, step: int) -> Indices:
        """The samples of a step."""
        return np.asarray(self.batches[step], np.int64).reshape(-1)

    def valid(self, step: int) -> int:
        """All of them."""
        return len(self.rows(0, step))
