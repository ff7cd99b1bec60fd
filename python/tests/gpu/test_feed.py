"""Tests of ``ms.feed`` on a GPU: the rate of copies, overlap with computation, and correct tensors. ``python/check --gpu`` runs these tests.

``benches/peers/training.py`` measures the rates of a training program.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream.service import distribute

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch finds no GPU, so these tests did not run"
)

MIB = 1 << 20


def batches(service: ms.LocalService, count: int, size_bytes: int = 16 * MIB, protocol: str | None = None) -> ms.Dataset:
    """Returns a dataset whose element i is filled with the number i modulo 256."""
    numbers = ms.Dataset.range(count).map_python(
        lambda number: np.full(size_bytes, int(number) % 256, np.uint8), element_spec=ms.TensorSpec((size_bytes,), ms.uint8)
    )
    return numbers.apply(distribute("distributed_epoch", service, data_transfer_protocol=protocol))


@pytest.mark.parametrize("protocol", ["shm", "quic"])
def test_every_element_arrives_whole(protocol: str, processes: ms.LocalService) -> None:
    found = []
    for tensor in ms.feed(batches(processes, 100, protocol=protocol)):
        assert tensor.is_cuda and bool((tensor == tensor[0]).all())
        found.append(int(tensor[0]))
    assert sorted(found) == list(range(100))


def test_copies_reach_the_rate_of_pinned_memory(processes: ms.LocalService) -> None:
    """Compares both rates in alternating rounds. All elements exist before the measurement, so only copies are measured."""
    held = list(batches(processes, 16).with_output("torch"))
    pinned = [tensor.pin_memory() for tensor in held]

    def rate(move: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        move()
        torch.cuda.synchronize()
        return len(held) * 16 * MIB / (time.perf_counter() - began)

    from millstream._feed import DeviceFeed
    from millstream._feed_torch import CudaLane

    class Kept(CudaLane):
        def close(self) -> None:
            """Does nothing, so that registered memory stays registered for all rounds."""

    lane = Kept(torch.device("cuda"))
    feed = DeviceFeed(held, lambda: lane, depth=4)
    ratios = []
    for _ in range(12):
        by_feed = rate(lambda: [None for _ in feed])
        by_copy = rate(lambda: [tensor.to("cuda", non_blocking=True) for tensor in pinned])
        ratios.append(by_feed / by_copy)
    CudaLane.close(lane)
    print(f"feed / pinned copy: {statistics.median(ratios[2:]):.2f} [{min(ratios[2:]):.2f}-{max(ratios[2:]):.2f}]")
    assert statistics.median(ratios[2:]) >= 0.9


def test_copies_run_beside_what_is_computed(processes: ms.LocalService) -> None:
    """Checks with CUDA events that the copy of the next element starts before the work on the present element ends."""
    from millstream._feed import DeviceFeed
    from millstream._feed_torch import CudaLane

    spans: list[tuple[Any, Any]] = []

    class Told(CudaLane):
        def send(self, tensor: Any) -> Any:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(self._stream)
            moved = super().send(tensor)
            end.record(self._stream)
            spans.append((begin, end))
            return moved

    matrix = torch.randn(8192, 8192, device="cuda")
    held = list(batches(processes, 8).with_output("torch"))
    work = []
    for _ in DeviceFeed(held, lambda: Told(torch.device("cuda")), 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            matrix @ matrix
        end.record()
        work.append((begin, end))
    torch.cuda.synchronize()
    overlapping = sum(
        copy_begin.elapsed_time(work_end) > 0 and work_begin.elapsed_time(copy_end) > 0
        for copy_begin, copy_end in spans
        for work_begin, work_end in work
    )
    assert overlapping >= len(held) // 2


def test_an_early_freed_tensor_is_not_overwritten(processes: ms.LocalService) -> None:
    matrix = torch.randn(4096, 4096, device="cuda")
    sums: list[Any] = []
    order: list[int] = []

    def told() -> Iterator[Any]:
        for tensor in batches(processes, 60).with_output("torch"):
            order.append(int(tensor[0]))
            yield tensor

    for tensor in ms.feed(told(), depth=3):
        # The sum waits in the stream's queue after long work, and the tensor is dropped at once.
        for _ in range(4):
            matrix @ matrix
        sums.append(tensor.to(torch.int64).sum())
        del tensor
    assert [int(total) for total in sums] == [number * 16 * MIB for number in order]


def test_another_stream_of_the_consumers_is_waited_with(processes: ms.LocalService) -> None:
    stream = torch.cuda.Stream()
    found = []
    with torch.cuda.stream(stream):
        for tensor in ms.feed(batches(processes, 40)):
            tensor.add_(1)
            found.append(tensor.double().mean())
    stream.synchronize()
    assert sorted(int(value) for value in found) == list(range(1, 41))
