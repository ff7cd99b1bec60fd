"""The iterator over a mixture, and the object that stands for its dataset and its sampler. Both forward to the mixture."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .errors import FailedPreconditionError

if TYPE_CHECKING:
    from ._mixture import Mixture

__all__ = ["MixtureIterator", "MixtureStub"]


class MixtureIterator:
    """An iterator over the batches of a mixture. The epoch begins when the first batch is requested."""

    def __init__(self, mixture: Mixture) -> None:
        self._mixture = mixture
        self._turn: int | None = None
        #: Whether the program has received the end of the epoch.
        self._has_stopped = False

    def __iter__(self) -> MixtureIterator:
        return self

    def __len__(self) -> int:
        return len(self._mixture)

    def __next__(self) -> Any:
        mixture = self._mixture
        if self._turn is None:
            self._turn = mixture._begun()
            mixture._running = weakref.ref(self)
        if self._turn != mixture._turn:
            raise FailedPreconditionError("a later iterator, set_epoch, load_state_dict or close has ended this iterator: use one at a time")
        try:
            name, batch = mixture._delivered()
        except StopIteration:
            self._has_stopped = True
            raise
        return (name, batch) if mixture.with_names else batch

    def is_reading(self) -> bool:
        """Returns whether the program may request the next batch from the iterator. Its epoch may have ended already."""
        return self._turn == self._mixture._turn and not self._has_stopped

    def close(self) -> None:
        """Ends the iteration. A thread that waits for a batch receives ``CancelledError``."""
        if self._turn == self._mixture._turn:
            self._mixture._close_readings()
            # A loader whose iterator was closed within an epoch would begin its next epoch.
            self._mixture._turn += 1


class MixtureStub:
    """The object that stands for the dataset and the sampler of a mixture, with the methods that libraries call."""

    def __init__(self, mixture: Mixture) -> None:
        self._mixture = mixture

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the mixture; see ``Mixture.set_epoch``."""
        self._mixture.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the mixture; see ``Mixture.state_dict``."""
        return self._mixture.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the position of the mixture; see ``Mixture.load_state_dict``."""
        self._mixture.load_state_dict(state_dict)
