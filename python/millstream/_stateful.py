"""One pass over an iterable that is computed in this process, with the states that the iterable keeps of itself.

Refuses to know who delivers batches, and where the rest of a position is kept.
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

#: States that are remembered: more than batches are made ahead and looked back for.
_STATES_MAX = 256

_NONE = object()


def _has_state(source: Any) -> bool:
    """Returns whether it speaks the protocol of torchdata's ``StatefulDataLoader``.

    Datasets of Hugging Face do, but their states leave out what their shuffles hold: the position that is counted here is exact.
    """
    is_hugging_face = type(source).__module__.partition(".")[0] == "datasets"
    named = all(callable(getattr(source, name, None)) for name in ("state_dict", "load_state_dict"))
    return named and not is_hugging_face and not isinstance(source, type)


class IterablePass:
    """The batches of one pass. The first may be looked at before the pass begins: it is handed over then all the same.

    Args:
        make: Makes the iterable.
        state: Where the iterable goes on, as ``state_after`` said.
        first: The number of the first batch.
        draw: Where its generators begin; ``None`` draws from those of the program. A pass that goes on has others.
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
                raise InvalidArgumentError(f"the state is of an iterator that keeps one, and {self._samples!r} keeps none")
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
        """Returns the first batch, which is handed over later.

        Raises:
            StopIteration: There is none.
        """
        self._looked_at = next(self)
        return self._looked_at

    def state_after(self, step: int) -> dict[str, Any] | None:
        """Returns where the iterable stood after so many batches; ``None`` if it keeps no state, or no longer that one."""
        return copy.deepcopy(self._states.get(step))

    def _state(self) -> dict[str, Any] | None:
        if self._samples is not self._made and _has_state(self._samples):
            return {"iterator": copy.deepcopy(self._samples.state_dict())}
        if _has_state(self._made):
            return {"dataset": copy.deepcopy(self._made.state_dict())}
        return None


def probed(first_pass: IterablePass, is_batched: bool) -> tuple[Any, ...]:
    """Returns the spec of the batches of a pass, of which it looks at the first.

    Raises:
        InvalidArgumentError: There is none.
    """
    try:
        first = first_pass.look()
    except StopIteration:
        raise InvalidArgumentError(
            "it yields nothing, which does not show what its elements are: give element_spec"
        ) from None
    return varying(described(first), is_batched)
