"""Elements on the device that trains: copied ahead, beside what is computed, from memory that the device reads by itself.

Owns the order of copies, what is alive during them, and which memory is registered. Everything that touches a device is in
``_Cuda``; what feeds other devices, or none, is the same without it.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from .errors import InvalidArgumentError

__all__ = ["DeviceFeed", "feed", "lane_of"]

#: Elements on their way to a device, unless it is said.
DEPTH = 2

#: Memory of one registration at most: what is larger is copied through a buffer.
_REGISTER_BYTES_MAX = 16 << 30

#: Memory that none of so many tensors lay in is let go when other memory is registered: that of passes that have ended.
IDLE_AFTER = 256

#: Tensors of fewer bytes are copied as they are: a copy costs less than looking where they lie.
_STAGE_BYTES_MIN = 64 << 10


class Lane(Protocol):
    """The way to a device. Used by one thread, the one that iterates."""

    def send(self, tensor: Any) -> Any:
        """Begins to copy a tensor; returns what it becomes."""

    def sent(self) -> Any:
        """What says that all copies that were begun so far are done."""

    def receive(self, tensors: list[Any], done: Any) -> None:
        """Makes the consumer's work wait for copies, and lets it have the tensors."""

    def wait(self, done: Any) -> None:
        """Waits until copies are done."""

    def close(self) -> None:
        """Ends it; copies that were begun are waited for."""


class _Host:
    """To the host itself, where tensors are already, or by a plain copy to a device that knows no streams."""

    def __init__(self, device: Any) -> None:
        self._device = device

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
    """Registered memory, with a tensor that keeps it mapped, and how many feeds use it."""

    start: int
    stop: int
    keeper: Any
    users: int = 0


class Registry:
    """Memory that is registered with ``register(address, bytes)``, once for all that use it, until the last of them does not any more."""

    def __init__(self, register: Callable[[int, int], bool], unregister: Callable[[int], None]) -> None:
        self._register, self._unregister = register, unregister
        self._mappings: dict[int, _Mapping] = {}
        self._lock = threading.Lock()

    def taken(self, start: int, stop: int, keeper: Any) -> _Mapping | None:
        """One more use of a mapping, which a tensor in it keeps; ``None``: it cannot be registered."""
        with self._lock:
            mapping = self._mappings.get(start)
            if mapping is None:
                if not self._register(start, stop - start):
                    return None
                mapping = self._mappings[start] = _Mapping(start, stop, keeper)
            mapping.users += 1
            return mapping

    def left(self, mapping: _Mapping) -> None:
        """One use less."""
        with self._lock:
            mapping.users -= 1
            if mapping.users == 0:
                # While it is mapped still: the keeper goes after it.
                self._unregister(mapping.start)
                del self._mappings[mapping.start]


class Arenas:
    """Memory that workers of this host share with this process, registered so that a device copies from it without the processor.

    A tensor in each keeps it mapped for as long as it is registered. Memory that nothing comes from any more is released after ``settle``, which
    waits for copies that were begun.
    """

    def __init__(self, registry: Registry, settle: Callable[[], None]) -> None:
        self._registry, self._settle = registry, settle
        #: With the number of the tensor that lay in it last.
        self._mappings: list[tuple[_Mapping, int]] = []
        self._looked = 0
        #: Where registering failed, or what is there is nothing to register.
        self._others: set[int] = set()

    def has(self, tensor: Any) -> bool:
        """Whether a tensor lies in registered memory, which is registered now if it can be."""
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
        """Uses nothing any more."""
        for mapping, _ in self._mappings:
            self._registry.left(mapping)
        self._mappings.clear()


def _shared_mapping(address: int) -> tuple[int, int] | None:
    """Where the shared memory file is mapped in which an address lies."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, rest = line.partition(" ")
            start, stop = (int(bound, 16) for bound in span.split("-"))
            if start <= address < stop:
                return (start, stop) if rest.startswith("rw") and "/memfd:" in rest else None
    return None


def _registered(start: int, count: int) -> bool:
    """Registers memory with CUDA, for all devices of the process. The current device is one that is in use."""
    import torch

    if int(torch.cuda.cudart().cudaHostRegister(start, count, _PORTABLE)) == 0:
        return True
    try:
        # What was refused is remembered as an error of the next thing that is asked of the device.
        torch.zeros(1, device="cuda").add_(1)
    except RuntimeError:
        pass
    return False


def _unregistered(start: int) -> None:
    import torch

    torch.cuda.cudart().cudaHostUnregister(start)


#: ``cudaHostRegisterPortable``.
_PORTABLE = 1

#: What is registered in this process, whichever feeds and devices use it.
_REGISTRY = Registry(_registered, _unregistered)


class _Cuda:
    """To a CUDA device: copies on a stream of their own, each behind an event that the consumer's stream waits for.

    What lies in registered arenas is copied from where it is; everything else through pinned buffers, each used again when its copy is done.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._torch = torch
        self._device = device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
        self._stream = torch.cuda.Stream(self._device)
        self._arenas = Arenas(_REGISTRY, self._stream.synchronize)
        #: Pinned buffers by their size, each with the event of the copy that reads it.
        self._buffers: dict[int, collections.deque[tuple[Any, Any]]] = {}

    def send(self, tensor: Any) -> Any:
        torch = self._torch
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            # Allocated for this stream: other users are recorded, so that its memory is not used again too early.
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


@dataclasses.dataclass
class _Sent:
    """An element on its way: what it becomes, its tensors, and what it was, which must live until it is copied."""

    element: Any
    tensors: list[Any]
    done: Any
    source: Any


class DeviceFeed:
    """Elements whose tensors are on a device. See ``feed``. Several iterators may live at a time; each has a stream of its own."""

    def __init__(self, elements: Iterable[Any], lane: Callable[[], Lane], depth: int) -> None:
        if depth < 1:
            raise InvalidArgumentError(f"depth={depth}: at least one element is on its way")
        self._elements, self._lane, self._depth = elements, lane, depth

    def __len__(self) -> int:
        return len(self._elements)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        source = iter(self._elements)
        # Where elements come from a service, what is not there yet is not waited for before what is there is handed over.
        at_hand = getattr(source, "ready", lambda otherwise: next(source, otherwise))
        lane: Lane | None = None
        ahead: collections.deque[_Sent] = collections.deque()
        behind: collections.deque[_Sent] = collections.deque()
        try:
            while True:
                while len(ahead) < self._depth:
                    taken = at_hand(_END) if ahead else next(source, _END)
                    if taken is _END:
                        break
                    # On the thread that trains, when it asks for its first element: there the device has its context.
                    lane = lane or self._lane()
                    ahead.append(_begun(lane, taken))
                if not ahead or lane is None:
                    return
                ready = ahead.popleft()
                lane.receive(ready.tensors, ready.done)
                element = ready.element
                # From here on it is the consumer's; what it was must live until it is copied, however far the consumer is ahead of the
                # device.
                behind.append(dataclasses.replace(ready, element=None, tensors=[]))
                del ready
                if len(behind) > self._depth:
                    lane.wait(behind.popleft().done)
                yield element
                del element
        finally:
            if lane is not None:
                lane.close()


_END = object()


def _begun(lane: Lane, element: Any) -> _Sent:
    tensors: list[Any] = []
    moved = _mapped(element, lane, tensors)
    return _Sent(moved, tensors, lane.sent(), element)


def _mapped(value: Any, lane: Lane, tensors: list[Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _mapped(item, lane, tensors) for name, item in value.items()}
    if isinstance(value, tuple | list):
        items = [_mapped(item, lane, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if not hasattr(value, "data_ptr"):
        return value
    tensors.append(lane.send(value))
    return tensors[-1]


def feed(elements: Iterable[Any], device: Any = "cuda", *, depth: int = DEPTH) -> DeviceFeed:
    """Copies the tensors of elements to a device while it computes.

    At most ``depth`` elements are on their way or wait there. Each is copied on a stream of its own, and the stream that is current at the
    request waits for that copy alone. Memory that workers of this host share is registered with the device, once for all feeds, and copied from
    where it lies; it is released when the feed ends, or after ``IDLE_AFTER`` tensors of other memory. Elements that operations after
    ``distribute`` computed go through pinned buffers. Text stays in Python.

    Args:
        elements: A dataset, a loader, or an iterable of torch tensors.
        device: A torch device. ``"cpu"`` does the same without a device.
        depth: Elements ahead of the program.

    Returns:
        An iterable of the elements with their tensors on the device.

    Raises:
        InvalidArgumentError: ``depth`` is less than 1.
    """
    from ._dataset import Dataset

    if isinstance(elements, Dataset):
        elements = elements.with_output("torch")
    return DeviceFeed(elements, lane_of(device), depth)


def lane_of(device: Any) -> Callable[[], Lane]:
    """What opens ways to a device of torch."""
    import torch

    where = torch.device(device)
    return lambda: _Cuda(where) if where.type == "cuda" else _Host(where)
