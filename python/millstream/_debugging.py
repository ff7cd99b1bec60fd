"""Debug mode: datasets that are computed in this process run one element at a time, and functions of ``map`` run as Python.

Owns the mode of this process. Refuses to know datasets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._code import Held

__all__ = ["code_of", "enable", "is_enabled"]

_is_enabled = False
#: The functions of datasets that were made in debug mode, until the end of the process.
_held: list[Held] = []


def enable(on: bool = True) -> None:
    """Turns the mode on, for datasets that are made afterwards.

    Args:
        on: Whether the mode is turned on, or off.
    """
    global _is_enabled
    _is_enabled = on


def is_enabled() -> bool:
    """Returns whether the mode is on."""
    return _is_enabled


def code_of(function: Callable[..., Any]) -> bytes:
    """Returns the code of a function that this process runs as it is, so that breakpoints and closures act. Workers cannot run the code.

    Args:
        function: The function.
    """
    _held.append(Held(function))
    return _held[-1].code
