"""What elements become: numpy arrays, or the tensors of a framework over the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["OUTPUTS", "taker"]

OUTPUTS = ("numpy", "torch", "jax")


class _Exported:
    """A capsule of DLPack with the methods by which libraries ask for it."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def taker(output: str) -> Callable[[Any], Any] | None:
    """What makes a tensor of a capsule; ``None`` for numpy, whose arrays need none.

    Raises:
        ValueError: There is no such output.
        ImportError: The framework is not installed.
    """
    if output == "numpy":
        return None
    if output == "torch":
        import torch

        # The public function takes a capsule too, but asks it more than is needed.
        take: Callable[[Any], Any] = getattr(torch._C, "_from_dlpack", torch.from_dlpack)
        return take
    if output == "jax":
        import jax.dlpack

        return lambda capsule: jax.dlpack.from_dlpack(_Exported(capsule))
    raise ValueError(f"output {output!r}: use one of {', '.join(OUTPUTS)}")
