"""Mixtures for tests, and a naive model of a mixture. The model reads its batches from loaders, and draws on its own."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import millstream as ms
from millstream import Mixture, _draws

STOPS = ["first_exhausted", "all_exhausted_without_replacement", "never"]
FIRST, ALL, NEVER = STOPS


class Tagged:
    """A dataset whose samples name their component."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        if index == 13 and self.name == "broken":
            raise ValueError("sample 13")
        return np.array([ord(self.name[0]), index])


def loader(name: str, count: int, **arguments: Any) -> ms.DataLoader:
    defaults = {"batch_size": 2, "output": "numpy", "shuffle": True, "seed": 5, "dp_rank": 0, "dp_size": 1}
    return ms.DataLoader(Tagged(name, count), **{**defaults, **arguments})


def mixture(counts: dict[str, int], weights: Any = None, stop: str = NEVER, seed: int = 0, **arguments: Any) -> Mixture:
    return ms.mix({name: loader(name, count, **arguments) for name, count in counts.items()}, weights, seed=seed, stop=stop, with_names=True)


Batch = tuple[str, list[int]]


def taken(batches: Iterator[Any], count: int | None = None) -> list[Batch]:
    """Returns the names and samples of the next batches."""
    found = []
    for name, batch in itertools.islice(batches, count):
        assert {chr(tag) for tag in batch[:, 0].tolist()} == {name[0]}
        found.append((name, batch[:, 1].tolist()))
    return found


class Model:
    """A naive mixture: one step after the other, with the batches of each epoch of each loader in lists."""

    def __init__(self, counts: dict[str, int], weights: dict[str, float], stop: str, seed: int) -> None:
        self.counts, self.weights, self.stop, self.seed = counts, weights, stop, seed
        self.changes: dict[tuple[int, int], dict[str, float]] = {}

    def weights_at(self, epoch: int, step: int) -> dict[str, float]:
        held = [at for at in sorted(self.changes) if at <= (epoch, step)]
        return self.changes[held[-1]] if held else self.weights

    @staticmethod
    def pick(weights: dict[str, float], hashed: int) -> str:
        point = (hashed >> 11) / 2**53 * sum(weights[name] for name in sorted(weights))
        for name in sorted(weights):
            if weights[name] and point < weights[name]:
                return name
            point -= weights[name]
        raise AssertionError("rounding reached the total")

    def run(self, epoch: int, steps: int | None = None) -> Iterator[Batch]:
        """Yields the batches of an epoch of the mixture, at most ``steps``."""
        loaders = {name: loader(name, count) for name, count in self.counts.items()}
        for one in loaders.values():
            one.set_epoch(epoch)
        left = {name: [batch[:, 1].tolist() for batch in one] for name, one in loaders.items()}
        base = _draws.mix(_draws.mix(0x6D6978, self.seed), epoch)
        for step in itertools.count() if steps is None else range(steps):
            weights, hashed = self.weights_at(epoch, step), _draws.mix(base, step)
            name = self.pick(weights, hashed)
            if not left[name] and self.stop == NEVER:
                left[name] = [batch[:, 1].tolist() for batch in loaders[name]]
            if not left[name]:
                others = {other: weight if left[other] else 0.0 for other, weight in weights.items()}
                if self.stop == FIRST or not any(others.values()):
                    return
                name = self.pick(others, _draws.mix(hashed, 1))
            yield name, left[name].pop(0)


def case(number: int, stop: str) -> tuple[dict[str, int], dict[str, float], int, Model]:
    """Returns random components, weights, a seed and their model."""
    chance = random.Random(number)
    names = ["web", "code", "books", "z"][: chance.randint(1, 4)]
    counts = {name: chance.randint(1, 24) for name in names}
    weights = {name: chance.choice([0.5, 1.0, 2.0, 7.0]) for name in names}
    seed = chance.randint(0, 99)
    return counts, weights, seed, Model(counts, weights, stop, seed)


def scheduled(number: int, made: Mixture, model: Model) -> None:
    """Adds random changes of weights to a mixture and its model."""
    chance = random.Random(number)
    epochs = 1 if made._plan.stop == NEVER else 2
    for _ in range(chance.randint(0, 4)):
        weights = {name: chance.choice([0.0, 1.0, 3.0]) for name in model.counts}
        weights[chance.choice(sorted(weights))] = 1.0
        epoch, step = chance.randrange(epochs), chance.randint(0, 20)
        made.set_mixture(weights, at_step=step, epoch=epoch)
        model.changes[epoch, step] = weights


def next_of(batches: Iterator[Any]) -> Batch:
    name, batch = next(batches)
    return name, batch[:, 1].tolist()


def wire(state: dict[str, Any]) -> dict[str, Any]:
    """Returns the state as a program reads it from a file, with the keys in another order."""

    def turned(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    return json.loads(json.dumps(state), object_pairs_hook=turned)
