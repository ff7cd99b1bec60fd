"""Tests of bad networks between trainers and workers, and of workers out of reach.

Elements arrive undamaged, or an error names the worker. A relay forwards the datagrams between trainer and worker.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

#: Whether to run the tests that wait half a minute until a reader gives up.
FULL = os.environ.get("MILLSTREAM_FULL") == "1"

#: The maximum bytes of a datagram if a packet has 1450 bytes.
SMALL_DATAGRAM = 1450 - 28

ROWS, ROW_BYTES = 40, 16 << 10


class Relay:
    """A relay that forwards datagrams between its own address and a worker, and loses some. A relay without a worker forwards no datagram."""

    def __init__(self, *, loss: float = 0.0, delay_s: float = 0.0, largest: int = 1 << 16, seed: int = 0) -> None:
        self.worker = ""
        self.passed = self.lost = 0
        self._loss, self._delay_s, self._largest, self._random = loss, delay_s, largest, random.Random(seed)
        self._front = self._opened()
        self._front.bind(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._front.getsockname())
        self._end, self._ended = os.pipe()
        self._backs: dict[tuple[str, int], socket.socket] = {}
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def close(self) -> None:
        """Stops the relay."""
        os.close(self._ended)
        self._thread.join()
        os.close(self._end)
        for opened in (self._front, *self._backs.values()):
            opened.close()

    @staticmethod
    def _opened() -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        return opened

    def _carry(self) -> None:
        due: list[tuple[float, int, Callable[[], int]]] = []
        while True:
            patience = max(0.0, due[0][0] - time.monotonic()) if due else None
            readable, _, _ = select.select([self._end, self._front, *self._backs.values()], [], [], patience)
            if self._end in readable:
                return
            for source in readable:
                onward = self._received(source)
                if onward is not None:
                    heapq.heappush(due, (time.monotonic() + self._delay_s, self.passed, onward))
            while due and due[0][0] <= time.monotonic():
                try:
                    heapq.heappop(due)[2]()
                except OSError:
                    self.lost += 1

    def _received(self, source: socket.socket) -> Callable[[], int] | None:
        """Receives a datagram. Returns the function that forwards the datagram, or ``None`` if the datagram is lost."""
        try:
            data, peer = source.recvfrom(1 << 16)
        except OSError:
            # The previous receiver has closed its socket.
            return None
        if not self.worker or len(data) > self._largest or self._random.random() < self._loss:
            self.lost += 1
            return None
        self.passed += 1
        if source is not self._front:
            reader = next(reader for reader, back in self._backs.items() if back is source)
            return lambda: self._front.sendto(data, reader)
        if peer not in self._backs:
            host, _, port = self.worker.partition(":")
            self._backs[peer] = self._opened()
            self._backs[peer].connect((host, int(port)))
        return lambda: self._backs[peer].send(data)


WORKER = """
import sys
import millstream as ms
config = ms.service.WorkerConfig(sys.argv[1], port=int(sys.argv[2]), worker_address=sys.argv[3])
with ms.service.WorkerServer(config) as worker:
    print(worker.address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def service() -> Iterator[tuple[str, Callable[[str], str]]]:
    """Starts a dispatcher. Yields its address and a function that starts a worker process with an advertised address; returns the real address."""
    with ExitStack() as ending:
        dispatcher = ending.enter_context(ms.service.DispatchServer())

        def start(advertised: str) -> str:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
                found.bind(("127.0.0.1", 0))
                port = found.getsockname()[1]
            process = subprocess.Popen(
                [sys.executable, "-c", WORKER, dispatcher.target, str(port), advertised],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ending.callback(process.wait)
            ending.enter_context(process.stdin)  # type: ignore[arg-type]
            ending.enter_context(process.stdout)  # type: ignore[arg-type]
            assert process.stdout.readline().strip() == advertised.replace("%port%", str(port))  # type: ignore[union-attr]
            return f"127.0.0.1:{port}"

        yield dispatcher.target, start


@pytest.fixture
def relay() -> Iterator[Callable[..., Relay]]:
    with ExitStack() as ending:

        def opened(**how: float) -> Relay:
            made = Relay(**how)  # type: ignore[arg-type]
            ending.callback(made.close)
            return made

        yield opened


def rows() -> Dataset:
    values = np.arange(ROWS, dtype=np.int32)[:, None] * np.ones(ROW_BYTES // 4, np.int32)
    return Dataset.from_tensor_slices(values)


@pytest.mark.parametrize(
    "network",
    [
        {"loss": 0.01, "delay_s": 0.025},
        {"largest": SMALL_DATAGRAM},
        {"loss": 0.02, "delay_s": 0.005, "largest": SMALL_DATAGRAM},
    ],
    ids=["loss of 1 % and 50 ms there and back", "packets of 1450 bytes", "all of it"],
)
def test_row_246_elements_survive_a_bad_network(
    network: dict[str, float], service: tuple[str, Callable[[str], str]], relay: Callable[..., Relay]
) -> None:
    target, start = service
    between = relay(**network)
    between.worker = start(between.address)
    # Compression is off, because compressed rows would fit in a few datagrams.
    dataset = rows().apply(distribute("distributed_epoch", target, data_transfer_protocol="quic", compression=None))
    seen = []
    for row in dataset:
        assert row.shape == (ROW_BYTES // 4,) and (row == row[0]).all()
        seen.append(int(row[0]))
    assert sorted(seen) == list(range(ROWS))
    assert between.passed > 0 and (between.lost > 0 or "largest" not in network)


def test_row_246_blocked_udp_spares_local_workers(
    service: tuple[str, Callable[[str], str]], relay: Callable[..., Relay]
) -> None:
    target, start = service
    blocked = relay()
    start(blocked.address)
    seen = [int(row[0]) for row in rows().apply(distribute("distributed_epoch", target))]
    assert sorted(seen) == list(range(ROWS))
    assert blocked.lost == 0


@pytest.mark.skipif(not FULL, reason="giving up takes half a minute: MILLSTREAM_FULL=1")
@pytest.mark.parametrize("others", [0, 1])
def test_row_246_a_mute_worker_is_named_last(
    others: int, service: tuple[str, Callable[[str], str]], relay: Callable[..., Relay]
) -> None:
    target, start = service
    blocked = relay()
    start(blocked.address)
    for _ in range(others):
        start("127.0.0.1:%port%")
    seen = []
    with pytest.raises(ms.errors.UnavailableError, match=rf"worker {blocked.address} cannot be reached.*UDP"):
        for row in rows().apply(distribute("distributed_epoch", target, data_transfer_protocol="quic")):
            seen.append(int(row[0]))
    assert sorted(seen) == list(range(ROWS * others))
    assert blocked.lost > 0


@pytest.mark.skipif(not FULL, reason="giving up takes half a minute: MILLSTREAM_FULL=1")
def test_row_246_udp_blocked_midway_names_the_worker(
    service: tuple[str, Callable[[str], str]], relay: Callable[..., Relay]
) -> None:
    target, start = service
    between = relay()
    between.worker = start(between.address)
    endless = Dataset.range(1 << 40).apply(distribute("parallel_epochs", target, data_transfer_protocol="quic"))
    elements = iter(endless)
    next(elements)
    between.worker = ""
    with pytest.raises(ms.errors.UnavailableError, match=rf"worker {between.address} cannot be reached"):
        for _ in elements:
            pass
