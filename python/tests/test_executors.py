"""Tests of executors, the processes in which workers run user code.

The tests check the arguments and seeds of executors, and the results when code raises, hangs, exits, crashes, leaks or is killed. The
tests cover rows 244 and 247 of the table of expectations.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
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
    """Returns the function's results for the numbers below ``count``, computed by workers."""
    dataset = Dataset.range(count).map_python(function, element_spec=spec, num_parallel_calls=2, limits=Limits(**limits))
    return list(dataset.apply(distribute("distributed_epoch", service)))


def failure(function: Callable[[Any], Any], service: Any, **limits: Any) -> ms.errors.MillstreamError:
    """Returns the error that the trainer raises when ``function`` fails for 0."""
    with pytest.raises(ms.errors.MillstreamError) as raised:
        run(function, service, **limits)
    return raised.value


def children(pid: int) -> list[int]:
    """Returns the ids of a process's descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # A thread may end while it is looked at.
            for child in map(int, task.read_text().split()):
                found += [child, *children(child)]
    return found


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition is true. The watchdog ends a wait that takes too long."""
    while not condition():
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_code_runs_outside_the_worker(processes: ms.LocalService) -> None:
    pids = {int(pid) for pid in run(lambda x: os.getpid(), processes, count=20)}
    assert pids and not pids & {os.getpid(), *processes.pids}
    assert {int(parent) for parent in run(lambda x: os.getppid(), processes)}.isdisjoint(processes.pids)


def test_elements_of_all_kinds_and_sizes_travel(processes: ms.LocalService) -> None:
    sizes = [0, 1, 100, 5_000, 100_000, 1_000_000, 3, 400_000]
    rows = {"a": np.arange(8), "text": [str(size) for size in sizes]}

    def grown(row: Any) -> Any:
        count = int(row["text"])
        return {"big": np.arange(count, dtype=np.int32).reshape(1, -1), "words": [row["text"]] * 3, "raw": b"\0x\0", "a": row["a"]}

    varying = {
        "big": ms.TensorSpec((1, None), ms.int32),
        "words": ms.TensorSpec((3,), ms.string),
        "raw": ms.TensorSpec((), ms.bytes),
        "a": INT,
    }
    made = Dataset.from_tensor_slices(rows).map_python(grown, element_spec=varying)
    # The results of one function are the arguments of another, so arguments are large, too.
    both = made.map_python(
        lambda row: (row, row["big"].sum(dtype=np.int64), row["big"].flags.writeable),
        element_spec=(varying, INT, ms.TensorSpec((), ms.bool)),
    )
    counts = []
    for row, total, is_writable in both.apply(distribute("distributed_epoch", processes)):
        count = int(row["words"][0])
        counts.append(count)
        assert row["big"].tolist() == [list(range(count))] and row["raw"] == b"\0x\0" and len(row["words"]) == 3
        assert (int(total), bool(is_writable)) == (count * (count - 1) // 2, True)
    assert sorted(counts) == sorted(sizes)


def test_draws_follow_from_element_and_seed(
    processes: ms.LocalService,
) -> None:
    def drawn(x: Any) -> Any:
        return x, random.random(), np.random.random()

    real = ms.TensorSpec((), ms.float64)
    epochs = [[tuple(map(float, row)) for row in run(drawn, processes, 30, (INT, real, real))] for _ in range(2)]
    assert all(len({row[1] for row in epoch}) == len({row[2] for row in epoch}) == 30 for epoch in epochs)
    assert {row[1] for row in epochs[0]}.isdisjoint(row[1] for row in epochs[1])


def test_several_processes_read_one_iterable_together(processes: ms.LocalService) -> None:
    def numbers() -> Iterator[int]:
        yield from [os.getpid()] * 4

    with ms.local(workers=1) as service:
        limits = Limits(processes=3)
        pids = [int(pid) for pid in ms.distribute(numbers, service, element_spec=INT, limits=limits)]
    # The processes deliver elements in turn, like the processes of a DataLoader.
    assert len(pids) == 12 and len(set(pids)) == 3 and pids[:3] == pids[3:6]


class Odd(Exception):
    """An exception that takes several arguments, contains an object that cannot be pickled, and has a type that the trainer does not know."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.lock = threading.Lock()


def test_row_247_any_exception_is_reported(processes: ms.LocalService) -> None:
    def raises(x: Any) -> Any:
        raise Odd(7, "seven")

    error = failure(raises, processes)
    assert "Odd: (7, 'seven')" in str(error) and "in raises" in error.remote_traceback
    assert isinstance(error, ms.errors.UserFunctionError) and error.worker


def test_row_247_a_huge_message_is_shortened(processes: ms.LocalService) -> None:
    def raises(x: Any) -> Any:
        raise ValueError("begin" + "x" * (10 << 20) + "end")

    error = failure(raises, processes)
    assert len(str(error)) < 200_000
    assert "begin" in str(error) and "xend" in str(error) and "bytes left out" in str(error)


def test_row_247_system_exit_is_an_error(processes: ms.LocalService) -> None:
    def leaves(x: Any) -> Any:
        sys.exit(3)

    assert "SystemExit: 3" in str(failure(leaves, processes))
    assert "status 5" in str(failure(lambda x: os._exit(5), processes))
    assert [int(x) for x in run(lambda x: x, processes)] == [0]


def test_row_247_a_crash_names_its_signal(processes: ms.LocalService) -> None:
    def crashes(x: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)

    error = failure(crashes, processes, attempts=2)
    assert "SIGSEGV" in str(error) and "2 processes" in str(error)
    assert "SIGKILL" in str(failure(lambda x: os.kill(os.getpid(), signal.SIGKILL), processes, attempts=1))
    assert [int(x) for x in run(lambda x: x, processes)] == [0]


def test_row_247_a_hang_ends_at_its_deadline(processes: ms.LocalService) -> None:
    def hangs(x: Any) -> Any:
        while True:
            pass

    assert "within 500ms (deadline_s)" in str(failure(hangs, processes, deadline_s=0.5))

    def stuck() -> Iterator[int]:
        yield 1
        threading.Event().wait()

    with pytest.raises(ms.errors.UserFunctionError, match="deadline_s"):
        list(ms.distribute(stuck, processes, element_spec=INT, limits=Limits(deadline_s=0.5)))


def test_row_247_an_overuse_of_memory_ends(processes: ms.LocalService) -> None:
    def grows(x: Any) -> Any:
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20)))

    assert "more than the limit of 400 MiB (memory_bytes)" in str(failure(grows, processes, memory_bytes=400 << 20))


def test_what_leaks_is_replaced_and_nothing_is_lost(processes: ms.LocalService) -> None:
    def leaks(x: Any) -> Any:
        sys.leaked = [*getattr(sys, "leaked", []), bytearray(8 << 20)]  # type: ignore[attr-defined]
        return len(sys.leaked)  # type: ignore[attr-defined]

    assert max(int(calls) for calls in run(leaks, processes, count=30, recycle_after=5)) <= 5


def test_raising_and_ragged_generators_are_named(processes: ms.LocalService) -> None:
    def breaks() -> Iterator[Any]:
        yield 1
        raise LookupError("no second")

    with pytest.raises(ms.errors.UserFunctionError, match="LookupError: no second"):
        list(ms.distribute(breaks, processes, element_spec=INT))

    def ragged() -> Iterator[Any]:
        yield from [np.zeros(2), np.zeros(3)]

    with pytest.raises(ms.errors.UserFunctionError, match="shapes"):
        list(ms.distribute(ragged, processes, batch_size=2, element_spec=ms.TensorSpec((None, 2), ms.float64)))


def test_elements_that_kill_processes_can_be_omitted(processes: ms.LocalService) -> None:
    def picky(x: Any) -> Any:
        if x == 3:
            os._exit(1)
        return x

    dataset = Dataset.range(6).map_python(picky, element_spec=INT).ignore_errors()
    found = [int(x) for x in dataset.apply(distribute("distributed_epoch", processes))]
    assert sorted(found) == [0, 1, 2, 4, 5]


def test_unloadable_code_is_reported_before_computing(processes: ms.LocalService) -> None:
    class Sealed:
        def __reduce__(self) -> Any:
            return (int, ("no number",))

    sealed = Sealed()
    error = failure(lambda x: sealed, processes)
    assert "cannot be loaded" in str(error) and "no number" in str(error)
    assert isinstance(error, ms.errors.InvalidArgumentError)


def test_an_interpreter_that_is_missing_is_named(cluster: Callable[..., str]) -> None:
    target = cluster(1, python="/no/such/python")
    error = failure(lambda x: x, target)
    assert "/no/such/python" in str(error) and "MILLSTREAM_PYTHON" in str(error)


def test_inline_workers_run_code_in_this_process() -> None:
    with ms.local(workers=1, inline=True) as service:
        assert {int(pid) for pid in run(lambda x: os.getpid(), service, count=3)} == {os.getpid()}


def test_row_244_killed_processes_lose_and_repeat_nothing() -> None:
    # `ci/full` sets a larger number.
    kills = int(os.environ.get("MILLSTREAM_KILLS", "3"))
    generator = random.Random(kills)

    def slow(x: Any) -> Any:
        time.sleep(0.005)
        return x

    with ms.local(workers=1, threads=2) as service:
        worker = service.pids[1]
        limits = Limits(attempts=10)
        dataset = Dataset.range(50 * kills + 50).map_python(slow, element_spec=INT, num_parallel_calls=2, limits=limits)
        found = []
        for x in dataset.apply(distribute("distributed_epoch", service)):
            found.append(int(x))
            if len(found) % 50 == 0 and kills:
                # The victim may be a foreman or an executor.
                until(lambda: bool(children(worker)))
                os.kill(generator.choice(children(worker)), signal.SIGKILL)
                kills -= 1
        assert found == list(range(len(found))) and not kills
        left = children(worker)
        assert not shared_files(worker)
    until(lambda: all(map(is_gone, left)))


def shared_files(pid: int) -> list[str]:
    """Returns the open memory files that a process shares with its Python processes."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(fd))
    return [file for file in found if "millstream-python" in file or "millstream-code" in file]


def test_processes_end_with_a_worker_that_is_killed() -> None:
    with ms.local(workers=1) as service:
        worker = service.pids[1]
        assert run(lambda x: x, service, count=3)
        started = children(worker)
        assert started
        os.kill(worker, signal.SIGKILL)
        until(lambda: all(map(is_gone, started)))


def test_a_torch_loader_knows_its_number() -> None:
    torch = pytest.importorskip("torch")

    class Told(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> Any:
            info = torch.utils.data.get_worker_info()
            return {
                "index": torch.tensor(index),
                "id": info.id,
                "of": info.num_workers,
                "seen": len(info.dataset),
                "begun": getattr(sys, "begun", -1),
                "drawn": torch.rand(()),
                "half": torch.full((2,), 0.5, dtype=torch.bfloat16),
            }

    def begin(worker: int) -> None:
        sys.begun = worker  # type: ignore[attr-defined]

    loader = torch.utils.data.DataLoader(Told(), batch_size=4, num_workers=2, worker_init_fn=begin, timeout=60)

    def element(name: str, dtype: Any) -> Any:
        return ms.TensorSpec((None, 2) if name == "half" else (None,), dtype)

    # The spec is declared, because `get_worker_info()` returns None in this process.
    spec = {name: element(name, ms.int64) for name in ("index", "id", "of", "seen", "begun")}
    spec |= {"drawn": element("drawn", ms.float32), "half": element("half", ms.bfloat16)}
    with ms.local(workers=1, threads=2) as service:
        batches = list(ms.distribute(loader, service, element_spec=spec))
    assert sorted(int(index) for batch in batches for index in batch["index"]) == list(range(40))
    for batch in batches:
        assert batch["id"].tolist() == batch["begun"].tolist() and set(batch["id"].tolist()) <= {0, 1}
        assert set(batch["of"].tolist()) == {2} and set(batch["seen"].tolist()) == {40}
    assert len({float(drawn) for batch in batches for drawn in batch["drawn"]}) == 40


def test_workers_stop_computing_for_readers_that_have_left(tmp_path: Path) -> None:
    def noted(x: Any) -> int:
        with (tmp_path / f"of {x // 100_000}").open("a") as calls:
            calls.write("x")
        time.sleep(0.002)
        return int(x)

    with ms.local(workers=1, threads=2) as service:

        def read(first: int, count: int) -> None:
            numbers = Dataset.range(first, first + 100_000).map_python(noted, element_spec=INT, num_parallel_calls=1)
            elements = iter(numbers.apply(distribute("distributed_epoch", service)))
            for _ in range(count):
                next(elements)

        read(0, 3)
        # This read takes long enough for the worker to notice that the previous reader has left.
        read(100_000, 500)
        left = (tmp_path / "of 0").stat().st_size
        read(200_000, 500)
        assert (tmp_path / "of 0").stat().st_size == left < 400


@pytest.mark.parametrize("is_read", [True, False])
def test_a_foreman_releases_what_it_imported(tmp_path: Path, is_read: bool) -> None:
    """A worker that stops may close the socket before it reads the last answer."""
    released = tmp_path / "released"
    (tmp_path / "ms_counted.py").write_text(
        "class Counted:\n"
        "    def __del__(self, path=" + repr(str(released)) + ", open=open):\n"
        "        open(path, 'w').close()\n"
        "\n"
        "KEPT = Counted()\n"
        "KEPT.itself = KEPT\n"
    )
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    foreman = subprocess.Popen(
        [sys.executable, "-m", "millstream._foreman", str(os.getpid())], stdin=other, env={**os.environ, "PYTHONPATH": path}
    )
    other.close()
    described, code = b"{}", json.dumps({"modules": ["ms_counted"]}).encode() + b"\n"
    file = os.memfd_create("code")
    os.write(file, described + code)
    socket.send_fds(own, [struct.pack("<BQQ", 1, len(described), len(code))], [file])
    os.close(file)
    assert own.recv(64, 0 if is_read else socket.MSG_PEEK)[:1] == b"\1"
    assert not released.exists()
    own.close()
    assert foreman.wait(60) == 0
    assert released.exists()


def test_sessions_of_code_end_with_its_executor(processes: ms.LocalService, tmp_path: Path) -> None:
    noted = tmp_path / "pids"

    def escapes(number: int) -> int:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with open(noted, "a") as file:
                    file.write(f"{os.getpid()}\n")
                time.sleep(600)
            os._exit(0)
        os.wait()
        while not os.path.exists(noted):
            time.sleep(0.01)
        if number == 1:
            os._exit(1)
        return number

    failure(lambda _: escapes(1), processes, attempts=1)
    until(lambda: all(not Path(f"/proc/{pid}").exists() for pid in noted.read_text().split()))


def test_code_gains_no_rights_by_starting_a_program(processes: ms.LocalService) -> None:
    def confined(_: int) -> int:
        with open("/proc/self/status") as status:
            return int(dict(line.split(":\t", 1) for line in status)["NoNewPrivs"])

    assert run(confined, processes) == [1]


def test_the_memory_of_what_code_starts_counts(processes: ms.LocalService) -> None:
    def grows(_: int) -> int:
        if os.fork() == 0:
            kept = bytearray(200 << 20)
            time.sleep(600)
            os._exit(len(kept))
        time.sleep(600)
        return 0

    assert "memory_bytes" in str(failure(grows, processes, attempts=1, memory_bytes=150 << 20))


def test_a_fork_bomb_is_ended(processes: ms.LocalService) -> None:
    def explodes(_: int) -> int:
        for _ in range(300):
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        time.sleep(600)
        return 0

    assert "more than 256 processes" in str(failure(explodes, processes, attempts=1))
    until(lambda: all(len(children(pid)) < 200 for pid in processes.pids))
