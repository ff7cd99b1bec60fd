"""Seeds ``random``, ``numpy.random`` and ``torch`` in code that computes samples, from a seed, an epoch and an element.

Refuses to know what samples are and where they are computed.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Generators", "base", "kept", "mix", "pass_of", "seed_all", "tell", "told"]

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15

#: The pass that an executor computes, and its number among the processes of its kind; nothing in other processes.
_told: tuple[int, int] | None = None


def mix(a: int, b: int) -> int:
    """Combines two numbers into one of 64 bits, as ``mix`` in ``pipeline/src/exec/random.rs`` does."""
    b = b * _GOLDEN & _MASK
    return _finalised(_finalised(a + _GOLDEN & _MASK) ^ (b << 32 & _MASK | b >> 32))


def _finalised(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return x ^ x >> 31


def pass_of(epoch: int) -> int:
    """Names an epoch as workers are told it: the first pass of that epoch."""
    return mix(epoch & _MASK, 0)


def base(seed: int, of_pass: int) -> int:
    """Returns the number of which those of a pass's elements are made, by ``mix``."""
    return mix(mix(1, int(seed) & _MASK), of_pass)


def tell(of_pass: int, index: int) -> None:
    """Says which pass this process computes from now on, and which of the processes of its kind it is."""
    global _told
    _told = (of_pass, index)


def told() -> tuple[int, int] | None:
    """Returns what was said last; ``None`` where nothing was, as in a trainer."""
    return _told


def seed_all(draw: int) -> None:
    """Seeds the generators of the process: those of Python and numpy, and torch's where it is imported."""
    random.seed(draw)
    np.random.seed(draw & 0xFFFF_FFFF)
    generator = _of_torch()
    if generator is not None:
        generator.manual_seed(draw & 0x7FFF_FFFF_FFFF_FFFF)


def _of_torch() -> Any:
    """The generator of torch, where the program has imported it."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _states() -> tuple[Any, Any, Any]:
    generator = _of_torch()
    return random.getstate(), np.random.get_state(legacy=False), None if generator is None else generator.get_state()


def _restore(states: tuple[Any, Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    if states[2] is not None:
        _of_torch().set_state(states[2])


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Leaves the generators of the program as they were before the block, whatever is seeded and drawn in it."""
    states = _states()
    try:
        yield
    finally:
        _restore(states)


class Generators:
    """The generators of one iterable, in a process whose own generators others use.

    Args:
        draw: Where they begin; ``None`` draws from the generators of the program.
    """

    def __init__(self, draw: int | None) -> None:
        self._draw = draw
        self._states: tuple[Any, Any, Any] | None = None

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Has the block draw from these generators, and leaves those of the program as they were."""
        if self._draw is None:
            yield
            return
        with kept():
            if self._states is None:
                seed_all(self._draw)
            else:
                _restore(self._states)
            try:
                yield
            finally:
                self._states = _states()
