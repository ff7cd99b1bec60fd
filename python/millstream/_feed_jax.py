"""Copies arrays to a device or a sharding of JAX. JAX itself copies in the background, and keeps the source of each copy."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from .errors import InvalidArgumentError

__all__ = ["JaxLane", "is_jax_device"]


def is_jax_device(device: Any) -> bool:
    """Returns whether a value is a device or a sharding of JAX. A program that has such a value has imported JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(device, jax.Device | jax.sharding.Sharding)


class JaxLane:
    """A lane to a device or a sharding of JAX.

    The lane holds only weak references to arrays on the device, so that it prolongs the life of no batch.
    """

    def __init__(self, where: Any) -> None:
        import jax

        self._jax, self._where = jax, where
        #: With devices of other processes in the sharding, this process has only a part of each array.
        self._is_part = not getattr(where, "is_fully_addressable", True)
        self._pending: list[weakref.ref[Any]] = []

    def takes(self, value: Any) -> bool:
        if isinstance(value, np.ndarray | np.generic):
            # Text, dates and records have no type in JAX.
            return value.dtype.kind not in "OSUMm" and value.dtype.names is None
        if hasattr(value, "data_ptr"):
            raise InvalidArgumentError("a device of JAX needs numpy or JAX arrays, found a torch tensor: pass output='numpy' to the loader")
        return isinstance(value, self._jax.Array)

    def send(self, tensor: Any) -> Any:
        if self._is_part:
            moved = self._jax.make_array_from_process_local_data(self._where, tensor)
        else:
            moved = self._jax.device_put(tensor, self._where)
        self._pending.append(weakref.ref(moved))
        return moved

    def sent(self) -> list[weakref.ref[Any]]:
        pending, self._pending = self._pending, []
        return pending

    def receive(self, tensors: list[Any], done: Any) -> None:
        """Does nothing, because JAX's computations wait for their arguments."""

    def wait(self, done: list[weakref.ref[Any]]) -> None:
        for reference in done:
            array = reference()
            # A computation may have taken over the memory of an array (``donate_argnums``).
            if array is not None and not array.is_deleted():
                array.block_until_ready()

    def close(self) -> None:
        """Does nothing, because JAX keeps the sources of its copies itself."""
