"""Checks of the numbers and paths that callers pass, before the extension receives them."""

from __future__ import annotations

import operator
import os
from typing import Any

from .errors import InvalidArgumentError

__all__ = ["count_of", "path_of", "seed_of", "whole"]

_WORD = (1 << 64) - 1


def whole(value: Any, name: str) -> int:
    """Returns an argument as a whole number that is not negative.

    Raises:
        TypeError: The argument is not a whole number.
        InvalidArgumentError: The argument is negative, or ``None``.
    """
    number = count_of(value, name)
    if number < 0:
        raise InvalidArgumentError(f"{name}={number}: must not be negative")
    return number


def count_of(value: Any, name: str) -> int:
    """Returns an argument as a whole number, which may be negative.

    Raises:
        TypeError: The argument is not a whole number.
        InvalidArgumentError: The argument is ``None``.
    """
    if value is None:
        raise InvalidArgumentError(f"{name}: expected a whole number, found None")
    return operator.index(value)


def seed_of(seed: Any) -> int | None:
    """Returns the lowest 64 bits of a seed, which may be any whole number."""
    return None if seed is None else operator.index(seed) & _WORD


def path_of(path: str | os.PathLike[str]) -> str:
    """Returns a path, or the URL of an object, as text."""
    return os.fspath(path)
