"""Tests of a program's waits: standard error reports each wait without any configuration, and each wait has a timeout."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import millstream as ms
from millstream import Dataset
from millstream._connection import connect
from millstream.service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer, distribute

#: The timeout of these tests in seconds: ten times the expected time.
WATCHDOG_S = 120


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a Python program whose standard error can be read while it runs."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_with(process: subprocess.Popen[str], text: str) -> str:
    """Returns the first line on standard error that contains a text."""
    assert process.stderr is not None
    until, heard = time.monotonic() + WATCHDOG_S, []
    while time.monotonic() < until and (line := process.stderr.readline()):
        heard.append(line)
        if text in line:
            return line
    raise AssertionError(f"{text!r} was not said: {heard}")


READS = """
import sys
import millstream as ms
numbers = ms.Dataset.range(10).apply(ms.service.distribute("parallel_epochs", sys.argv[1]))
if sys.argv[2:] == ["operations"]:
    numbers = numbers.map(lambda x: x + 0)
print(sorted(int(number) for number in numbers))
"""


@pytest.mark.parametrize("operations", [[], ["operations"]])
def test_a_program_without_workers_names_its_wait(operations: list[str]) -> None:
    with DispatchServer() as dispatcher:
        address = dispatcher.target.split("://")[1]
        process = started(READS, address, *operations)
        line_with(process, f"waiting for workers: none registered at {address}")
        with WorkerServer(WorkerConfig(dispatcher.target)):
            said, _ = process.communicate(timeout=WATCHDOG_S)
    assert said == f"{list(range(10))}\n"


def test_a_wrong_port_is_reported_soon(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ms.errors.UnavailableError, match=r"could not be reached within 7 s, in \d attempts") as raised:
            connect(address, timeout_s=7)
        assert time.monotonic() - began >= 7
    assert address in str(raised.value)
    # Connections of other tests may also log messages.
    told = [line for line in caplog.messages if line.startswith(f"waiting for the dispatcher at {address} for 3 s: ")]
    assert told, caplog.messages


def test_an_absent_dispatcher_is_an_error(cluster: Callable[..., str], caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = DispatchServer(DispatcherConfig())
    address = dispatcher.target.split("://")[1]
    elements = iter(Dataset.range(3).apply(distribute("parallel_epochs", address, dispatcher_timeout_s=4)))
    connection = connect(address, dispatcher_timeout_s=4)
    assert connection.is_usable()
    dispatcher.stop()
    with pytest.raises(ms.errors.UnavailableError, match="out of reach for 4 s|could not be reached within"):
        next(elements)
    assert any("waiting for the dispatcher" in line for line in caplog.messages), caplog.messages


@pytest.mark.parametrize("notices", [False, True])
def test_a_restarted_dispatcher_serves_new_datasets(notices: bool) -> None:
    first = DispatchServer(DispatcherConfig())
    address = first.target.split("://")[1]
    terms = distribute("parallel_epochs", address)
    # The dataset holds the connection, which later datasets of this process share.
    held = Dataset.range(3).apply(terms)
    first.stop()
    second = DispatchServer(DispatcherConfig(port=int(address.rpartition(":")[2])))
    worker = WorkerServer(WorkerConfig(dispatcher_address=second.target))
    try:
        if notices:
            with pytest.raises(ms.errors.AbortedError, match="restarted without its memory"):
                list(held)
        assert list(Dataset.range(4).apply(terms)) == [0, 1, 2, 3]
        with pytest.raises(ms.errors.AbortedError, match="restarted without its memory"):
            list(held)
    finally:
        worker.stop()
        second.stop()


def test_a_variable_sets_the_dispatchers_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_DISPATCHER_TIMEOUT_S", "soon")
    with pytest.raises(ms.errors.InvalidArgumentError, match="MILLSTREAM_DISPATCHER_TIMEOUT_S"):
        connect("127.0.0.1:1", timeout_s=0)


def test_an_unknown_scheme_is_not_found() -> None:
    for service in ("grp://127.0.0.1:1", ("grp", "127.0.0.1:1")):
        with pytest.raises(ms.errors.NotFoundError, match="no scheme grp"):
            distribute("parallel_epochs", service)


def test_statistics_without_elements_blame_nobody(cluster: Callable[..., str], tmp_path: Path) -> None:
    elements = iter(Dataset.range(0).apply(distribute("parallel_epochs", cluster(1))))
    assert list(elements) == []
    # A reader that started before its worker may still report the wait for a worker.
    assert elements.stats()["bottleneck"] in ("none", "none: waiting for workers")
