"""The protocol between a worker and its executors: datagrams, and regions of shared memory.

All numbers are little-endian. ``pyworker/src/wire.rs`` implements the worker's side.
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

#: The maximum bytes of a datagram.
_DATAGRAM_BYTES = 128 << 10
#: The maximum bytes of tensors in a datagram. Larger tensors are written to a region.
_INLINE_BYTES = 16 << 10
#: The alignment of components in a region, in bytes.
_ALIGNMENT = 64
#: The maximum bytes of an error message, and of a traceback.
_SAID_BYTES, _TRACEBACK_BYTES = 16 << 10, 64 << 10

_CALL, _REGION, _NEXT = 1, 2, 3
_READY, _RESULT, _NEED, _RAISED, _END = 1, 2, 3, 4, 5
_CALL_HEAD = struct.Struct("<BBHIQQI")
_INPUT_HEAD = struct.Struct("<BQ")
_REGION_HEAD = struct.Struct("<BBHIQ")
_RESULT_HEAD = struct.Struct("<BBH")
_LEAF_HEAD = struct.Struct("<BBQ")

#: A tensor: its dtype, its dimensions, and its data (an array, a stack of arrays, or a list of strings).
Leaf = tuple[str, tuple[int, ...], Any]


class Call:
    """A request of the worker: the components of an element and the seed of draws, or a request for an iterable's next element."""

    __slots__ = ("components", "draw", "is_next", "region")

    def __init__(self, components: list[Any], draw: int, region: int, is_next: bool) -> None:
        self.components = components
        self.draw = draw
        self.region = region
        self.is_next = is_next


class Link:
    """The executor's end of the socket to its worker, and the shared memory regions."""

    def __init__(self, end: socket.socket, inputs: list[str], dtypes: dict[str, str]) -> None:
        self._socket = end
        self._inputs = inputs
        self._codes = {name: int(code) for code, name in dtypes.items()}
        self._buffer = bytearray(_DATAGRAM_BYTES)
        self._regions: dict[int, mmap.mmap] = {}
        # The calls that arrived while the executor waited for a region.
        self._waiting: deque[Call] = deque()

    def ready(self) -> None:
        """Reports that the code is loaded."""
        self._socket.send(bytes([_READY]))

    def receive(self) -> Call | None:
        """Returns the next call; ``None`` when the worker has closed the socket."""
        if self._waiting:
            return self._waiting.popleft()
        data = self._datagram()
        return self._call(data) if data else None

    def raised(self, said: str, traceback: str) -> None:
        """Reports an exception of the code, as a message and a traceback."""
        told = _shortened(said, _SAID_BYTES)
        head = struct.pack("<BI", _RAISED, len(told))
        self._socket.send(head + told + _shortened(traceback, _TRACEBACK_BYTES))

    def end(self) -> None:
        """Reports the end of the iterable."""
        self._socket.send(bytes([_END]))

    def result(self, call: Call, leaves: list[Leaf]) -> None:
        """Sends the tensors of a result. Large tensors are written directly to the shared region."""
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
        raise EOFError("expected a region from the worker, found a closed socket: the worker has ended")

    def _datagram(self) -> memoryview:
        """Receives the next datagram, which is empty at the end. Maps a region that arrives with the datagram."""
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
    """Returns a component as functions receive it: a separate array, a numpy scalar, or text."""
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
    # The data is copied, because the next call overwrites the buffer.
    kind = numpy_dtype(dtype)
    if not dims:
        return np.frombuffer(bytes(source[at : at + size]), kind)[0]
    return np.ndarray(dims, kind, buffer=bytearray(source[at : at + size]))


def _text(items: list[bytes]) -> bytes:
    return struct.pack(f"<{len(items)}I", *map(len, items)) + b"".join(items)


def _shortened(text: str, limit: int) -> bytes:
    """Encodes a text. Keeps only the beginning and the end of a text that is longer than ``limit`` bytes."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded
    half = limit // 2 - 50
    left_out = f" … ({len(encoded) - 2 * half} bytes left out) … ".encode()
    return encoded[:half] + left_out + encoded[-half:]
