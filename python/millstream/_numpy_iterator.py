"""The iterator that ``Dataset.as_numpy_iterator`` returns: one pass, whose position can be saved and restored.

Owns the state of a position: the pass, and the number of elements that were handed over. Refuses to know how elements are computed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ._millstream import Elements
from ._statistics import recorded
from .errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["NumpyIterator"]


class NumpyIterator:
    """One pass over a dataset, as numpy arrays and scalars, ``str`` and ``bytes``.

    Args:
        dataset: The dataset.
        number: The number of the pass; by default the next pass of the dataset.
        task: The number that replaces missing seeds; by default the dataset's own number.

    Example:
        >>> iterator = ms.Dataset.range(3).as_numpy_iterator()
        >>> int(iterator.next()), [int(x) for x in iterator]
        (0, [1, 2])
    """

    def __init__(self, dataset: Dataset, number: int | None = None, task: int | None = None) -> None:
        self._dataset = dataset if dataset._output == "numpy" else dataset.with_output("numpy")
        self._opening = _Opening(self._dataset, number, task)
        self._elements = recorded(Elements.lazy(self._opening.open, self._dataset), self._dataset._options)

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return next(self._elements)

    def next(self) -> Any:
        """Returns the next element.

        Raises:
            StopIteration: There are no more elements.

        Example:
            >>> int(ms.Dataset.range(3).as_numpy_iterator().next())
            0
        """
        return next(self._elements)

    def save(self) -> bytes:
        """Returns the position, which ``restore`` of another iterator over the same dataset takes.

        Returns:
            The state, of constant size.

        Raises:
            FailedPreconditionError: The dataset is read from a service, which delivers each element once.

        Example:
            >>> numbers = ms.Dataset.range(4)
            >>> iterator = numbers.as_numpy_iterator()
            >>> _ = iterator.next(), iterator.next()
            >>> other = numbers.as_numpy_iterator()
            >>> other.restore(iterator.save())
            >>> [int(x) for x in other]
            [2, 3]
        """
        self._check_local("save")
        return json.dumps(
            {
                "dataset": str(self._dataset.fingerprint()),
                "pass": self._opening.number(),
                "task": self._opening.task(),
                "elements": self._elements.delivered,
            }
        ).encode()

    def restore(self, state: bytes) -> None:
        """Continues where another iterator over the same dataset was saved. Elements before that place are computed and left out.

        Args:
            state: The state that ``save`` returned.

        Raises:
            InvalidArgumentError: The state is of another dataset, or is no state.
            FailedPreconditionError: The dataset is read from a service, which delivers each element once.

        Example:
            >>> numbers = ms.Dataset.range(3)
            >>> iterator = numbers.as_numpy_iterator()
            >>> iterator.restore(numbers.as_numpy_iterator().save())
            >>> [int(x) for x in iterator]
            [0, 1, 2]
        """
        self._check_local("restore")
        try:
            said = json.loads(state)
            dataset, number, task, elements = said["dataset"], said["pass"], said["task"], said["elements"]
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidArgumentError(f"restore: expected a state that save returned, found {state!r:.200}") from error
        if dataset != str(self._dataset.fingerprint()):
            raise InvalidArgumentError("restore: expected a state of this dataset, found a state of another")
        self._elements.close()
        self._opening = _Opening(self._dataset, number, task)
        self._elements = recorded(Elements.lazy(self._opening.open, self._dataset), self._dataset._options)
        self._elements.skip(elements)

    def _check_local(self, what: str) -> None:
        if self._dataset._graph.reads_service:
            raise FailedPreconditionError(
                f"{what}: expected a dataset that is computed here, found a dataset that reads a service, and a service delivers each element once: "
                "use the state of ms.DataLoader"
            )

    def __getattr__(self, name: str) -> Any:
        # The other methods of iterators: get_next, stats, close and skip.
        return getattr(self._elements, name)


class _Opening:
    """The opening of a pass, which happens when its first element is requested. Apart from the iterator, so that no cycle holds either."""

    def __init__(self, dataset: Dataset, number: int | None = None, task: int | None = None) -> None:
        self._dataset, self._pass, self._task = dataset, number, task

    def open(self) -> Elements:
        """Opens the pass."""
        return self._dataset._pass(self.number(), self._task)

    def number(self) -> int:
        """Returns the number of the pass."""
        if self._pass is None:
            self._pass = next(self._dataset._passes)
        return self._pass

    def task(self) -> int:
        """Returns the number that stands for a seed where the dataset states none."""
        return self._dataset._task_id if self._task is None else self._task
