"""Which steps of an epoch were delivered: a few ranges, since steps come nearly in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

__all__ = ["RANGES_MAX", "Delivered"]

#: Ranges that are remembered beyond the first. Workers deal in consecutive steps, so there is about one for each.
RANGES_MAX = 24


class Delivered:
    """A set of steps, as ranges without overlap in ascending order."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, ranges: list[list[int]] | None = None) -> None:
        self._starts = [start for start, _ in ranges or []]
        self._stops = [stop for _, stop in ranges or []]

    def add(self, step: int) -> None:
        """One more step. Nothing if it is in the set."""
        starts, stops = self._starts, self._stops
        # The range that begins last before or at the step.
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
        """The steps that were delivered without a gap from 0 on."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    def missing(self, steps: int) -> Iterator[int]:
        """The steps below ``steps`` that neither come before ``first`` nor are in ``ahead``, ascending."""
        at = self.first
        for start, stop in [*self.ahead, [steps, steps]]:
            yield from range(at, min(start, steps))
            at = stop

    def gaps(self, steps: int) -> Iterator[int]:
        """All steps below ``steps`` that are not in the set, ascending."""
        at = 0
        for start, stop in zip([*self._starts, steps], [*self._stops, steps], strict=True):
            yield from range(at, min(start, steps))
            at = stop

    @property
    def ahead(self) -> list[list[int]]:
        """The ranges behind those; at most ``RANGES_MAX``, so that what is left out would be delivered again."""
        skip = 1 if self.first else 0
        pairs = zip(self._starts[skip:], self._stops[skip:], strict=True)
        return [[start, stop] for start, stop in pairs][:RANGES_MAX]
