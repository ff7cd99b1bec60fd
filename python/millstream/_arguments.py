"""Numbers and paths as callers give them, checked before the extension takes them. Refuses to know what they are for."""

from __future__ import annotations

import operator
import os
from typing import Any

from .errors import InvalidArgumentError

__all__ = ["path_of", "seed_of", "whole"]

_WORD = (1 << 64) - 1


def whole(value: Any, name: str) -> int:
    """A number of things.

    Raises:
        TypeError: It is no whole number.
        InvalidArgumentError: It is negative.
    """
    number = operator.index(value)
    if number < 0:
        raise InvalidArgumentError(f"{name}={number}: must not be negative")
    return number


def seed_of(seed: Any) -> int | None:
    """A seed, which may be any number: of it count 64 bits."""
    return None if seed is None else operator.index(seed) & _WORD


def path_of(path: str | os.PathLike[str]) -> str:
    """A path, or the URL of an object, as text."""
    return os.fspath(path)
