"""One pass over an iterable in this process, with the iterable's own states after each batch.

The loader delivers the batches, and keeps the rest of a position.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Iterator
from typing import Any

from . import _draws
from ._distribute import Iterate, varying
from ._worker import described
from .errors import InvalidArgumentError

__all__ = ["IterablePass", "probed"]

#: The maximum number of stored states, which exceeds the number of prefetched batches and the largest useful ``behind``.
_STATES_MAX = 256

_NONE = object()


def _has_state(source: Any) -> bool:
    """Returns whether an object implements the protocol of torchdata's ``StatefulDataLoader``.

    The result is false for Hugging Face datasets. The state of such a dataset lacks the elements of its shuffle buffers. A loader therefore resumes
    such a dataset by the number of batches, which is exact.
    """
    is_hugging_face = type(source).__module__.partition(".")[0] == "datasets"
    named = all(callable(getattr(source, name, None)) for name in ("state_dict", "load_state_dict"))
    return named and not is_hugging_face and not isinstance(source, type)


class IterablePass:
    """The batches of one pass. ``look`` returns the first batch before the pass begins; the pass still yields this batch.

    Args:
        make: The function that creates the iterable.
        state: The state of the iterable to resume from, as returned by ``state_after``.
        first: The number of the first batch.
        draw: The seed of the generators; ``None`` uses the program's generators. A resumed pass derives another seed from ``first``.
    """

    def __init__(
        self, make: Iterate, state: dict[str, Any] | None = None, first: int = 0, draw: int | None = None
    ) -> None:
        self.epoch = make.epoch
        self._generators = _draws.Generators(draw if draw is None or first == 0 else _draws.mix(draw, first))
        with self._generators.used():
            self._begin(make, state)
        self._looked_at: Any = _NONE
        self._made_count = first
        self._states: collections.OrderedDict[int, dict[str, Any]] = collections.OrderedDict()

    def _begin(self, make: Iterate, state: dict[str, Any] | None) -> None:
        self._made = make.made()
        if state is not None and "dataset" in state:
            self._made.load_state_dict(copy.deepcopy(state["dataset"]))
        self._samples = iter(self._made)
        if state is not None and "iterator" in state:
            if not _has_state(self._samples):
                raise InvalidArgumentError(f"expected an iterator with state_dict and load_state_dict for this state, found {self._samples!r}")
            self._samples.load_state_dict(copy.deepcopy(state["iterator"]))
        self._batches = make.batches(self._samples)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._looked_at is not _NONE:
            found, self._looked_at = self._looked_at, _NONE
            return found
        with self._generators.used():
            batch = next(self._batches)
        self._made_count += 1
        state = self._state()
        if state is not None:
            self._states[self._made_count] = state
            if len(self._states) > _STATES_MAX:
                self._states.popitem(last=False)
        return batch

    def look(self) -> Any:
        """Returns the first batch, which the iterator still yields later.

        Raises:
            StopIteration: The pass has no batch.
        """
        self._looked_at = next(self)
        return self._looked_at

    def state_after(self, step: int) -> dict[str, Any] | None:
        """Returns the state of the iterable after ``step`` batches; ``None`` if the iterable has no state, or the state was dropped."""
        return copy.deepcopy(self._states.get(step))

    def _state(self) -> dict[str, Any] | None:
        if self._samples is not self._made and _has_state(self._samples):
            return {"iterator": copy.deepcopy(self._samples.state_dict())}
        if _has_state(self._made):
            return {"dataset": copy.deepcopy(self._made.state_dict())}
        return None


def probed(first_pass: IterablePass, is_batched: bool) -> tuple[Any, ...]:
    """Returns the spec of the batches of a pass, from the first batch.

    Raises:
        InvalidArgumentError: The pass has no batch.
    """
    try:
        first = first_pass.look()
    except StopIteration:
        raise InvalidArgumentError(
            "the iterable yields nothing, so the spec of its elements is unknown: pass element_spec"
        ) from None
    return varying(described(first), is_batched)
