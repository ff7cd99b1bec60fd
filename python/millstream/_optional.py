"""A value that may be absent: the result of an iterator that reports its end without an exception."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ._spec import dressed
from .errors import InvalidArgumentError

__all__ = ["Optional"]

T = TypeVar("T")

_NOTHING: Any = object()


class Optional(Generic[T]):
    """A container of one value or no value, like ``tf.experimental.Optional``.

    Example:
        >>> iterator = iter(ms.Dataset.range(1))
        >>> first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()
        >>> int(first.get_value()), second.has_value()
        (0, False)
    """

    __slots__ = ("_spec", "_value")

    def __init__(self, value: T = _NOTHING, element_spec: Any = None) -> None:
        self._value, self._spec = value, element_spec

    @staticmethod
    def from_value(value: T) -> Optional[T]:
        """Wraps a value.

        Args:
            value: The value.

        Returns:
            An ``Optional`` with the value.

        Example:
            >>> ms.Optional.from_value(3).get_value()
            3
        """
        return Optional(value)

    @staticmethod
    def empty(element_spec: Any = None) -> Optional[Any]:
        """Creates an ``Optional`` without a value.

        Args:
            element_spec: The specs of the value that could be there.

        Returns:
            The empty ``Optional``.

        Example:
            >>> ms.Optional.empty(ms.TensorSpec((), ms.int64)).has_value()
            False
        """
        return Optional(element_spec=element_spec)

    @property
    def element_spec(self) -> Any:
        """The specs of the value, nested as the value.

        Example:
            >>> ms.Optional.from_value(np.int64(3)).element_spec
            TensorSpec(shape=(), dtype=ms.int64, name=None)
        """
        if self._value is _NOTHING:
            return self._spec
        from ._worker import described

        return dressed(described(self._value))

    def has_value(self, name: str | None = None) -> bool:
        """Returns whether the ``Optional`` has a value.

        Args:
            name: Accepted as in tf.data; has no effect.

        Example:
            >>> ms.Optional.from_value(3).has_value()
            True
        """
        return self._value is not _NOTHING

    def get_value(self, name: str | None = None) -> T:
        """Returns the value.

        Args:
            name: Accepted as in tf.data; has no effect.

        Raises:
            InvalidArgumentError: The ``Optional`` has no value.

        Example:
            >>> ms.Optional.from_value(3).get_value()
            3
        """
        if self._value is _NOTHING:
            raise InvalidArgumentError("the Optional has no value: call has_value() first")
        return self._value

    def __repr__(self) -> str:
        return f"<millstream.Optional {self._value!r}>" if self.has_value() else "<millstream.Optional without a value>"
