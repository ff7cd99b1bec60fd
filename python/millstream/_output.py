"""What elements become: numpy arrays, or the tensors of a framework over the same memory."""

from __future__ import annotations

import inspect
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


class _Torch:
    """Makes a torch tensor of a capsule.

    ``exchange`` has torch's C functions, if it has any; the extension prefers those. Vectors of text are lists, as torch's own collation
    leaves them.
    """

    lists_text = True

    def __init__(self) -> None:
        import torch

        # The public function takes a capsule too, but asks it more than is needed.
        self.take: Callable[[Any], Any] = getattr(torch._C, "_from_dlpack", torch.from_dlpack)
        self.exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        # Those that make no capsules with a version take none.
        self.is_versioned = "max_version" in inspect.signature(torch.Tensor.__dlpack__).parameters

    def __call__(self, capsule: Any) -> Any:
        return self.take(capsule)


class _Jax:
    """Makes an array of JAX of a capsule, which must be one of before DLPack had versions."""

    is_versioned = False

    def __init__(self) -> None:
        import jax.dlpack

        self.take: Callable[[Any], Any] = jax.dlpack.from_dlpack

    def __call__(self, capsule: Any) -> Any:
        return self.take(_Exported(capsule))


def taker(output: str) -> Callable[[Any], Any] | None:
    """What makes a tensor of a capsule; ``None`` for numpy, whose arrays need none.

    Raises:
        ValueError: There is no such output.
        ImportError: The framework is not installed.
    """
    if output == "numpy":
        return None
    if output == "torch":
        return _Torch()
    if output == "jax":
        return _Jax()
    raise ValueError(f"output {output!r}: use one of {', '.join(OUTPUTS)}")
