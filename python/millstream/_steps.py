"""The batches of an epoch with the numbers of their steps, in the order of arrival or in the order of the steps.

The module does not depend on the contents of batches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from ._millstream import Elements
from ._positions import Delivered
from .errors import InvalidArgumentError

__all__ = ["OrderedSteps", "Steps", "checked_skip"]

_NONE = object()

#: The maximum number of batches that one call of ``skip`` leaves out.
_SKIP_MAX = 4096


def checked_skip(batches: int) -> int:
    """Returns the number of batches to skip.

    Raises:
        InvalidArgumentError: The number is negative or too large.
    """
    count = operator.index(batches)
    if not 0 <= count <= _SKIP_MAX:
        raise InvalidArgumentError(f"batches={count}: expected a number of batches from 0 to {_SKIP_MAX}, which one call skips")
    return count


class Steps:
    """The batches of an epoch with the numbers of their steps, in the order of arrival."""

    def __init__(self, elements: Elements, number: Callable[[Any], tuple[int, Any]], code: object = None) -> None:
        #: The elements of the pass, by which callers close the pass and read its measurements.
        self.elements = elements
        self._number = number
        #: The code, which must exist as long as the pass is read.
        self._code = code

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        return self._number(next(self.elements))

    def ready(self, otherwise: Any) -> Any:
        """Returns the next batch if it is available. Returns ``otherwise`` if no batch is available, or at the end."""
        element = self.elements.ready(_NONE)
        return otherwise if element is _NONE else self._number(element)


class OrderedSteps(Steps):
    """The batches of an epoch in the order of their steps, from workers of different speeds.

    The class keeps early batches. Early batches beyond ``window`` still count as outstanding, so faster workers wait for a slow worker. The due
    step always arrives, because the dispatcher leases steps to each task in ascending order. The task with the due step therefore has no kept
    batch, and a task without kept batches always has a credit. Steps that the dispatcher reports as lost are skipped.
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
        #: The number of lost splits, and the steps of these splits.
        self._lost_count, self._lost = 0, Delivered()
        self._due = next(steps, None)
        #: The early batches by step. A batch that counts as outstanding has the id by which `let_go` releases it.
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
        """Updates the lost steps. Each step is one split of the only source, and split 0 is the first step."""
        lost = self.elements.lost()
        self._lost_count = sum(count for *_, count in lost)
        starts = [(self._first + index, count) for _, _, index, count in lost]
        self._lost = Delivered(sorted([start, start + count] for start, count in starts))
        self._skip_lost()

    def _skip_lost(self) -> None:
        while self._due in self._lost and self._due not in self._early:
            self._due = next(self._steps, None)

    def ready(self, otherwise: Any) -> Any:
        """Returns the next batch if it is available. Returns ``otherwise`` if no batch is available, or at the end."""
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
        self.elements.note_buffered(len(self._early))

    def _handed(self) -> tuple[int, Any]:
        if not self._is_due_here():
            # The pass is over, so all missing steps were lost with their workers.
            self._due = min(self._early, default=None)
        if self._due is None:
            raise StopIteration
        self.elements.note_buffered(len(self._early) - 1)
        step, (batch, kept) = self._due, self._early.pop(self._due)
        if kept is not None:
            self.elements.let_go(kept)
        self._due = next(self._steps, None)
        self._skip_lost()
        return step, batch
