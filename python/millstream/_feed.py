"""Copies elements to the training device before the program requests them, while the device computes.

The module decides the order of copies and the lifetime of their sources. A lane copies to one device: ``_feed_torch`` has the lanes of torch, and
``_feed_jax`` has the lane of JAX.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from ._feed_jax import JaxLane, is_jax_device
from ._feed_torch import CudaLane, HostLane
from .errors import InvalidArgumentError

__all__ = ["DeviceFeed", "Lane", "feed", "framework_of", "lane_of"]

#: The default number of elements that are prefetched to a device.
DEPTH = 2


class Lane(Protocol):
    """The interface by which a feed copies tensors to a device. Only the iterating thread calls its methods."""

    def takes(self, value: Any) -> bool:
        """Returns whether a value is a tensor that the lane copies. All other values stay as they are."""

    def send(self, tensor: Any) -> Any:
        """Starts to copy a tensor, and returns the tensor on the device."""

    def sent(self) -> Any:
        """Returns a marker that is done when all copies that have started so far are done."""

    def receive(self, tensors: list[Any], done: Any) -> None:
        """Makes the consumer's work on the device wait for copies, and hands the tensors to the consumer."""

    def wait(self, done: Any) -> None:
        """Waits until copies are done."""

    def close(self) -> None:
        """Waits for all started copies, and releases the resources."""


@dataclasses.dataclass
class _Sent:
    """An element whose copy has started: the element on the device, its tensors, and the source, which must live until the copy is done."""

    element: Any
    tensors: list[Any]
    done: Any
    source: Any


class DeviceFeed:
    """An iterable of elements whose tensors are on a device. See ``feed``. Several iterators may exist at once; each has a separate stream."""

    def __init__(self, elements: Iterable[Any], lane: Callable[[], Lane], depth: int) -> None:
        if depth < 1:
            raise InvalidArgumentError(f"depth={depth}: must be at least 1")
        self._elements, self._lane, self._depth = elements, lane, depth

    def __len__(self) -> int:
        return len(self._elements)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        source = iter(self._elements)
        # A service's elements have the method `ready`, so the feed delivers a copied element before it waits for the next element.
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
                    # The lane is opened on the training thread at its first request, because this thread has the device's context.
                    lane = lane or self._lane()
                    ahead.append(_begun(lane, taken))
                if not ahead or lane is None:
                    return
                ready = ahead.popleft()
                lane.receive(ready.tensors, ready.done)
                element = ready.element
                # The consumer now owns the element. The source must live until its copy is done, even if the consumer runs ahead of the
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
    if not lane.takes(value):
        return value
    tensors.append(lane.send(value))
    return tensors[-1]


def feed(elements: Iterable[Any], device: Any = "cuda", *, depth: int = DEPTH) -> DeviceFeed:
    """Copies the tensors of elements to a device of torch or JAX while the device computes.

    At most ``depth`` elements are being copied or wait on the device. Text stays in Python objects.

    torch: Copies run on a separate stream. The stream that is current at a request waits only for the copy of the requested element. Shared
    memory of workers on this host is registered with the device once for all feeds, and copied directly. The registration ends with the feed, or
    after ``IDLE_AFTER`` tensors of other memory. Elements that operations after ``distribute`` computed are copied through pinned buffers.

    JAX: The arrays are committed to the device. With a sharding over the devices of several processes, each process delivers its part of the
    global array. JAX converts 64-bit types to 32 bits unless ``jax_enable_x64`` is set.

    Args:
        elements: A dataset, a loader, or an iterable of torch tensors; for JAX of numpy or JAX arrays.
        device: A torch device, or a device or sharding of JAX. ``"cpu"`` needs no GPU.
        depth: The number of elements that are prefetched to the device.

    Returns:
        An iterable of the elements with their tensors on the device.

    Raises:
        InvalidArgumentError: ``depth`` is less than 1, or the loader's output does not fit the device.
    """
    from ._dataset import Dataset
    from ._loader import DataLoader

    output = "torch" if framework_of(device) == "torch" else "numpy"
    if isinstance(elements, Dataset):
        elements = elements.with_output(output)
    if isinstance(elements, DataLoader) and elements._output not in (output, framework_of(device)):
        raise InvalidArgumentError(f"device={device!r} needs a loader with output={output!r}, found output={elements._output!r}")
    return DeviceFeed(elements, lane_of(device), depth)


def framework_of(device: Any) -> str:
    """Returns the framework of a device: ``"torch"`` or ``"jax"``."""
    return "jax" if is_jax_device(device) else "torch"


def lane_of(device: Any) -> Callable[[], Lane]:
    """Returns a function that opens a lane to a device of torch or JAX."""
    if is_jax_device(device):
        return lambda: JaxLane(device)
    import torch

    where = torch.device(device)
    return lambda: CudaLane(where) if where.type == "cuda" else HostLane(where)
