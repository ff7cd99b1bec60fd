"""Names of TensorFlow that Millstream refuses: each raises an error that states the reason when a program uses it.

Owns the mark by which documentation and tests recognise a refused name. Refuses to know which names are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import UnimplementedError

__all__ = ["REFUSAL", "reason_of", "refusal", "refuses"]

#: The attribute of a refused name that holds the reason.
REFUSAL = "__refusal__"

Named = TypeVar("Named")


def refusal(name: str, reason: str) -> UnimplementedError:
    """Returns the error of a refused name.

    Args:
        name: The name as a program writes it, for example ``tf.Variable``.
        reason: The reason, and what to use instead.
    """
    return UnimplementedError(f"{name} is refused: {reason}")


def refuses(name: str, reason: str) -> Callable[[Named], Named]:
    """Returns a decorator that makes a function or a class raise the error of a refused name when it is called.

    The signature and the docstring stay, so that documentation shows them.

    Args:
        name: The name as a program writes it.
        reason: The reason, and what to use instead.
    """

    def made(named: Any) -> Any:
        if isinstance(named, type):
            named.__init__ = _raising(named.__init__, name, reason)  # type: ignore[misc]
            setattr(named, REFUSAL, reason)
            return named
        raising = _raising(named, name, reason)
        setattr(raising, REFUSAL, reason)
        return raising

    return made


def _raising(function: Callable[..., Any], name: str, reason: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def raising(*_: Any, **__: Any) -> Any:
        raise refusal(name, reason)

    return raising


def reason_of(named: Any) -> str | None:
    """Returns the reason for which a name is refused; ``None`` for a name that works."""
    inner = named.__dict__ if isinstance(named, type) else getattr(named, "__dict__", {})
    reason: str | None = inner.get(REFUSAL)
    return reason
