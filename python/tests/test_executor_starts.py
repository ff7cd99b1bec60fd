"""Tests of the start of executors, the processes in which workers run user code.

Imports can take longer than a task lasts. A task that ends meanwhile must therefore leave the importing process to the next task.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")

pytestmark = pytest.mark.skipif(COMMAND is None, reason="needs the command `millstream`: set MILLSTREAM_COMMAND")


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition is true. The watchdog ends a wait that takes too long."""
    while not condition():
        time.sleep(0.05)


def tasks(service: ms.LocalService) -> int:
    """Returns the number of tasks of the only worker."""
    command = [str(COMMAND), "status", "--json", "--dispatcher", service.target.partition("://")[2]]
    status = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return int(status["workers"][0]["tasks"])


@pytest.mark.parametrize("is_killed", [False, True])
def test_imports_outlive_the_task_that_began_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool) -> None:
    """A process that is killed while no task waits for it is replaced, and fails no task."""
    starts, go = tmp_path / "starts", tmp_path / "go"
    # Each process that imports the module writes its number, and waits for the file `go`.
    (tmp_path / "ms_slow_imports.py").write_text(
        "import os, pathlib, time\n"
        f"with open({str(starts)!r}, 'a') as starts:\n"
        "    starts.write(f'{os.getpid()} ')\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n"
        "    time.sleep(0.01)\n"
        "\n"
        "def same(x):\n"
        "    return x\n"
    )
    go.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ms_slow_imports", raising=False)
    same = importlib.import_module("ms_slow_imports").same
    go.unlink()
    starts.unlink()
    with ms.local(workers=1) as service:
        # The first element needs no Python, so that the reader gets it at once.
        slow = Dataset.range(1, 4).map_python(same, element_spec=ms.TensorSpec((), ms.int64), num_parallel_calls=1)
        numbers = Dataset.range(1).concatenate(slow).apply(distribute("parallel_epochs", service))
        elements = iter(numbers)
        next(elements)
        until(lambda: starts.exists() and starts.read_text().endswith(" "))
        del elements
        until(lambda: tasks(service) == 0)
        if is_killed:
            os.kill(int(starts.read_text()), signal.SIGKILL)
        go.touch()
        assert [int(x) for x in numbers] == [0, 1, 2, 3]
    assert len(starts.read_text().split()) == (2 if is_killed else 1), "each process that imported the module"
