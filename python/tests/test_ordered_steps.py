"""Tests of the steps of a map-style dataset, which workers send in any order."""

from collections.abc import Iterator
from typing import Any

from millstream._steps import OrderedSteps


class Arriving:
    """Elements in the order of their arrival, and the numbers of buffered elements that were noted."""

    def __init__(self, steps: list[int]) -> None:
        self._steps: Iterator[int] = iter(steps)
        self.noted: list[int] = []

    def next_unless_lost(self, known: int, otherwise: Any) -> int:
        return next(self._steps)

    def keep(self) -> None:
        return None

    def note_buffered(self, elements: int) -> None:
        self.noted.append(elements)


def test_early_steps_are_noted_as_buffered() -> None:
    """The service otherwise takes a trainer that works through early steps for a paused one."""
    elements = Arriving([1, 2, 0, 3])
    steps: Any = OrderedSteps(elements, lambda step: (step, f"batch {step}"), iter(range(4)), window=8, first=0)  # type: ignore[arg-type]
    assert next(steps) == (0, "batch 0")
    assert elements.noted == [1, 2, 3, 2], "two steps wait for step 0, and stay after it"
    assert [next(steps) for _ in range(2)] == [(1, "batch 1"), (2, "batch 2")]
    assert elements.noted[-1] == 0
    assert next(steps) == (3, "batch 3")
