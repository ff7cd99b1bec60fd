"""Copies torch tensors to a device. Memory that workers share with this process is registered with CUDA, so that the device reads it directly.

The module decides which memory is registered and for how long. ``_feed`` decides the order of copies and the lifetime of their sources.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["IDLE_AFTER", "Arenas", "CudaLane", "HostLane", "Registry"]

#: The maximum bytes of one registration. Larger memory is copied through a buffer.
_REGISTER_BYTES_MAX = 16 << 30

#: The number of tensors of other memory after which registered memory counts as idle. Idle memory is released when other memory is registered.
IDLE_AFTER = 256

#: The minimum bytes of a tensor for which the lane searches the tensor's memory mapping. Smaller tensors are copied directly.
_STAGE_BYTES_MIN = 64 << 10


class HostLane:
    """A lane for the CPU, which needs no copies, and for devices without streams, which need plain copies."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def takes(self, value: Any) -> bool:
        return hasattr(value, "data_ptr")

    def send(self, tensor: Any) -> Any:
        return tensor if self._device.type == "cpu" else tensor.to(self._device)

    def sent(self) -> Any:
        return None

    def receive(self, tensors: list[Any], done: Any) -> None:
        pass

    def wait(self, done: Any) -> None:
        pass

    def close(self) -> None:
        pass


@dataclasses.dataclass
class _Mapping:
    """A range of registered memory, a tensor that keeps the range mapped, and the number of feeds that use the range."""

    start: int
    stop: int
    keeper: Any
    users: int = 0


class Registry:
    """Memory that is registered with a device by ``register(address, bytes)``. Each range is registered once, until its last user is gone."""

    def __init__(self, register: Callable[[int, int], bool], unregister: Callable[[int], None]) -> None:
        self._register, self._unregister = register, unregister
        self._mappings: dict[int, _Mapping] = {}
        self._lock = threading.Lock()

    def taken(self, start: int, stop: int, keeper: Any) -> _Mapping | None:
        """Adds a user to the mapping, which is registered if necessary. Returns ``None`` if the registration fails. ``keeper`` keeps it mapped."""
        with self._lock:
            mapping = self._mappings.get(start)
            if mapping is None:
                if not self._register(start, stop - start):
                    return None
                mapping = self._mappings[start] = _Mapping(start, stop, keeper)
            mapping.users += 1
            return mapping

    def left(self, mapping: _Mapping) -> None:
        """Removes a user of the mapping, which is unregistered after its last user."""
        with self._lock:
            mapping.users -= 1
            if mapping.users == 0:
                # The keeper is dropped after this call, because memory must be mapped while it is unregistered.
                self._unregister(mapping.start)
                del self._mappings[mapping.start]


class Arenas:
    """The shared memory of workers on this host, registered so that a device copies from it without the processor.

    A tensor in each mapping keeps the mapping alive while it is registered. Idle mappings are released after a call of ``settle``, which waits for
    all started copies.
    """

    def __init__(self, registry: Registry, settle: Callable[[], None]) -> None:
        self._registry, self._settle = registry, settle
        #: The mappings, each with the number of the last tensor in the mapping.
        self._mappings: list[tuple[_Mapping, int]] = []
        self._looked = 0
        #: The address ranges whose registration failed, or that need no registration.
        self._others: set[int] = set()

    def has(self, tensor: Any) -> bool:
        """Returns whether a tensor is in registered memory. Registers the tensor's memory if possible."""
        address = tensor.data_ptr()
        stop = address + tensor.nbytes
        self._looked += 1
        for index, (mapping, _) in enumerate(self._mappings):
            if mapping.start <= address and stop <= mapping.stop:
                self._mappings[index] = (mapping, self._looked)
                return True
        if address >> 21 in self._others:
            return False
        found = _shared_mapping(address)
        if found is not None and stop <= found[1] and found[1] - found[0] <= _REGISTER_BYTES_MAX:
            self._let_go_of_idle()
            taken = self._registry.taken(*found, keeper=tensor)
            if taken is not None:
                self._mappings.append((taken, self._looked))
                return True
        if len(self._others) < 1 << 16:
            self._others.add(address >> 21)
        return False

    def _let_go_of_idle(self) -> None:
        idle = [mapping for mapping, last in self._mappings if self._looked - last > IDLE_AFTER]
        if idle:
            self._settle()
        self._mappings = [(mapping, last) for mapping, last in self._mappings if self._looked - last <= IDLE_AFTER]
        for mapping in idle:
            self._registry.left(mapping)

    def close(self) -> None:
        """Gives up all mappings."""
        for mapping, _ in self._mappings:
            self._registry.left(mapping)
        self._mappings.clear()


def _shared_mapping(address: int) -> tuple[int, int] | None:
    """Returns the start and the end of the shared memory mapping that contains an address; ``None`` if no such mapping exists."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, rest = line.partition(" ")
            start, stop = (int(bound, 16) for bound in span.split("-"))
            if start <= address < stop:
                return (start, stop) if rest.startswith("rw") and "/memfd:" in rest else None
    return None


def _registered(start: int, count: int) -> bool:
    """Registers memory with CUDA for all devices of the process. The current device must already be in use."""
    import torch

    if int(torch.cuda.cudart().cudaHostRegister(start, count, _PORTABLE)) == 0:
        return True
    try:
        # CUDA reports a failed registration as an error of the next operation on the device, so a small operation clears the error.
        torch.zeros(1, device="cuda").add_(1)
    except RuntimeError:
        pass
    return False


def _unregistered(start: int) -> None:
    import torch

    torch.cuda.cudart().cudaHostUnregister(start)


#: ``cudaHostRegisterPortable``.
_PORTABLE = 1

#: The registered memory of this process, shared by all feeds and devices.
_REGISTRY = Registry(_registered, _unregistered)


class CudaLane:
    """A lane for a CUDA device. Copies run on a separate stream, and the consumer's stream waits for the event of each copy.

    Tensors in registered arenas are copied directly. Other tensors are copied through pinned buffers, which are used again when their copies are
    done.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._torch = torch
        self._device = device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
        self._stream = torch.cuda.Stream(self._device)
        self._arenas = Arenas(_REGISTRY, self._stream.synchronize)
        #: Pinned buffers by their size, each with the event of the copy that reads it.
        self._buffers: dict[int, collections.deque[tuple[Any, Any]]] = {}

    def takes(self, value: Any) -> bool:
        return hasattr(value, "data_ptr")

    def send(self, tensor: Any) -> Any:
        torch = self._torch
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            # The memory belongs to this stream. `receive` records the consumer's stream, so that the memory is not reused too early.
            moved = torch.empty_like(tensor, device=self._device)
            if tensor.nbytes < _STAGE_BYTES_MIN or self._arenas.has(tensor):
                moved.copy_(tensor, non_blocking=True)
            else:
                self._staged(tensor, moved)
        return moved

    def _staged(self, tensor: Any, moved: Any) -> None:
        torch = self._torch
        waiting = self._buffers.setdefault(tensor.nbytes, collections.deque())
        if waiting and waiting[0][1].query():
            buffer, event = waiting.popleft()
        else:
            buffer, event = torch.empty(tensor.nbytes, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()
        pinned = buffer.view(tensor.dtype).view(tensor.shape)
        pinned.copy_(tensor)
        moved.copy_(pinned, non_blocking=True)
        event.record(self._stream)
        waiting.append((buffer, event))

    def sent(self) -> Any:
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return event

    def receive(self, tensors: list[Any], done: Any) -> None:
        consumer = self._torch.cuda.current_stream(self._device)
        consumer.wait_event(done)
        for tensor in tensors:
            tensor.record_stream(consumer)

    def wait(self, done: Any) -> None:
        done.synchronize()

    def close(self) -> None:
        self._stream.synchronize()
        self._arenas.close()
