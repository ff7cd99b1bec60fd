"""Seeds the generators of ``random``, ``numpy.random`` and ``torch`` from a seed, an epoch and an element.

The module does not depend on the kind of samples, or on the process that computes the samples.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Generators", "base", "kept", "mix", "of_program", "pass_of", "seed_all", "tell", "told"]

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15

#: The pass that this executor computes, and the executor's number. ``None`` in other processes.
_told: tuple[int, int] | None = None


def mix(a: int, b: int) -> int:
    """Combines two numbers into a 64-bit number, by the same function as ``mix`` in ``pipeline/src/exec/random.rs``."""
    b = b * _GOLDEN & _MASK
    return _finalised(_finalised(a + _GOLDEN & _MASK) ^ (b << 32 & _MASK | b >> 32))


def _finalised(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return x ^ x >> 31


def pass_of(epoch: int) -> int:
    """Returns the identifier of the first pass of an epoch, which workers receive."""
    return mix(epoch & _MASK, 0)


def base(seed: int, of_pass: int) -> int:
    """Returns the base number of a pass. ``mix`` derives the seeds of the elements from this number."""
    return mix(mix(1, int(seed) & _MASK), of_pass)


def tell(of_pass: int, index: int) -> None:
    """Sets the pass that this process computes from now on, and the number of this process."""
    global _told
    _told = (of_pass, index)


def told() -> tuple[int, int] | None:
    """Returns the pass and the number of the last call of ``tell``; ``None`` without a call, for example in a trainer."""
    return _told


def of_program() -> int | None:
    """Returns a seed that torch's default generator draws, as in a loader of torch; ``None`` if the program has not imported torch."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.empty((), dtype=torch.int64).random_().item())


def seed_all(draw: int) -> None:
    """Seeds the generators of Python and numpy, and the generator of torch if torch is imported."""
    random.seed(draw)
    np.random.seed(draw & 0xFFFF_FFFF)
    generator = _of_torch()
    if generator is not None:
        generator.manual_seed(draw & 0x7FFF_FFFF_FFFF_FFFF)


def _of_torch() -> Any:
    """Returns torch's generator, or ``None`` if the program has not imported torch."""
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
    """Restores the states of the program's generators after the block."""
    states = _states()
    try:
        yield
    finally:
        _restore(states)


class Generators:
    """Separate generator states for one iterable, in a process whose generators other code uses.

    Args:
        draw: The seed of the generators; ``None`` uses the generators of the program.
    """

    def __init__(self, draw: int | None) -> None:
        self._draw = draw
        self._states: tuple[Any, Any, Any] | None = None

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Runs the block with these generators, and restores the program's generators after the block."""
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
