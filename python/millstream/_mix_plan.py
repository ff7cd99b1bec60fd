"""The plan of a mixture: the component of each step, as a function of seed, epoch, step, weights and exhausted components.

The plan counts steps and batches, and does not know loaders or batches. All trainers with the same plan draw the same components.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _draws
from .errors import InvalidArgumentError

__all__ = ["CHANGES_MAX", "FIRST", "NEVER", "STOPS", "MixturePlan", "joined_mixtures"]

FIRST, ALL, NEVER = "first_exhausted", "all_exhausted_without_replacement", "never"

#: The rules for the end of an epoch, and the remedy for each similar name of other libraries.
STOPS = (FIRST, ALL, NEVER)
_SIMILAR = {
    "all_exhausted": f"{NEVER!r} repeats exhausted components, {ALL!r} leaves them out",
    "all": f"{ALL!r} is the full name",
    "first": f"{FIRST!r} is the full name",
}

#: The maximum number of changes of weights in a state. A change takes about 50 bytes, so a state stays smaller than 5 KiB.
CHANGES_MAX = 64

#: The number of steps that the plan draws at once to count the steps of an epoch.
_BLOCK = 1 << 16

#: The first number of the hash, so that the draws of a mixture differ from those of a shuffle with the same seed.
_PURPOSE = 0x6D69_78

_MASK = 0xFFFF_FFFF_FFFF_FFFF

#: The exhausted components, each with the first step at which it was drawn without a batch left.
Exhausted = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Change:
    """The weights that hold from a step on, in the order of the plan's names."""

    epoch: int
    step: int
    weights: tuple[float, ...]

    @property
    def at(self) -> tuple[int, int]:
        """The epoch and the step from which the weights hold."""
        return self.epoch, self.step


@dataclasses.dataclass(frozen=True)
class MixturePlan:
    """The plan of a mixture. ``names`` is sorted, so that the order in which a program lists its components has no effect.

    A step draws a component by its weights. If the component is exhausted, a second draw of the step replaces it by one of the components that
    are left. Exhaustion therefore changes only the steps of exhausted components.
    """

    names: tuple[str, ...]
    seed: int
    stop: str
    #: The weights from the start and all changes, in ascending order of their steps.
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, names: Sequence[str], weights: Any, seed: int, stop: str) -> MixturePlan:
        """Returns the plan of a new mixture. ``weights`` is a dict, a list in the order of ``names``, or ``None`` for equal weights.

        Raises:
            InvalidArgumentError: ``stop`` is unknown, or the weights do not suit the names.
        """
        if stop not in STOPS:
            advice = f". {_SIMILAR[stop]}" if stop in _SIMILAR else ""
            raise InvalidArgumentError(f"stop={stop!r}: use {', '.join(map(repr, STOPS))}{advice}")
        given = _by_name(names, [1.0] * len(names) if weights is None else weights)
        ordered = tuple(sorted(names))
        return cls(ordered, int(seed), stop, (Change(0, 0, tuple(given[name] for name in ordered)),))

    def weights_at(self, epoch: int, step: int) -> dict[str, float]:
        """Returns the weights in force at a step, by name."""
        return dict(zip(self.names, self._change(epoch, step).weights, strict=True))

    def changed(self, names: Sequence[str], weights: Any, epoch: int, step: int) -> MixturePlan:
        """Returns the plan with other weights from a step on. Later changes stay, and a change at the same step is replaced.

        Raises:
            InvalidArgumentError: The weights do not suit the names, or the plan has too many changes.
        """
        given = _by_name(names, weights)
        added = Change(epoch, step, tuple(given[name] for name in self.names))
        # The first weights stay also if they never hold, because they identify the mixture.
        changes = sorted([*(one for one in self.changes[1:] if one.at != added.at), added], key=lambda one: one.at)
        if len(changes) > CHANGES_MAX:
            raise InvalidArgumentError(f"a mixture has at most {CHANGES_MAX} changes of weights: use fewer and larger changes")
        return dataclasses.replace(self, changes=(self.changes[0], *changes))

    def drawn(self, epoch: int, step: int, exhausted: Exhausted) -> str | None:
        """Returns the component of a step; ``None`` if no component of positive weight is left.

        Args:
            epoch: The number of the epoch.
            step: The number of the step in the epoch.
            exhausted: The components that are exhausted. Those whose step is later than ``step`` still count as available.
        """
        weights = self._change(epoch, step).weights
        hashed = _draws.mix(_base(self.seed, epoch), step)
        name = self.names[_index(weights, hashed)]
        if exhausted.get(name, math.inf) > step:
            return name
        left = tuple(0.0 if exhausted.get(name, math.inf) <= step else weight for name, weight in zip(self.names, weights, strict=True))
        return self.names[_index(left, _draws.mix(hashed, 1))] if any(left) else None

    def walked(self, epoch: int, lengths: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """Returns the number of steps of an epoch, and the exhausted components.

        The work grows with the number of steps: a million steps take a few hundredths of a second.

        Args:
            epoch: The number of the epoch.
            lengths: The number of batches of each component in the epoch.
        """
        left, step = [lengths[name] for name in self.names], 0
        exhausted: dict[str, int] = {}
        while True:
            change = self._change(epoch, step)
            steps = next((later.step - step for later in self.changes if later.epoch == epoch and later.step > step), _BLOCK)
            chosen = self._block(change.weights, epoch, range(step, step + min(steps, _BLOCK)), exhausted)
            if chosen is None:
                return step, exhausted
            # The first step that finds its component without a batch, and the component.
            found = [(places[left[at]], at) for at in range(len(left)) if len(places := np.flatnonzero(chosen == at)) > left[at]]
            place, ended = min(found, default=(len(chosen), None))
            for at, count in enumerate(np.bincount(chosen[:place], minlength=len(left))):
                left[at] -= int(count)
            step += int(place)
            if ended is not None:
                exhausted[self.names[ended]] = step
                if self.stop == FIRST:
                    return step, exhausted

    def counted(self, name: str, epoch: int, steps: range, exhausted: Exhausted) -> int:
        """Returns the number of steps that draw a component. The work grows with the number of steps, as in ``walked``.

        Args:
            name: The name of the component.
            epoch: The number of the epoch.
            steps: Consecutive steps of the epoch.
            exhausted: The components that are exhausted, as in ``drawn``.
        """
        changes = {change.step for change in self.changes if change.epoch == epoch} | set(exhausted.values())
        blocks = range(steps.start, steps.stop, _BLOCK)
        starts = sorted({step for step in (*changes, *blocks) if step in steps})
        count, at = 0, self.names.index(name)
        for start, stop in itertools.pairwise([*starts, steps.stop]):
            ended = {other: step for other, step in exhausted.items() if step <= start}
            chosen = self._block(self._change(epoch, start).weights, epoch, range(start, stop), ended)
            count += 0 if chosen is None else int(np.count_nonzero(chosen == at))
        return count

    def _block(self, weights: tuple[float, ...], epoch: int, steps: range, exhausted: Exhausted) -> Any:
        """Returns the positions of the drawn components in ``names`` for several steps with the same weights; ``None`` if none is left."""
        left = tuple(0.0 if name in exhausted else weight for name, weight in zip(self.names, weights, strict=True))
        if not any(left):
            return None
        hashed = _mixed(np.uint64(_base(self.seed, epoch)), np.arange(steps.start, steps.stop, dtype=np.uint64))
        chosen = _indices(weights, hashed)
        gone = np.isin(chosen, [at for at, name in enumerate(self.names) if name in exhausted])
        chosen[gone] = _indices(left, _mixed(hashed[gone], np.uint64(1)))
        return chosen

    def _change(self, epoch: int, step: int) -> Change:
        if len(self.changes) == 1:
            return self.changes[0]
        return self.changes[bisect.bisect_right(self.changes, (epoch, step), key=lambda one: one.at) - 1]

    def state(self) -> dict[str, Any]:
        """Returns the plan as values that JSON can represent."""
        weights = [[one.epoch, one.step, list(one.weights)] for one in self.changes]
        return {"seed": self.seed, "stop": self.stop, "weights": weights}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], names: Iterable[str]) -> MixturePlan:
        """Returns the plan of a state, for components with these names."""
        changes = tuple(Change(int(epoch), int(step), tuple(map(float, weights))) for epoch, step, weights in state["weights"])
        return cls(tuple(sorted(names)), int(state["seed"]), str(state["stop"]), changes)


def joined_mixtures(states: Sequence[dict[str, Any]], trainers: int, join: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Joins the states of a mixture on all trainers. ``join`` joins the states of an exactly-once component.

    Raises:
        InvalidArgumentError: The states belong to different mixtures or epochs, or a component is at positions that cannot be joined.
    """
    for name in ("version", "epoch", "seed", "stop", "weights", "components"):
        found = {str(sorted(state[name]) if name == "components" else state[name]) for state in states}
        if len(found) > 1:
            values = " and ".join(sorted(found))
            raise InvalidArgumentError(f"expected states of one mixture and epoch, found the {name} {values}: save all trainers at one step")
    components = {name: _joined_parts(name, [state["components"][name] for state in states], trainers, join) for name in states[0]["components"]}
    # A component is exhausted when it is exhausted on all trainers.
    ended = [name for name in components if all(name in state.get("exhausted", {}) for state in states)]
    return {
        **states[0],
        "step": max(state["step"] for state in states),
        "finished": all(state["finished"] for state in states),
        "exhausted": {name: max(state["exhausted"][name] for state in states) for name in ended},
        "components": components,
    }


def _joined_parts(name: str, parts: list[dict[str, Any]], trainers: int, join: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    if parts[0].get("visitation") == "exactly_once":
        epochs = sorted({int(part["epoch"]) for part in parts})
        if len(epochs) > 1:
            raise InvalidArgumentError(
                f"component {name!r} is in epoch {epochs[0]} on some trainers and in epoch {epochs[-1]} on others, because they receive different "
                "numbers of batches: join states of a step at which all trainers are in one epoch, or continue with the same trainers"
            )
        if parts[0].get("trainers", 0) is None and any(part != parts[0] for part in parts):
            raise InvalidArgumentError(
                f"component {name!r} has different states on the trainers, because another component ended earlier on some of them, or the "
                "states belong to different steps: join states of one step, and create components with last_batch='DROP'"
            )
        try:
            return join(parts, trainers)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"component {name!r}: {error}") from error
    if any(part != parts[0] for part in parts):
        raise InvalidArgumentError(
            f"component {name!r} has different states on the trainers, and is not exactly-once: save the states of all trainers at one step, "
            "with in_order=True"
        )
    return parts[0]


def _by_name(names: Sequence[str], weights: Any) -> dict[str, float]:
    """Returns checked weights by name."""
    if not isinstance(weights, Mapping):
        listed = list(weights)
        if len(listed) != len(names):
            raise InvalidArgumentError(f"expected one weight for each of {', '.join(map(repr, names))}, found {len(listed)} weights")
        weights = dict(zip(names, listed, strict=True))
    if set(weights) != set(names):
        raise InvalidArgumentError(f"expected weights for {sorted(names)}, found weights for {sorted(map(str, weights))}")
    found = {name: float(weights[name]) for name in names}
    if not all(0 <= weight < math.inf for weight in found.values()) or not 0 < math.fsum(found.values()) < math.inf:
        raise InvalidArgumentError(f"expected finite weights of at least 0 that are not all 0, found {found}")
    return found


@functools.lru_cache(maxsize=64)
def _base(seed: int, epoch: int) -> int:
    """Returns the number from which the hashes of an epoch's steps derive."""
    return _draws.mix(_draws.mix(_PURPOSE, seed & _MASK), epoch & _MASK)


def _index(weights: Sequence[float], hashed: int) -> int:
    """Returns the position of the component that a hash draws. ``_indices`` computes the same for many hashes."""
    sums = list(itertools.accumulate(weights))
    found = bisect.bisect_right(sums, (hashed >> 11) * 2.0**-53 * sums[-1])
    # Rounding can reach the total, which belongs to the last component of positive weight.
    return min(found, bisect.bisect_left(sums, sums[-1]))


def _indices(weights: Sequence[float], hashed: Any) -> Any:
    sums = np.asarray(list(itertools.accumulate(weights)))
    found = np.searchsorted(sums, (hashed >> np.uint64(11)) * 2.0**-53 * sums[-1], side="right")
    return np.minimum(found, np.searchsorted(sums, sums[-1], side="left"))


def _mixed(a: Any, b: Any) -> Any:
    """Combines arrays of 64-bit numbers by the function of ``_draws.mix``."""
    with np.errstate(over="ignore"):
        b = b * np.uint64(_draws._GOLDEN)
        turned = (b << np.uint64(32)) | (b >> np.uint64(32))
        return _finalised(_finalised(a + np.uint64(_draws._GOLDEN)) ^ turned)


def _finalised(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))
