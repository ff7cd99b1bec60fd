"""Positions in exactly-once epochs, and the states of all trainers as one state.

Owns the form of a position in a state. Refuses to know datasets and services.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import struct
from collections.abc import Sequence
from typing import Any

from ._millstream import joined_places
from ._mix_plan import joined_mixtures
from ._state_checksum import check_complete, with_checksum
from .errors import InvalidArgumentError

__all__ = ["Place", "element_of", "joined_states"]


#: The number of elements of a split of which trainers have all elements.
_ALL = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Place:
    """The position of a trainer: the first split of which elements are left, and the number of elements that trainers have of each split.

    A state has one bit for each split of which trainers have all elements. The state thus stays small if elements arrive in any order.

    If splits are files, ``files`` is a digest of all files of the epoch. Among other files, the numbers would stand for other splits.
    """

    split: int = 0
    had: dict[int, int] = dataclasses.field(default_factory=dict)
    files: int | None = None
    #: The elements that are left out, each with its split and its id.
    quarantined: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> Place:
        """Returns the position in the bytes that arrive before an element.

        The numbers are the digest of the files, the quarantined elements, the split, the distance, the words of bits, and pairs of split and number.
        The element's own split and position stand before these numbers.
        """
        _, _, files, left_out, *rest = struct.unpack(f"<{len(data) // 8}Q", data)
        quarantined, (split, step, words, *rest) = rest[: 2 * left_out], rest[2 * left_out :]
        bits = sum(word << 64 * at for at, word in enumerate(rest[:words]))
        pairs = rest[words:]
        return cls(split, _merged(dict(zip(pairs[::2], pairs[1::2], strict=True)), split, step, bits), files or None, _pairs(quarantined))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Place:
        """Returns the position in a state."""
        split, had = int(state["split"]), {int(split): int(count) for split, count in state.get("had", {}).items()}
        step, bits = state.get("done", (1, ""))
        files = state.get("files")
        quarantined = tuple((int(of_split), int(name, 16)) for of_split, name in state.get("quarantined", ()))
        return cls(split, _merged(had, split, step, int.from_bytes(base64.b64decode(bits), "little")), None if files is None else int(files, 16), quarantined)

    def to_state(self) -> dict[str, Any]:
        """Returns the position as a part of a state. ``done`` has the distance of splits, and a bit for each split in base64."""
        state: dict[str, Any] = {"split": self.split, "had": {str(split): count for split, count in sorted(self.had.items()) if count != _ALL}}
        if done := [split - self.split for split, count in self.had.items() if count == _ALL]:
            step = math.gcd(*done) or 1
            bits = bytearray(max(done) // step // 8 + 1)
            for distance in done:
                bits[distance // step // 8] |= 1 << distance // step % 8
            state["done"] = [step, base64.b64encode(bits).decode()]
        if self.files is not None:
            state["files"] = f"{self.files:016x}"
        # Finished splits are not read again.
        if quarantined := [[split, f"{name:x}"] for split, name in self.quarantined if split >= self.split]:
            state["quarantined"] = quarantined
        return state


def element_of(data: bytes) -> tuple[int, int, bool]:
    """Returns the split of an element, its position in the split, and whether the split leaves elements out.

    Args:
        data: The bytes that arrive before the element.
    """
    split, position = struct.unpack_from("<2Q", data)
    return split, position, any(of_split == split for of_split, _ in Place.from_bytes(data).quarantined)


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _merged(had: dict[int, int], split: int, step: int, bits: int) -> dict[int, int]:
    """Returns the numbers of elements of each split, with those of the splits whose bits are set."""
    done = {split + step * at: _ALL for at, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"}
    return dict(sorted((had | done).items()))


def joined_states(states: Sequence[dict[str, Any]], trainers: int) -> dict[str, Any]:
    """Joins the states of all trainers of an exactly-once epoch, so that another number of trainers continues it.

    The states of a loader whose ``len()`` is known are the same on all trainers. Any number of trainers loads them without this function.
    The states of a mixture are joined component by component.

    Args:
        states: The ``state_dict()`` of every trainer, in any order, all of one epoch.
        trainers: The number of trainers that continue.

    Returns:
        The state that each of the new trainers loads.

    Raises:
        InvalidArgumentError: A trainer's state is missing, or the states belong to different epochs, jobs or steps. Or entries of a state were
            lost or changed after it was saved.

    Example:
        >>> first = {"version": 1, "epoch": 0, "step": 1, "finished": False, "ahead": [], "visitation": "exactly_once", "seed": 0}
        >>> states = [first | {"trainers": 2, "trainer": n, "split": n, "had": {str(n): 1}} for n in range(2)]
        >>> ms.joined_states(states, 3)["had"]
        {'0': 1, '1': 1}
    """
    for state in states:
        check_complete(state)
    if states and all("components" in state for state in states):
        return with_checksum(joined_mixtures(states, trainers, joined_states))
    if states and all("trainers" in state and state["trainers"] is None for state in states):
        return _shared(states)
    count = len(states)
    if sorted(state.get("trainer", -1) for state in states) != list(range(count)) or any(state.get("trainers") != count for state in states):
        raise InvalidArgumentError(f"expected one state of each of the trainers of an exactly-once job, found {count} states of other trainers")
    shared = [{name: state.get(name) for name in ("version", "epoch", "seed", "dataset")} for state in states]
    if any(other != shared[0] for other in shared):
        raise InvalidArgumentError("the states belong to different epochs, seeds, datasets or versions: join states of one step")
    # The number of batches of a trainer holds for the earlier number of trainers.
    first = {name: value for name, value in states[0].items() if name not in ("steps", "done", "quarantined")}
    ordered = sorted(states, key=lambda state: int(state["trainer"]))
    places = [Place.from_state(state) for state in ordered]
    split, had = joined_places([(place.split, place.had) for place in places])
    # A trainer that has no batch yet knows no files.
    files = {place.files for place in places if place.files is not None}
    if len(files) > 1:
        raise InvalidArgumentError("the trainers read different files: restore the files of one trainer on all machines, and begin the epoch again")
    quarantined = sorted({element for place in places for element in place.quarantined if element[0] >= split})
    joined = {
        **first,
        "step": max(state["step"] for state in states),
        # A trainer with fewer splits or batches ends the epoch before the others.
        "finished": all(state["finished"] for state in states),
        **Place(split, had, next(iter(files), None), tuple(quarantined)).to_state(),
        "trainers": trainers,
        "trainer": None,
    }
    return with_checksum(joined)


def _shared(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the state of all trainers, each of which has this state already."""
    if any(state != states[0] for state in states):
        steps = sorted({int(state["step"]) for state in states})
        raise InvalidArgumentError(f"expected the states of one step, which are equal, found different states of the steps {steps}: join states of one step")
    return dict(states[0])
