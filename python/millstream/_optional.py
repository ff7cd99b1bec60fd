"""A value that may be missing: what an iterator gives where its end is no exception."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from .errors import InvalidArgumentError

__all__ = ["Optional"]

T = TypeVar("T")

_NOTHING: Any = object()


class Optional(Generic[T]):
    """A value, or none: as ``tf.experimental.Optional``."""

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
        """Makes an ``Optional`` without a value.

        Args:
            element_spec: Accepted as in tf.data; has no effect.

        Returns:
            The empty ``Optional``.
        """
        return Optional()

    def has_value(self) -> bool:
        """Returns whether there is a value."""
        return self._value is not _NOTHING

    def get_value(self) -> T:
        """Returns the value.

        Raises:
            InvalidArgumentError: There is no value.
        """
        if self._value is _NOTHING:
            raise InvalidArgumentError("the Optional has no value: ask has_value() first")
        return self._value

    def __repr__(self) -> str:
        return f"<millstream.Optional {self._value!r}>" if self.has_value() else "<millstream.Optional without a value>"
