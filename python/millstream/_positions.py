"""The delivered steps of an epoch, as a few ranges, because steps arrive nearly in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

__all__ = ["RANGES_MAX", "Delivered", "moved"]

#: The maximum number of ranges after the first gap that a state contains. Each worker reads consecutive steps, so one worker needs about one range.
RANGES_MAX = 24


class Delivered:
    """A set of steps, stored as disjoint ranges in ascending order."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, ranges: list[list[int]] | None = None) -> None:
        self._starts = [start for start, _ in ranges or []]
        self._stops = [stop for _, stop in ranges or []]

    def add(self, step: int) -> None:
        """Adds a step. Does nothing if the set already contains the step."""
        starts, stops = self._starts, self._stops
        # The last range that begins at or before the step.
        at = bisect_right(starts, step) - 1
        if at >= 0 and step < stops[at]:
            return
        extends = at >= 0 and stops[at] == step
        meets = at + 1 < len(starts) and starts[at + 1] == step + 1
        if extends and meets:
            stops[at] = stops.pop(at + 1)
            starts.pop(at + 1)
        elif extends:
            stops[at] += 1
        elif meets:
            starts[at + 1] = step
        else:
            starts.insert(at + 1, step)
            stops.insert(at + 1, step + 1)

    def __contains__(self, step: int | None) -> bool:
        at = -1 if step is None else bisect_right(self._starts, step) - 1
        return at >= 0 and step is not None and step < self._stops[at]

    def __len__(self) -> int:
        return sum(self._stops) - sum(self._starts)

    @property
    def first(self) -> int:
        """The number of steps from 0 on that were delivered without a gap."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    def missing(self, steps: int) -> Iterator[int]:
        """Yields the steps from ``first`` up to ``steps`` that are not in ``ahead``, in ascending order."""
        at = self.first
        for start, stop in [*self.ahead, [steps, steps]]:
            yield from range(at, min(start, steps))
            at = stop

    def gaps(self, steps: int) -> Iterator[int]:
        """Yields all steps below ``steps`` that are not in the set, in ascending order."""
        at = 0
        for start, stop in zip([*self._starts, steps], [*self._stops, steps], strict=True):
            yield from range(at, min(start, steps))
            at = stop

    @property
    def ahead(self) -> list[list[int]]:
        """The ranges of delivered steps after the first gap, at most ``RANGES_MAX``. Steps in further ranges would be delivered again."""
        skip = 1 if self.first else 0
        pairs = zip(self._starts[skip:], self._stops[skip:], strict=True)
        return [[start, stop] for start, stop in pairs][:RANGES_MAX]


def moved(steps: Callable[[int], int], epoch: int, step: int) -> tuple[int, int]:
    """Returns the epoch and the step of a step that is counted from the start of an epoch, before the epoch or after its end.

    ``steps`` returns the number of steps of an epoch. All epochs before this one have the same number, and so have all epochs after it.
    """
    if step < 0:
        earlier, step = divmod(step, max(1, steps(epoch - 1)))
        return epoch + earlier, step
    if step < (present := steps(epoch)):
        return epoch, step
    later, step = divmod(step - present, max(1, steps(epoch + 1)))
    return epoch + 1 + later, step
