"""A value that may be missing. ``get_next_as_optional`` returns an empty ``Optional`` at the end, instead of an exception."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from .errors import InvalidArgumentError

__all__ = ["Optional"]

T = TypeVar("T")

_NOTHING: Any = object()


class Optional(Generic[T]):
    """A container of one value or no value, like ``tf.experimental.Optional``."""

    __slots__ = ("_value",)

    def __init__(self, value: T = _NOTHING) -> None:
        self._value = value

    @staticmethod
    def from_value(value: T) -> Optional[T]:
        """Wraps a value.

        Args:
            value: The value.

        Returns:
            An ``Optional`` with the value.
        """
        return Optional(value)

    @staticmethod
    def empty(element_spec: Any = None) -> Optional[Any]:
        """Creates an ``Optional`` without a value.

        Args:
            element_spec: Accepted as in tf.data; has no effect.

        Returns:
            The empty ``Optional``.
        """
        return Optional()

    def has_value(self) -> bool:
        """Returns whether the ``Optional`` has a value."""
        return self._value is not _NOTHING

    def get_value(self) -> T:
        """Returns the value.

        Raises:
            InvalidArgumentError: The ``Optional`` has no value.
        """
        if self._value is _NOTHING:
            raise InvalidArgumentError("the Optional has no value: call has_value() first")
        return self._value

    def __repr__(self) -> str:
        return f"<millstream.Optional {self._value!r}>" if self.has_value() else "<millstream.Optional without a value>"
