"""Workers and dispatchers of the command ``millstream``, with interpreters of their own: what a trainer is told of each that does not do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, code
from millstream.service import distribute

# Workers do not have this module: what is in it goes by value.
code.cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: ``check`` says which was built with the extension.
COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")

pytestmark = pytest.mark.skipif(COMMAND is None, reason="there is no command millstream: client/python/check builds it")

INT = ms.TensorSpec((), ms.int64)

Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a dispatcher, and a worker with an interpreter, by the command; gives the address. What they say goes to a file each."""
    with ExitStack() as ending:

        def began(*arguments: str) -> str:
            log = ending.enter_context((tmp_path / f"{arguments[0]}.log").open("wb"))
            command = [str(COMMAND), *arguments, "--until-stdin-closes"]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONPATH": PACKAGE}
            )
            ending.callback(process.wait)
            ending.enter_context(process.stdin)  # type: ignore[arg-type]
            ending.enter_context(process.stdout)  # type: ignore[arg-type]
            line = process.stdout.readline()  # type: ignore[union-attr]
            assert " on " in line, (tmp_path / f"{arguments[0]}.log").read_text()
            return line.split(" on ")[1].split()[0].rstrip(",;")

        def both(python: str | Path) -> str:
            address = began("dispatcher", "--bind", "127.0.0.1:0")
            began("worker", "--dispatcher", address, "--threads", "2", "--python", str(python))
            return address

        yield both


PACKAGE = str(Path(ms.__file__).parents[1])


def failure(address: str, function: Any = abs, **arguments: Any) -> str:
    """What the trainer is told."""
    with pytest.raises(ms.errors.MillstreamError) as raised:
        list(Dataset.range(3).map_python(function, element_spec=INT, **arguments).apply(distribute("parallel_epochs", address)))
    return str(raised.value)


class Rows:
    """A dataset by index."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(3, index), "by": os.getppid()}


def test_code_runs_on_a_worker_of_the_command(start: Start) -> None:
    address = start(sys.executable)
    batches = list(ms.distribute(Rows(), address, batch_size=8))
    assert sorted(int(x) for batch in batches for x in batch["x"][:, 0]) == list(range(50))
    assert os.getpid() not in {int(by) for batch in batches for by in batch["by"]}
    loader = ms.DataLoader(Rows(), 8, service=f"millstream://{address}", output="numpy", dp_rank=0, dp_size=1)
    assert [int(x) for batch in loader for x in batch["x"][:, 0]] == list(range(50))
    # The same worker, asked for what it has not.
    assert "no_such_module" in failure(address, "no_such_module:f")


def test_code_of_another_version_of_python_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    address = start(sys.executable)
    here = code._this_python()
    monkeypatch.setattr(code, "_this_python", lambda: {**here, "python": "2.7"})
    found = failure(address)
    assert f"the trainer runs cpython 2.7, this worker cpython {here['python']}" in found


def test_an_interpreter_that_is_not_there_is_named(start: Start) -> None:
    found = failure(start("/no/such/python3"))
    assert "/no/such/python3 cannot be started" in found and "--python" in found and "MILLSTREAM_PYTHON" in found


@pytest.mark.parametrize("program", ["exec {python} -I -S \"$@\"", "exit 3"])
def test_an_interpreter_without_the_package_is_named(program: str, start: Start, tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\n{program.format(python=sys.executable)}\n")
    other.chmod(0o755)
    found = failure(start(other))
    assert f"{other} does not run code" in found and "The package millstream must be installed there" in found
