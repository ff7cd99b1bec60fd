"""Tests of iterators in programs: laziness, several iterators, threads, forks, and Ctrl-C."""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

Start = Callable[..., str]


def test_iter_asks_nobody_before_the_first_element() -> None:
    dispatcher = ms.service.DispatchServer()
    dataset = Dataset.range(3).apply(distribute("parallel_epochs", dispatcher))
    dispatcher.stop()
    # The dispatcher has stopped, so `iter` must not send a request.
    elements = iter(dataset)
    assert iter(elements) is elements and next(dataset._passes) == 0


def test_several_iterators_are_several_passes(cluster: Start) -> None:
    for dataset in (Dataset.range(4), Dataset.range(4).apply(distribute("parallel_epochs", cluster(1)))):
        one, two = iter(dataset), iter(dataset)
        mixed = [(int(a), int(b)) for a, b in zip(one, two, strict=True)]
        assert mixed == [(x, x) for x in range(4)]
        assert next(one, "end") == next(one, "end") == "end"


def test_another_output_may_be_requested_every_epoch(cluster: Start) -> None:
    served = Dataset.range(4).apply(distribute("parallel_epochs", cluster(1)))
    for dataset in (served, served.map(lambda x: x), Dataset.range(4)):
        for _ in range(3):
            assert [int(x) for x in dataset.with_output("numpy")] == list(range(4))
            assert [int(x) for x in copy.copy(dataset)] == list(range(4))
            assert [int(x) for x in dataset.as_numpy_iterator()] == list(range(4))
    # In this process every iteration is a separate pass, too.
    shuffled = Dataset.range(64).shuffle(64)
    assert [int(x) for x in shuffled.with_output("numpy")] != [int(x) for x in shuffled.with_output("numpy")]


def test_a_distributed_dataset_is_read_again_after_pickling(cluster: Start) -> None:
    dataset = Dataset.range(5).apply(distribute("parallel_epochs", cluster(1)))
    assert [int(x) for x in dataset] == list(range(5))
    pickled = pickle.dumps(dataset)
    # Objects of itertools cannot be pickled from Python 3.14 on.
    assert b"itertools" not in pickled
    unpickled = pickle.loads(pickled)
    assert [int(x) for x in unpickled] == list(range(5))
    assert unpickled.element_spec == dataset.element_spec


def test_async_iteration_yields_the_same(cluster: Start) -> None:
    dataset = Dataset.range(100).apply(distribute("parallel_epochs", cluster(1)))

    async def read() -> list[int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        read = [int(element) async for element in dataset]
        ticking.cancel()
        assert ticks
        return read

    assert asyncio.run(read()) == list(range(100))


def test_other_threads_run_while_one_waits(cluster: Start) -> None:
    # Without workers no element ever arrives.
    elements = iter(Dataset.range(3).apply(distribute("parallel_epochs", cluster(0))))
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            next(elements)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    # This thread runs while the other thread waits, and ends the wait.
    elements.close()  # type: ignore[attr-defined]
    while thread.is_alive():
        elements.close()  # type: ignore[attr-defined]
        thread.join(0.01)
    assert [type(error) for error in failed] == [ms.errors.CancelledError]


def test_closing_ends_a_wait_without_a_service() -> None:
    dispatcher = ms.service.DispatchServer()
    worker = ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target))
    elements: Any = iter(Dataset.range(3).repeat().apply(distribute("parallel_epochs", dispatcher)))
    next(elements)
    dispatcher.stop()
    worker.stop()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while True:
                next(elements)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    elements.close()
    thread.join(60)
    assert [type(error) for error in failed] == [ms.errors.CancelledError]


def test_a_wait_ends_at_its_timeout(cluster: Start) -> None:
    # Without workers no element ever arrives.
    elements: Any = iter(Dataset.range(3).apply(distribute("parallel_epochs", cluster(0))))
    assert elements.within(0.01, "none") == "none"
    here: Any = iter(Dataset.range(1))
    assert here.within(60, "none") == 0
    with pytest.raises(StopIteration):
        here.within(60, "none")
    with pytest.raises(ms.errors.InvalidArgumentError, match="timeout_s"):
        here.within(-1, "none")


def test_threads_share_an_iterator_without_repeats() -> None:
    elements = iter(Dataset.range(2000))
    read: list[list[int]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda into=into: into.extend(map(int, elements))) for into in read]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(read, [])) == list(range(2000))


def run(program: str, *, interrupt: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a program, and optionally sends SIGINT after the program has printed that it waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if interrupt:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=240)
    return subprocess.CompletedProcess([], process.returncode, said, complained)


@pytest.mark.parametrize(
    "waits",
    [
        "next(iter(ms.Dataset.range(3).apply(ms.service.distribute('parallel_epochs', dispatcher))))",
        "next(iter(ms.Dataset.range(3).apply(ms.service.distribute('parallel_epochs', dispatcher)).batch(2)))",
        "ms.service.distribute('parallel_epochs', 'localhost:9')(ms.Dataset.range(3))",
        "ms.service.WorkerServer(ms.service.WorkerConfig('localhost:9'))",
        "next(iter(loader))",
        "loader.start_prefetch() or next(iter(loader))",
        "next(iter(ms.DataLoader(ms.Dataset.range(3), service=dispatcher, timeout=1000)))",
        "asyncio.run(first(loader))",
        "asyncio.run(first(ms.Dataset.range(3).apply(ms.service.distribute('parallel_epochs', dispatcher))))",
        "shared = iter(ms.Dataset.range(3).apply(ms.service.distribute('parallel_epochs', dispatcher)))\n"
        "            threading.Thread(target=next, args=(shared,), daemon=True).start()\n"
        "            time.sleep(0.1)\n"
        "            next(shared)",
        "dispatcher.join()",
        "next(iter(ms.Dataset.range(1 << 60).filter(lambda x: x < 0)))",
    ],
)
def test_ctrl_c_ends_whatever_waits(waits: str) -> None:
    ended = run(
        f"""
        import asyncio, signal, sys, threading, time
        import millstream as ms
        signal.signal(signal.SIGINT, signal.default_int_handler)
        dispatcher = ms.service.DispatchServer()
        loader = ms.DataLoader(ms.Dataset.range(3), service=dispatcher)
        async def first(elements):
            async for element in elements:
                return element
        def tell():
            # The sleep lets the main thread enter the library. No condition shows this state.
            time.sleep(0.5)
            print("waits", flush=True)
        threading.Thread(target=tell, daemon=True).start()
        try:
            {waits}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
        interrupt=True,
    )
    assert (ended.stdout, ended.returncode) == ("interrupted\n", 0), ended.stderr


def test_a_program_ends_despite_endless_prefetching() -> None:
    ended = run(
        """
        import millstream as ms
        loader = ms.DataLoader(ms.Dataset.range(3), service=ms.service.DispatchServer())
        loader.start_prefetch()
        """,
    )
    assert ended.returncode == 0, ended.stderr


def in_child(dataset: Dataset, elements: Any, told: Any) -> None:
    """Uses the inherited dataset and iterator in a child process."""
    if elements is not None:
        try:
            next(elements)
        except RuntimeError as error:
            told.put(str(error))
        else:
            told.put("it went on")
    told.put([int(element) for element in dataset])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("is_distributed", [False, True])
def test_only_datasets_survive_a_fork(
    method: str, is_distributed: bool, processes: ms.LocalService
) -> None:
    dataset = Dataset.range(50)
    if is_distributed:
        dataset = dataset.apply(distribute("distributed_epoch", processes))
    # The parent has read elements, so its threads run.
    assert sorted(int(element) for element in dataset) == list(range(50))
    elements = iter(dataset)
    next(elements)
    context = multiprocessing.get_context(method)
    told = context.Queue()
    inherited = elements if method == "fork" else None
    child = context.Process(target=in_child, args=(dataset, inherited, told))
    child.start()
    if inherited is not None:
        assert "before the process was forked" in told.get(timeout=240)
    assert sorted(told.get(timeout=240)) == list(range(50))
    child.join(240)
    assert child.exitcode == 0
    # The fork has not affected the parent's iterator.
    assert len(list(elements)) == 49


def test_a_program_ends_with_live_iterators() -> None:
    ended = run(
        """
        import numpy as np
        import millstream as ms
        service = ms.local(workers=1, inline=True)
        endless = ms.Dataset.from_tensors(np.zeros(5000)).repeat()
        readers = [iter(endless), iter(endless.apply(ms.service.distribute("parallel_epochs", service)))]
        kept = [next(reader) for reader in readers for _ in range(3)]
        print("ends")
        """
    )
    assert (ended.stdout, ended.returncode, ended.stderr) == ("ends\n", 0, "")
