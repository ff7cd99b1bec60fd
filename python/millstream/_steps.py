"""The batches of an epoch with the numbers of their steps, as they come or in the order of the steps.

Refuses to know what batches are made of, and who asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._millstream import Elements
from ._positions import Delivered

__all__ = ["OrderedSteps", "Steps"]

_NONE = object()


class Steps:
    """The batches of an epoch with the numbers of their steps."""

    def __init__(self, elements: Elements, number: Callable[[Any], tuple[int, Any]], code: object = None) -> None:
        #: For callers that end the pass, or ask what was measured.
        self.elements = elements
        self._number = number
        #: What is read as long as this is.
        self._code = code

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        return self._number(next(self.elements))

    def ready(self, otherwise: Any) -> Any:
        """The next one if it is at hand, else ``otherwise``; so is the end."""
        element = self.elements.ready(_NONE)
        return otherwise if element is _NONE else self._number(element)


class OrderedSteps(Steps):
    """The same in the order of steps, from workers of which some are ahead of others.

    Batches that come early are kept. More of them than ``window`` count as outstanding still, so workers that are ahead wait, however slow
    another one is. The step that is due never waits for them: the dispatcher deals each task later and later steps only, so the task that
    has it has none that is kept, and a task that has none always gets a credit. A step that the dispatcher reports as lost is left out.
    """

    def __init__(
        self,
        elements: Elements,
        number: Callable[[Any], tuple[int, Any]],
        steps: Iterator[int],
        window: int,
        first: int,
        code: object = None,
    ) -> None:
        super().__init__(elements, number, code)
        self._steps, self._window, self._first = steps, window, first
        #: How many splits are lost, and the steps that they were.
        self._lost_count, self._lost = 0, Delivered()
        self._due = next(steps, None)
        #: Batches by step, with what to say when one is used that counts as outstanding.
        self._early: dict[int, tuple[Any, int | None]] = {}
        self._is_over = False

    def __next__(self) -> tuple[int, Any]:
        while not self._is_due_here() and not self._is_over:
            try:
                element = self.elements.next_unless_lost(self._lost_count, _NONE)
            except StopIteration:
                self._is_over = True
                continue
            if element is _NONE:
                self._note_lost()
            else:
                self._keep(*self._number(element))
        return self._handed()

    def _note_lost(self) -> None:
        """Looks up which steps are lost. Each step is a split of the only source, which begins with the first step."""
        lost = self.elements.lost()
        self._lost_count = sum(count for *_, count in lost)
        starts = [(self._first + index, count) for _, _, index, count in lost]
        self._lost = Delivered(sorted([start, start + count] for start, count in starts))
        self._skip_lost()

    def _skip_lost(self) -> None:
        while self._due in self._lost and self._due not in self._early:
            self._due = next(self._steps, None)

    def ready(self, otherwise: Any) -> Any:
        """The next one if it is at hand, else ``otherwise``; so is the end."""
        while not self._is_due_here():
            found = super().ready(_NONE)
            if found is _NONE:
                return otherwise
            self._keep(*found)
        return otherwise if self._due is None else self._handed()

    def _is_due_here(self) -> bool:
        return self._due is None or self._due in self._early

    def _keep(self, step: int, batch: Any) -> None:
        is_kept = step != self._due and len(self._early) >= self._window
        self._early[step] = (batch, self.elements.keep() if is_kept else None)

    def _handed(self) -> tuple[int, Any]:
        if not self._is_due_here():
            # What is missing was lost with its worker.
            self._due = min(self._early, default=None)
        if self._due is None:
            raise StopIteration
        step, (batch, kept) = self._due, self._early.pop(self._due)
        if kept is not None:
            self.elements.let_go(kept)
        self._due = next(self._steps, None)
        self._skip_lost()
        return step, batch
