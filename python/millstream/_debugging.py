"""Debug mode: datasets that are computed in this process run one element at a time, and functions of ``map`` run as Python.

Owns the mode of this process. Refuses to know what datasets do.
"""

from __future__ import annotations

__all__ = ["enable", "is_enabled"]

_is_enabled = False


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
