"""Tests of feeds without a device: the order and number of copies, the lifetime of sources, and the registered memory."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset
from millstream._feed import DeviceFeed
from millstream._feed_torch import IDLE_AFTER, Arenas, Registry
from millstream.service import distribute


@dataclasses.dataclass
class Tensor:
    """A stand-in for a torch tensor, which wraps an array."""

    array: Any
    where: str = "host"

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


class Lane:
    """A stand-in for a device, which copies a tensor only when the consumer receives it, and logs all calls."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.copies = 0
        self.pending: list[tuple[Tensor, Tensor]] = []

    def takes(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def send(self, tensor: Tensor) -> Tensor:
        moved = Tensor(np.zeros_like(tensor.array), "device")
        self.pending.append((tensor, moved))
        return moved

    def sent(self) -> int:
        self.copies += 1
        self.log.append(f"copy {self.copies}")
        return self.copies

    def receive(self, tensors: list[Tensor], done: int) -> None:
        self.log.append(f"hand over {done}")
        for source, moved in self.pending:
            if any(moved is tensor for tensor in tensors):
                moved.array[...] = source.array

    def wait(self, done: int) -> None:
        self.log.append(f"wait {done}")

    def close(self) -> None:
        self.log.append("close")


def elements(count: int) -> list[dict[str, Any]]:
    return [{"x": Tensor(np.full(3, number)), "name": f"n{number}", "pair": (Tensor(np.ones(1)), 1)} for number in range(count)]


def test_so_many_copies_are_ahead_and_no_more() -> None:
    lane = Lane()
    seen = []
    for element in DeviceFeed(elements(4), lambda: lane, 2):
        assert element["x"].where == element["pair"][0].where == "device"
        seen.append((int(element["x"].array[0]), element["name"], element["pair"][1]))
        lane.log.append("step")
    assert seen == [(number, f"n{number}", 1) for number in range(4)]
    begun = ["copy 1", "copy 2", "hand over 1", "step", "copy 3", "hand over 2", "step"]
    # A program that requests elements faster than the device copies them must wait.
    assert lane.log == [*begun, "copy 4", "hand over 3", "wait 1", "step", "hand over 4", "wait 2", "step", "close"]


def test_an_abandoned_iterator_ends_its_lane() -> None:
    lane = Lane()
    iterator = iter(DeviceFeed(elements(9), lambda: lane, 3))
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert lane.log == ["copy 1", "copy 2", "copy 3", "hand over 1", "close"]


def test_nothing_happens_before_the_first_element() -> None:
    opened: list[Lane] = []

    def lane() -> Lane:
        opened.append(Lane())
        return opened[-1]

    iter(DeviceFeed(elements(3), lane, 1))
    assert list(DeviceFeed([], lane, 1)) == [] and not opened
    assert len(DeviceFeed(elements(3), lane, 1)) == 3
    with pytest.raises(ms.errors.InvalidArgumentError, match="depth=0"):
        DeviceFeed([], lane, 0)


def test_shared_memory_is_registered_once_and_stays_mapped(processes: ms.LocalService) -> None:
    registered: dict[int, int] = {}

    def register(start: int, count: int) -> bool:
        assert start not in registered
        registered[start] = count
        return True

    registry = Registry(register, lambda start: (registered.pop(start), None)[1])
    arenas, other = Arenas(registry, pytest.fail), Arenas(registry, pytest.fail)
    dataset = Dataset.from_tensors(np.arange(1 << 16)).repeat(50).apply(distribute("parallel_epochs", processes))
    found = [Tensor(array) for array in dataset]
    # Two feeds of the same elements share the registration.
    assert all(arenas.has(tensor) and other.has(tensor) for tensor in found)
    # Each of the two workers has one or two arenas.
    assert 1 <= len(registered) <= 4
    for tensor in found:
        address = tensor.data_ptr()
        assert any(start <= address < start + count for start, count in registered.items())
    kept = found[0]
    del found, dataset
    assert np.array_equal(kept.array, np.arange(1 << 16)) and arenas.has(kept)
    arenas.close()
    assert registered
    other.close()
    assert not registered


def test_a_feed_releases_the_memory_of_ended_passes(processes: ms.LocalService) -> None:
    registered: dict[int, int] = {}
    settled: list[int] = []

    def unregister(start: int) -> None:
        # During `close`, the caller has already waited for all copies.
        assert is_closing or settled, "copies may read it still"
        with open("/proc/self/maps") as maps:
            assert any(line.startswith(f"{start:x}-") for line in maps), "it is not mapped any more"
        del registered[start]

    registry = Registry(lambda start, count: registered.setdefault(start, count) == count, unregister)
    is_closing = False
    arenas = Arenas(registry, lambda: settled.append(len(registered)))
    dataset = Dataset.from_tensors(np.arange(1 << 14)).repeat(IDLE_AFTER).apply(distribute("parallel_epochs", processes))
    most = 0
    for _ in range(8):
        assert all(arenas.has(Tensor(array)) for array in dataset)
        most = max(most, len(registered))
    # Each of the two workers has one or two arenas for a pass. Arenas of two passes may be registered at once.
    assert 2 <= most <= 8
    is_closing = True
    arenas.close()
    assert not registered


def test_memory_that_is_used_by_turns_stays_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that only memory without tensors for a long time is released, independent of the number of workers."""
    memory = np.zeros((40, 8 << 10), np.int64)
    spans = {row.ctypes.data: (row.ctypes.data, row.ctypes.data + row.nbytes) for row in memory}
    monkeypatch.setattr(sys.modules["millstream._feed_torch"], "_shared_mapping", spans.get)
    registered: list[int] = []
    registry = Registry(lambda start, count: registered.append(start) is None, registered.remove)
    arenas = Arenas(registry, lambda: pytest.fail("none is idle"))
    for _ in range(10):
        assert all(arenas.has(Tensor(row)) for row in memory)
    assert len(registered) == len(set(registered)) == 40


def test_other_memory_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    arenas = Arenas(Registry(lambda start, count: pytest.fail("registered"), lambda start: None), pytest.fail)
    tensor = Tensor(np.zeros(1 << 16))
    assert not arenas.has(tensor)
    monkeypatch.setattr("builtins.open", lambda *_: pytest.fail("looked again"))
    assert not arenas.has(tensor)


class Squares:
    """A dataset with indices."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> Any:
        return index * index


@pytest.mark.parametrize("is_prefetched", [False, True])
@pytest.mark.parametrize("timeout", [0, 60])
def test_a_loader_copies_ahead_and_counts_deliveries(is_prefetched: bool, timeout: float) -> None:
    lane = Lane()
    loader = ms.DataLoader(Squares(), 2, output="numpy", dp_rank=0, dp_size=1, timeout=timeout)
    loader._lane = lambda: lane
    for epoch in range(2):
        if is_prefetched:
            loader.start_prefetch()
        for step, batch in enumerate(loader):
            assert batch.tolist() == [index * index for index in range(7)[2 * step : 2 * step + 2]]
            # Prefetched batches do not count.
            assert (loader.epoch, loader.step, loader.state_dict()["step"]) == (epoch, step + 1, step + 1)
        assert lane.log[0] == "copy 1" and [entry for entry in lane.log if entry.startswith("hand")] == [
            f"hand over {number}" for number in range(1, 5)
        ]
        assert lane.log[-1] == "close"
        lane = Lane()


def test_a_device_takes_tensors_of_torch_alone() -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="output='torch'"):
        ms.DataLoader(Squares(), device="cpu", output="numpy")
