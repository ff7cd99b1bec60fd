"""What a worker and the processes that it has run Python's code say to each other: datagrams, and regions of shared memory.

Little-endian; the worker's side is ``pyworker/src/wire.rs``. Refuses to know what code does.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections import deque
from typing import Any

import numpy as np

from ._dtypes import numpy_dtype
from ._structure import Stack

__all__ = ["Call", "Link"]

#: Bytes of a datagram.
_DATAGRAM_BYTES = 128 << 10
#: Data of up to so many bytes goes with the datagram; more lies in a region.
_INLINE_BYTES = 16 << 10
#: Components begin at multiples of this in a region.
_ALIGNMENT = 64
#: Of a message that is told, and of a traceback.
_SAID_BYTES, _TRACEBACK_BYTES = 16 << 10, 64 << 10

_CALL, _REGION, _NEXT = 1, 2, 3
_READY, _RESULT, _NEED, _RAISED, _END = 1, 2, 3, 4, 5
_CALL_HEAD = struct.Struct("<BBHIQQI")
_INPUT_HEAD = struct.Struct("<BQ")
_REGION_HEAD = struct.Struct("<BBHIQ")
_RESULT_HEAD = struct.Struct("<BBH")
_LEAF_HEAD = struct.Struct("<BBQ")

#: dtype, dimensions, and an array, a stack of some, or the items of text.
Leaf = tuple[str, tuple[int, ...], Any]


class Call:
    """A request: the components of an element, and what to draw from; or for what an iterable yields next."""

    __slots__ = ("components", "draw", "is_next", "region")

    def __init__(self, components: list[Any], draw: int, region: int, is_next: bool) -> None:
        self.components = components
        self.draw = draw
        self.region = region
        self.is_next = is_next


class Link:
    """A process's end of the socket to its worker, and the regions that they share."""

    def __init__(self, end: socket.socket, inputs: list[str], dtypes: dict[str, str]) -> None:
        self._socket = end
        self._inputs = inputs
        self._codes = {name: int(code) for code, name in dtypes.items()}
        self._buffer = bytearray(_DATAGRAM_BYTES)
        self._regions: dict[int, mmap.mmap] = {}
        # Calls that came while a region was waited for.
        self._waiting: deque[Call] = deque()

    def ready(self) -> None:
        """Says that the code is loaded."""
        self._socket.send(bytes([_READY]))

    def receive(self) -> Call | None:
        """The next call; ``None`` when the worker wants no more."""
        if self._waiting:
            return self._waiting.popleft()
        data = self._datagram()
        return self._call(data) if data else None

    def raised(self, said: str, traceback: str) -> None:
        """Answers with what code raised."""
        told = _shortened(said, _SAID_BYTES)
        head = struct.pack("<BI", _RAISED, len(told))
        self._socket.send(head + told + _shortened(traceback, _TRACEBACK_BYTES))

    def end(self) -> None:
        """Answers that there is nothing more."""
        self._socket.send(bytes([_END]))

    def result(self, call: Call, leaves: list[Leaf]) -> None:
        """Answers with tensors, which are written straight to where the worker reads them."""
        data = [_text(items) if dtype in ("string", "bytes") else items for dtype, _, items in leaves]
        sizes = [len(items) if isinstance(items, bytes) else items.nbytes for items in data]
        is_inline = sum(sizes) <= _INLINE_BYTES
        parts = [_RESULT_HEAD.pack(_RESULT, 0 if is_inline else 1, len(leaves))]
        for (dtype, dims, _), size in zip(leaves, sizes, strict=True):
            parts.append(_LEAF_HEAD.pack(self._codes[dtype], len(dims), size))
            parts.append(struct.pack(f"<{len(dims)}Q", *dims))
        if is_inline:
            parts += [items if isinstance(items, bytes) else np.asarray(items).tobytes() for items in data]
        else:
            self._write(call, leaves, data, sizes)
        self._socket.send(b"".join(parts))

    def _write(self, call: Call, leaves: list[Leaf], data: list[Any], sizes: list[int]) -> None:
        places, end = [], 0
        for size in sizes:
            at = -(-end // _ALIGNMENT) * _ALIGNMENT
            places.append(at)
            end = at + size
        region = self._regions.get(call.region)
        if region is None or len(region) < end:
            region = self._needed(end)
        for (dtype, dims, _), items, at, size in zip(leaves, data, places, sizes, strict=True):
            if isinstance(items, bytes):
                region[at : at + size] = items
            elif size:
                into: np.ndarray[Any, Any] = np.ndarray(dims, numpy_dtype(dtype), buffer=region, offset=at)
                if isinstance(items, Stack):
                    items.write_to(into)
                else:
                    into[...] = items

    def _needed(self, size: int) -> mmap.mmap:
        self._socket.send(struct.pack("<BQ", _NEED, size))
        while data := self._datagram():
            if data[0] == _REGION:
                return self._regions[_REGION_HEAD.unpack_from(data)[3]]
            self._waiting.append(self._call(data))
        raise EOFError("the worker is gone")

    def _datagram(self) -> memoryview:
        """The next datagram; an empty one at the end. A region that comes with it is mapped."""
        size, ancillary, _, _ = self._socket.recvmsg_into([self._buffer], socket.CMSG_SPACE(4))
        data = memoryview(self._buffer)[:size]
        for _, _, fds in ancillary:
            (fd,) = struct.unpack("i", fds[:4])
            _, _, _, number, length = _REGION_HEAD.unpack_from(data)
            self._regions[number] = mmap.mmap(fd, length)
            os.close(fd)
        return data

    def _call(self, data: memoryview) -> Call:
        kind, in_region, count, region, _, draw, retired = _CALL_HEAD.unpack_from(data)
        at = _CALL_HEAD.size
        for number in struct.unpack_from(f"<{retired}I", data, at) if retired else ():
            self._regions.pop(number, None)
        at += 4 * retired
        described = []
        for _ in range(count):
            rank, size = _INPUT_HEAD.unpack_from(data, at)
            at += _INPUT_HEAD.size
            described.append((struct.unpack_from(f"<{rank}Q", data, at) if rank else (), size))
            at += 8 * rank
        source: Any = data
        if in_region:
            source, at = self._regions[region], 0
        components = []
        for (dims, size), dtype in zip(described, self._inputs, strict=False):
            if in_region:
                at = -(-at // _ALIGNMENT) * _ALIGNMENT
            components.append(_component(dtype, dims, source, at, size))
            at += size
        return Call(components, draw, region, kind == _NEXT)


def _component(dtype: str, dims: tuple[int, ...], source: Any, at: int, size: int) -> Any:
    """A tensor as functions get it: an array of its own, a scalar of numpy, or text."""
    if dtype in ("string", "bytes"):
        count = int(np.prod(dims, dtype=np.int64))
        lengths = struct.unpack_from(f"<{count}I", source, at)
        at += 4 * count
        items = np.empty(count, object)
        for index, length in enumerate(lengths):
            item = bytes(source[at : at + length])
            items[index] = item.decode() if dtype == "string" else item
            at += length
        return items.reshape(dims) if dims else items[0]
    # Copied, since what lies there changes with the next call.
    kind = numpy_dtype(dtype)
    if not dims:
        return np.frombuffer(bytes(source[at : at + size]), kind)[0]
    return np.ndarray(dims, kind, buffer=bytearray(source[at : at + size]))


def _text(items: list[bytes]) -> bytes:
    return struct.pack(f"<{len(items)}I", *map(len, items)) + b"".join(items)


def _shortened(text: str, limit: int) -> bytes:
    """Its beginning and its end, if it is longer than ``limit``."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded
    half = limit // 2 - 50
    left_out = f" … ({len(encoded) - 2 * half} bytes left out) … ".encode()
    return encoded[:half] + left_out + encoded[-half:]
