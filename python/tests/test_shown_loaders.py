"""Tests of the loaders that this process shows: their waits, their names, their counts over epochs, and forks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream as ms
from millstream import _live
from millstream._connection import connect
from millstream._millstream import Elements
from millstream._waits import COUNTED, WaitClock
from millstream.service import distribute

Start = Callable[..., str]

#: The seconds after which a test gives up: ten times the expected time.
WATCHDOG_S = 60


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Forgets the loaders of other tests, which their owners may still hold."""
    _live.forget()
    yield
    _live.forget()


def shown() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in _live.observe()[0]}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WATCHDOG_S
    while not holds():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.02)


@contextlib.contextmanager
def requesting(elements: Any) -> Iterator[None]:
    """Requests an element on a thread within the block. The end of the block closes the iterator."""

    def request() -> None:
        with contextlib.suppress(ms.errors.CancelledError, StopIteration):
            next(elements)

    thread = threading.Thread(target=request)
    thread.start()
    try:
        yield
    finally:
        elements.close()
        thread.join()


def test_a_stuck_reader_names_its_wait(cluster: Start) -> None:
    elements = iter(ms.Dataset.range(8).apply(distribute("parallel_epochs", cluster(0))))
    with requesting(elements):
        until(lambda: "no worker is ready" in shown()["reader 0"]["verdict"])
        found = elements.glance()
        assert 0.0 < found["waiting_s"] <= found["waited_s"] == found["first_wait_s"]
        assert "has waited" in shown()["reader 0"]["verdict"] and "Start workers" in shown()["reader 0"]["advice"]


def test_a_collection_may_measure(cluster: Start) -> None:
    program = """
        import gc, sys
        import millstream as ms

        elements = iter(ms.Dataset.range(8).apply(ms.service.distribute("parallel_epochs", sys.argv[1])))
        next(elements)

        def measure(phase, _):
            if phase == "start":
                # A collection also runs finalisers, which may measure.
                seen.append(elements.stats()["elements"])

        seen, held = [], []
        gc.callbacks.append(measure)
        # The interpreter then collects whenever it creates a dict, also within a measurement.
        gc.set_threshold(1)
        for _ in range(200):
            held += [elements.glance(), elements.stats()]
        gc.callbacks.clear()
        print(len(seen) > 100, {one["elements"] for one in held} == {1}, "transports" in held[0])
    """
    # A deadlock holds the interpreter, so the program has a process of its own.
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), cluster(1)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
    )
    assert found.stdout.split() == ["True"] * 3, found.stderr


def test_an_open_counts_as_a_wait() -> None:
    release = threading.Event()
    dataset = ms.Dataset.range(3)

    def opener() -> Elements:
        release.wait(WATCHDOG_S)
        return dataset._pass(0)

    lazy = Elements.lazy(opener, dataset)
    _live.register_reader(dataset, lazy)
    loop = threading.Thread(target=lambda: next(lazy))
    loop.start()
    try:
        until(lambda: lazy.glance()["waiting_s"] > 0.1)
        assert lazy.glance()["is_opening"] and "has not opened the epoch" in shown()["reader 0"]["verdict"]
    finally:
        release.set()
        loop.join()
    found = lazy.glance()
    assert found["delivered"] == 1 and not found["is_opening"] and found["waiting_s"] == 0.0
    assert found["waited_s"] >= found["first_wait_s"] > 0.1
    assert len(list(lazy)) == 2 and lazy.glance()["has_ended"] and lazy.glance()["first_wait_s"] == found["first_wait_s"]


def test_a_loader_is_shown_while_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = ms.DataLoader([1, 2], output="numpy", name="train")
    batches, release = loader._loading.batches, threading.Event()

    def slow(*arguments: Any) -> Any:
        release.wait(WATCHDOG_S)
        return batches(*arguments)

    monkeypatch.setattr(loader._loading, "batches", slow)
    loop = threading.Thread(target=lambda: list(loader))
    loop.start()
    try:
        until(lambda: "train" in shown())
        until(lambda: "still opening the dataset" in shown()["train"]["verdict"])
        assert loader.stats()["bottleneck"] == "start" and shown()["train"]["waited_s"] > 0
    finally:
        release.set()
        loop.join()
    assert shown()["train"]["elements"] == 2 and not loader.stats()["is_opening"]


def test_an_error_of_one_loader_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = (ms.DataLoader([1, 2], output="numpy", name=name) for name in ("good", "bad"))
    assert len(list(good)) == len(list(bad)) == 2

    def broken() -> dict[str, Any]:
        raise ArithmeticError("no figures")

    monkeypatch.setattr(bad, "_observed", broken)
    with ms.metrics.serve() as server, urllib.request.urlopen(f"{server.url}/api/v1/status", timeout=20) as answer:
        status = {one["name"]: one for one in json.load(answer)["loaders"]}
    assert status["good"]["elements"] == status["bad"]["elements"] == 2
    assert "ArithmeticError: no figures" in status["bad"]["verdict"]["sentence"]


def in_child(run: Callable[[], Any]) -> Any:
    """Returns what a function returns in a forked child, or the error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = run()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = json.loads(file.read())
    os.waitpid(child, 0)
    return said


def test_a_forked_child_reads_and_shows_its_own() -> None:
    loader = ms.DataLoader(list(range(6)), batch_size=2, output="numpy", name="train")
    batches = iter(loader)
    next(batches)

    def child() -> Any:
        before = [loader.stats().verdict, shown()]
        read = len(list(loader))
        loader.close()
        return [*before, read, shown()["train"]["elements"]]

    verdict, seen, read, counted = in_child(child)
    assert "has not requested a batch" in verdict and seen == {} and (read, counted) == (3, 3)
    assert len(list(batches)) == 2 and shown()["train"]["elements"] == 3


def test_a_forked_child_serves_metrics() -> None:
    loader = ms.DataLoader(list(range(6)), batch_size=2, output="numpy", name="train")
    assert len(list(loader)) == 3

    def child() -> Any:
        list(loader)
        with ms.metrics.serve() as server, urllib.request.urlopen(f"{server.url}/metrics", timeout=20) as answer:
            return answer.read().decode()

    with ms.metrics.serve():
        assert 'millstream_loader_elements_total{loader="train"} 3' in in_child(child)


def test_a_trace_is_written_by_its_process(tmp_path: Any) -> None:
    loader = ms.DataLoader(list(range(6)), batch_size=2, output="numpy")

    with loader.profile(tmp_path / "trace.json"):
        profiled = loader._trace
        assert profiled is not None
        in_child(lambda: profiled.write(tmp_path / "child.json"))
    assert (tmp_path / "trace.json").exists() and not (tmp_path / "child.json").exists()


def test_epochs_of_a_dataset_have_one_name(cluster: Start) -> None:
    numbers = ms.Dataset.range(8).apply(distribute("parallel_epochs", cluster(1)))
    for epoch in range(1, 4):
        assert len(list(numbers)) == 8
        gc.collect()
        assert {name: one["elements"] for name, one in shown().items()} == {"reader 0": 8 * epoch}


def test_readers_are_counted_once(cluster: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ms.Dataset.range(8).apply(distribute("parallel_epochs", cluster(1)))
    held = [iter(numbers) for _ in range(5)]
    assert [len(list(elements)) for elements in held] == [8] * 5 and shown()["reader 0"]["elements"] == 40
    entry, seen = _live._entries[id(numbers)], list[float]()
    summed = _live._sum

    def looked(*arguments: Any) -> dict[str, float]:
        """Adds up the counts. Another viewer looks after each addition."""
        found = summed(*arguments)
        seen.append(summed(*entry.source._known)["elements"])  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(_live, "_sum", looked)
    # Only two iterators are measured from now on, and the counts of the others stay.
    monkeypatch.setattr(_live, "_ITERATORS_MAX", 2)
    held.append(iter(numbers))
    assert len(list(held[-1])) == 8 and shown()["reader 0"]["elements"] == 48
    assert seen == [40, 48] and len(entry.source._known[1]) == 2  # type: ignore[attr-defined]


def test_asynchronous_readers_are_shown(cluster: Start) -> None:
    numbers = ms.Dataset.range(8).apply(distribute("parallel_epochs", cluster(1)))

    async def read() -> int:
        return len([number async for number in numbers])

    assert asyncio.run(read()) == 8 and shown()["reader 0"]["elements"] == 8


def test_a_new_owner_continues_the_counts() -> None:
    for round in range(1, 4):
        named = ms.DataLoader([1, 2], output="numpy", name="train")
        plain = ms.DataLoader([1, 2, 3], output="numpy")
        assert len(list(named)) == 2 and len(list(plain)) == 3
        assert {name: one["elements"] for name, one in shown().items()} == {"train": 2 * round, "loader 0": 3 * round}
        del named, plain
        gc.collect()


def test_names_are_distinct_and_stay() -> None:
    loaders = [ms.DataLoader([1], output="numpy", name=name) for name in ("same", "same", "x" * 500, "x" * 500)]
    assert all(list(loader) for loader in loaders)
    names = list(shown())
    assert names[:2] == ["same", "same (1)"] and len(set(names)) == 4 and max(map(len, names)) <= 64
    del loaders[0]
    gc.collect()
    assert list(shown()) == names[1:]


def test_a_cut_name_shows_no_secret() -> None:
    secret = "0123456789abcdef"
    # A name is cut within the password, and a cut password is not recognised.
    loaders = [ms.DataLoader([1], output="numpy", name=f"https://reader:{secret}{'x' * 40}@host/data") for _ in range(2)]
    assert all(list(loader) for loader in loaders)
    assert list(shown()) == ["https://...@host/data", "https://...@host/data (1)"]
    with ms.metrics.serve() as server, urllib.request.urlopen(f"{server.url}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    assert 'millstream_loader_elements_total{loader="https://...@host/data"} 1' in text and secret not in text


def test_the_newest_loaders_are_shown() -> None:
    loaders = [ms.DataLoader([1], output="numpy", name=f"n{number}") for number in range(200)]
    assert all(list(loader) for loader in loaders)
    found, left_out = _live.observe()
    assert [one["name"] for one in found] == [f"n{number}" for number in range(136, 200)] and left_out == 136
    del loaders[150:]
    gc.collect()
    found, left_out = _live.observe()
    assert [one["name"] for one in found] == [f"n{number}" for number in range(86, 150)] and left_out == 86


def test_counts_of_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "_NAMES_MAX", 5)
    for number in range(12):
        assert list(ms.DataLoader([1], output="numpy", name=f"epoch {number}"))
    gc.collect()
    assert shown() == {} and list(_live._past) == [f"epoch {number}" for number in range(7, 12)]


def test_waits_never_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ticks, viewers, seen = WaitClock(), itertools.count(), list[threading.Thread](), [0.0]
    is_ending = False

    def now() -> float:
        """Returns the time. While a wait ends, another thread looks at the clock after the time was read."""
        tick = float(next(ticks))
        if is_ending and threading.current_thread() is threading.main_thread():
            viewer = threading.Thread(target=lambda: seen.append(clock.all_waited_s()))
            viewer.start()
            # The viewer may have to wait for the end of the wait.
            viewer.join(0.2)
            viewers.append(viewer)
        return tick

    monkeypatch.setattr("millstream._waits.time.perf_counter", now)
    clock.begin()
    for _ in range(3):
        clock.ask()
        is_ending = True
        clock.got(True)
        is_ending = False
        viewers.pop().join()
        seen.append(clock.all_waited_s())
    assert len(seen) == 7 and seen == sorted(seen)


class Reading:
    """The measurements of an iterator. ``look`` is called whenever someone looks."""

    def __init__(self, size: int, look: Callable[[Reading], object]) -> None:
        self.size, self.look = size, look

    def glance(self) -> dict[str, Any]:
        self.look(self)
        return {"bytes": self.size, "reconnects": 1, "lost_splits": None}


def test_counts_never_fall_between_epochs() -> None:
    clock, seen, loop = WaitClock(), list[float](), threading.current_thread()
    looks, has_moved = threading.Event(), threading.Event()

    def look(reading: Reading) -> None:
        """Lets the loop leave the iterator while the viewer looks. The count rises meanwhile."""
        if threading.current_thread() is not loop:
            looks.set()
            # The loop may have to wait for the viewer.
            has_moved.wait(0.2)
            reading.size += 1

    clock.follow(Reading(7, look))  # type: ignore[arg-type]
    for move in (lambda: clock.follow(Reading(0, look)), lambda: clock.follow(Reading(0, look)), clock.leave):  # type: ignore[arg-type]
        viewer = threading.Thread(target=lambda: seen.append(clock.counts()["bytes"]))
        viewer.start()
        assert looks.wait(WATCHDOG_S)
        move()
        has_moved.set()
        viewer.join()
        looks.clear()
        has_moved.clear()
        seen.append(clock.counts()["bytes"])
    assert seen == [8, 8, 9, 9, 10, 10] and clock.counts()["reconnects"] == 3
    assert clock.glance()["bytes"] == 1 and set(clock.counts()) == set(COUNTED)


@pytest.mark.parametrize("move", ["counts", "follow", "leave"])
def test_a_finaliser_may_measure(move: str) -> None:
    clock, other, seen = WaitClock(), WaitClock(), list[float]()

    class Last:
        """An object whose finaliser measures."""

        def __del__(self) -> None:
            other.follow(None)
            seen.append(clock.counts()["bytes"] + other.all_waited_s())

    def run() -> None:
        lasts = [Last()]
        # The finaliser runs within the measurement.
        clock.follow(Reading(7, lambda _: lasts.clear()))  # type: ignore[arg-type]
        {"counts": clock.counts, "follow": lambda: clock.follow(None), "leave": clock.leave}[move]()

    # A deadlock must not stop the tests.
    loop = threading.Thread(target=run, daemon=True)
    loop.start()
    loop.join(WATCHDOG_S)
    assert not loop.is_alive() and seen == [7] and clock.counts()["bytes"] == 7


def test_a_finaliser_may_read() -> None:
    reads = list[int]()

    class Last:
        """An object whose finaliser reads a loader."""

        def __del__(self) -> None:
            reads.append(len(list(ms.DataLoader([1, 2], output="numpy", name="last"))))

    class Source:
        """Counts, in which a finaliser runs."""

        def counts(self) -> dict[str, float]:
            lasts.clear()
            return dict.fromkeys(COUNTED, 1)

    class Owner:
        """The owner of a name, which ends soon."""

    def run() -> None:
        _live._add(Owner(), "gone", Source())  # type: ignore[arg-type]
        _live.observe()

    lasts = [Last()]
    # A deadlock must not stop the tests.
    loop = threading.Thread(target=run, daemon=True)
    loop.start()
    loop.join(WATCHDOG_S)
    assert not loop.is_alive() and reads == [2] and _live._past["gone"]["elements"] == 1


def test_a_port_in_use_registers_no_worker(cluster: Start) -> None:
    target = cluster(0)
    with ms.metrics.serve() as server:
        admin = server.url.removeprefix("http://")
        with pytest.raises(ms.errors.UnavailableError, match="cannot be opened"):
            ms.service.WorkerServer(ms.service.WorkerConfig(target, admin=admin))
        assert connect(target.partition("://")[2]).workers() == []
        with pytest.raises(ms.errors.UnavailableError, match="cannot be opened"):
            ms.service.DispatchServer(ms.service.DispatcherConfig(admin=admin))


#: A viewer reads the counts of a loader while the training loop holds the lock of measurements, and a finaliser shows all loaders.
CROSSING = """
import threading

import millstream as ms
from millstream import _live
from millstream._waits import COUNTED, lock

counting, shows = threading.Event(), threading.Event()

class Source:
    def counts(self):
        counting.set()
        # The finaliser has as much time as it gets, because the viewer may hold the lock that it needs.
        shows.wait(0.5)
        with lock():
            return dict.fromkeys(COUNTED, 1)

    def facts(self, owner):
        return {}

class Owner:
    pass

class Last:
    def __del__(self):
        shows.set()
        _live.observe()

owner, last = Owner(), Last()
_live._add(owner, "shown", Source())
viewer = threading.Thread(target=_live.observe)
viewer.start()
counting.wait()
with lock():
    del last
viewer.join()
"""


def test_a_finaliser_may_show_loaders_beside_a_viewer() -> None:
    # A deadlock must not stop the tests, so it happens in a process of its own.
    subprocess.run([sys.executable, "-c", CROSSING], timeout=WATCHDOG_S, check=True)
