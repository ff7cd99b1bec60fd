"""The conversion of elements to numpy arrays, or to tensors of a framework that view the same memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["OUTPUTS", "taker"]

OUTPUTS = ("numpy", "torch", "jax")


class _Exported:
    """A DLPack capsule with the methods of the DLPack protocol."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Torch:
    """The function that converts a DLPack capsule to a torch tensor.

    ``exchange`` contains torch's C functions if torch has these functions, and the extension prefers them. Vectors of text are lists, like the
    results of torch's own collate function.
    """

    lists_text = True

    def __init__(self) -> None:
        import torch

        # The public function also accepts a capsule, but makes more calls than necessary.
        self.take: Callable[[Any], Any] = getattr(torch._C, "_from_dlpack", torch.from_dlpack)
        self.exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        # A torch without `max_version` creates and accepts only capsules without a version.
        self.is_versioned = "max_version" in inspect.signature(torch.Tensor.__dlpack__).parameters

    def __call__(self, capsule: Any) -> Any:
        return self.take(capsule)


class _Jax:
    """The function that converts a DLPack capsule to a JAX array on JAX's default device. The capsule must not have a version.

    JAX commits an array from a capsule to the processor. A jitted step with such an array would run on the processor, although the model is on a
    GPU. The array is therefore copied to another default device. JAX may move the copy, so it fits sharded parameters.
    """

    is_versioned = False

    def __init__(self) -> None:
        import jax.dlpack

        self._jax = jax
        self._take: Callable[[Any], Any] = jax.dlpack.from_dlpack

    def __call__(self, capsule: Any) -> Any:
        return self._placed(self._take(_Exported(capsule)))

    def _placed(self, array: Any) -> Any:
        # A program may set the device in a context of its thread.
        device = self._jax.config.jax_default_device
        if device is None or isinstance(device, str):
            device = self._jax.local_devices(backend=device)[0]
        return array if device in array.devices() else self._jax.device_put(np.asarray(array))


def taker(output: str) -> Callable[[Any], Any] | None:
    """Returns the function that converts a capsule to a tensor; ``None`` for numpy, whose arrays need no capsule.

    Raises:
        ValueError: The output is unknown.
        ImportError: The framework is not installed.
    """
    if output == "numpy":
        return None
    if output == "torch":
        return _Torch()
    if output == "jax":
        return _Jax()
    raise ValueError(f"output {output!r}: use one of {', '.join(OUTPUTS)}")
