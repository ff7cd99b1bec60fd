"""Tests of Python functions that return an iterable for each element.

A supervised process reads each iterable. In the tests the process raises, hangs, leaks, or is killed. The tests cover rows 244 and 247 of the table
of expectations.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, Limits, _code
from millstream.service import distribute

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])

INT = ms.TensorSpec((), ms.int64)


def run(function: Callable[[Any], Any], service: Any, count: int = 1, spec: Any = INT, **limits: Any) -> list[Any]:
    """Returns the elements that workers yield for the numbers below ``count``."""
    dataset = Dataset.range(count).flat_map_python(function, element_spec=spec, limits=Limits(**limits))
    return list(dataset.apply(distribute("distributed_epoch", service)))


def failure(function: Callable[[Any], Any], service: Any, **limits: Any) -> ms.errors.MillstreamError:
    """Returns the error that the trainer raises when ``function`` fails for 0."""
    with pytest.raises(ms.errors.MillstreamError) as raised:
        run(function, service, **limits)
    return raised.value


def test_an_iterable_runs_outside_the_worker(processes: ms.LocalService) -> None:
    def pids(x: Any) -> Iterator[tuple[int, int, bool]]:
        main = threading.current_thread() is threading.main_thread()
        yield from [(os.getpid(), os.getppid(), main)] * 3

    found = run(pids, processes, count=8, spec=(INT, INT, ms.TensorSpec((), ms.bool)))
    workers = {os.getpid(), *processes.pids}
    assert len(found) == 24 and all(bool(main) for _, _, main in found)
    assert not {int(pid) for pid, _, _ in found} & workers and not {int(parent) for _, parent, _ in found} & workers


def test_workers_and_this_process_yield_the_same(processes: ms.LocalService) -> None:
    def parts(row: Any) -> Iterator[Any]:
        for part in range(int(row["count"])):
            yield {"of": row["name"], "part": part, "data": np.full((part * 20_000,), part, np.int32)}

    counts = [0, 1, 4, 0, 3, 2]
    rows = Dataset.from_tensor_slices({"count": np.array(counts), "name": [f"n{count}" for count in counts]})
    spec = {"of": ms.TensorSpec((), ms.string), "part": INT, "data": ms.TensorSpec((None,), ms.int32)}
    dataset = rows.flat_map_python(parts, element_spec=spec)

    def told(elements: Any) -> list[tuple[Any, ...]]:
        return [(row["of"], int(row["part"]), row["data"].tolist()) for row in elements]

    here = told(dataset)
    assert [(name, part) for name, part, _ in here] == [(f"n{count}", part) for count in counts for part in range(count)]
    assert sorted(told(dataset.apply(distribute("distributed_epoch", processes)))) == sorted(here)
    with ms.local(workers=1, inline=True) as service:
        assert told(dataset.apply(distribute("distributed_epoch", service))) == here
    # The spec of the results is that of the first result.
    assert Dataset.range(3).flat_map_python(lambda x: [np.float32(x)] * 2).element_spec == ms.TensorSpec((), ms.float32)


def test_what_is_drawn_follows_from_the_element(processes: ms.LocalService) -> None:
    def drawn(x: Any) -> Iterator[Any]:
        for _ in range(3):
            yield random.random(), np.random.random()

    real = ms.TensorSpec((), ms.float64)
    epochs = [[tuple(map(float, row)) for row in run(drawn, processes, 8, (real, real))] for _ in range(2)]
    assert all(len({row[0] for row in epoch}) == len({row[1] for row in epoch}) == 24 for epoch in epochs)
    assert {row[0] for row in epochs[0]}.isdisjoint(row[0] for row in epochs[1])


def test_a_process_serves_the_next_element() -> None:
    def endless(x: Any) -> Iterator[int]:
        while True:
            yield os.getpid()

    def three(x: Any) -> Iterator[int]:
        yield from [os.getpid()] * 3

    with ms.local(workers=1, threads=1) as service:
        assert len({int(pid) for pid in run(three, service, count=5)}) == 1
        left = Dataset.range(1).flat_map_python(endless, element_spec=INT).take(4)
        first, second = ({int(pid) for pid in left.apply(distribute("parallel_epochs", service))} for _ in range(2))
        assert len(first) == 1 and first == second


def test_row_247_an_exception_follows_earlier_elements(processes: ms.LocalService) -> None:
    def breaks(x: Any) -> Iterator[int]:
        yield 1
        yield 2
        raise LookupError("no third")

    found = []
    with pytest.raises(ms.errors.UserFunctionError, match="LookupError: no third") as raised:
        for x in Dataset.range(1).flat_map_python(breaks, element_spec=INT).apply(distribute("distributed_epoch", processes)):
            found.append(int(x))
    assert found == [1, 2] and "in breaks" in raised.value.remote_traceback and raised.value.worker

    def picky(x: Any) -> Iterator[int]:
        yield 10 * int(x)
        if x == 1:
            raise ValueError("one")
        yield 10 * int(x) + 1

    # Only the remaining elements of the failed iterable are left out.
    dataset = Dataset.range(4).flat_map_python(picky, element_spec=INT).ignore_errors()
    assert sorted(map(int, dataset.apply(distribute("distributed_epoch", processes)))) == [0, 1, 10, 20, 21, 30, 31]
    assert "TypeError" in str(failure(lambda x: 7, processes))


def test_row_247_a_hanging_or_leaking_iterable_ends(processes: ms.LocalService) -> None:
    def stuck(x: Any) -> Iterator[int]:
        yield 1
        threading.Event().wait()

    error = failure(stuck, processes, deadline_s=0.5)
    assert "within 500ms (deadline_s)" in str(error) and "yielded 1 elements" in str(error)

    def grows(x: Any) -> Iterator[int]:
        held = []
        while True:
            held.append(os.urandom(1 << 20))
            yield len(held)

    # Each element is fast, but the memory grows.
    assert "more than the limit of 300 MiB (memory_bytes)" in str(failure(grows, processes, memory_bytes=300 << 20))


def test_row_244_only_silent_processes_are_replaced(
    processes: ms.LocalService, tmp_path: Path
) -> None:
    once = tmp_path / "once"

    def dies_at_first(x: Any) -> Iterator[int]:
        if x == 2 and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from [int(x)] * 3

    assert sorted(map(int, run(dies_at_first, processes, count=4))) == sorted(list(range(4)) * 3) and once.exists()

    def dies_later(x: Any) -> Iterator[int]:
        yield 1
        yield 2
        os.kill(os.getpid(), signal.SIGKILL)

    error = failure(dies_later, processes)
    assert "SIGKILL" in str(error) and "yielded 2 elements" in str(error) and "lost" in str(error)
    assert "status 5" in str(failure(lambda x: os._exit(5), processes))
    crashes = failure(lambda x: os.kill(os.getpid(), signal.SIGSEGV), processes, attempts=2)
    assert "SIGSEGV" in str(crashes) and "2 processes" in str(crashes)


def test_what_leaks_is_replaced_between_iterables(processes: ms.LocalService) -> None:
    def leaks(x: Any) -> Iterator[int]:
        sys.leaked = getattr(sys, "leaked", 0) + 1  # type: ignore[attr-defined]
        yield from [sys.leaked] * 4  # type: ignore[attr-defined]

    found = [int(calls) for calls in run(leaks, processes, count=12, recycle_after=2)]
    assert len(found) == 48 and max(found) == 2


def test_threaded_and_locked_imports_hang_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Like TensorFlow, one module starts a thread and needs it during the import, and another module needs the main thread.
    module = tmp_path / "needs_threads.py"
    module.write_text(
        "import signal, threading, time\n"
        "lock, ready = threading.Lock(), threading.Event()\n"
        "def work():\n"
        "    while True:\n"
        "        with lock:\n"
        "            ready.set()\n"
        "        time.sleep(0.001)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "assert ready.wait(60)\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "def count(x):\n"
        "    for number in range(int(x)):\n"
        "        with lock:\n"
        "            yield number\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with ms.local(workers=2) as service:
        assert sorted(map(int, run("needs_threads:count", service, count=6))) == sorted(n for x in range(6) for n in range(x))  # type: ignore[arg-type]
