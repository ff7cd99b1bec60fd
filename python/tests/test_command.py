"""Tests of the command ``millstream`` with Python interpreters for workers, and of the errors for unsuitable interpreters."""

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
from millstream import Dataset, _code
from millstream._connection import connect
from millstream.service import distribute

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: The path of the command. ``python/check`` sets the variable to the command that it has built.
COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")

pytestmark = pytest.mark.skipif(COMMAND is None, reason="there is no command millstream: python/check builds it")

INT = ms.TensorSpec((), ms.int64)

Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Yields a function that starts a dispatcher and a worker with an interpreter. Returns the address; each process logs to a file."""
    with ExitStack() as ending:

        def began(
            *arguments: str, command: str = str(COMMAND), path: str = os.environ["PATH"], directory: Path | None = None
        ) -> str:
            log = ending.enter_context((tmp_path / f"{arguments[0]}.log").open("wb"))
            environment = {**os.environ, "PYTHONPATH": PACKAGE, "PATH": path}
            process = subprocess.Popen(
                [command, *arguments, "--until-stdin-closes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=directory,
            )
            ending.callback(process.wait)
            ending.enter_context(process.stdin)  # type: ignore[arg-type]
            ending.enter_context(process.stdout)  # type: ignore[arg-type]
            line = process.stdout.readline()  # type: ignore[union-attr]
            assert " on " in line, (tmp_path / f"{arguments[0]}.log").read_text()
            return line.split(" on ")[1].split()[0].rstrip(",;")

        def both(python: str | Path | None, **how: Any) -> str:
            address = began("dispatcher", "--bind", "127.0.0.1:0")
            chosen = () if python is None else ("--python", str(python))
            began("worker", "--dispatcher", address, "--threads", "2", *chosen, **how)
            return address

        yield both


PACKAGE = str(Path(ms.__file__).parents[1])


def failure(address: str, function: Any = abs, **arguments: Any) -> str:
    """Returns the message of the error that the trainer raises."""
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
    # The same worker receives the name of a module that does not exist.
    assert "no_such_module" in failure(address, "no_such_module:f")


def test_code_sees_no_secret_of_its_worker(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    key = subprocess.run([str(COMMAND), "key"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setenv("MILLSTREAM_KEY", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    monkeypatch.setenv("DATABASE_URL", "planted")
    monkeypatch.setenv("MILLSTREAM_PYTHON_ENV", "DATA_ROOT, MILLSTREAM_KEY")
    monkeypatch.setenv("DATA_ROOT", "/data")
    address = start(sys.executable)
    seen = Dataset.range(1).map_python(lambda _: "\n".join(f"{name}={value}" for name, value in os.environ.items()))
    [variables] = [str(text) for text in seen.apply(distribute("parallel_epochs", address))]
    assert "planted" not in variables and key not in variables
    assert "DATA_ROOT=/data" in variables and "PATH=" in variables


def test_modules_of_the_current_directory_are_not_imported(start: Start, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for module in ("json", "numpy", "millstream"):
        (shared / f"{module}.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w').close()\n")
    address = start(sys.executable, directory=shared)
    squares = Dataset.range(3).map_python(lambda x: x * x, element_spec=INT)
    assert sorted(squares.apply(distribute("distributed_epoch", address))) == [0, 1, 4]
    assert not (tmp_path / "taken").exists()


def test_code_of_another_version_of_python_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    address = start(sys.executable)
    here = _code._this_python()
    monkeypatch.setattr(_code, "_this_python", lambda: {**here, "python": "2.7"})
    found = failure(address)
    assert f"the trainer runs cpython 2.7, this worker cpython {here['python']}" in found


def program(path: Path, text: str) -> Path:
    """Writes a shell script, and creates its directory if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_environments_command_uses_its_interpreter(start: Start, tmp_path: Path) -> None:
    installed = tmp_path / "environment" / "bin"
    program(installed / "python3", f'RUN_BY="the environment" exec {sys.executable} "$@"')
    command = shutil.copy(str(COMMAND), installed / "millstream")
    # PATH contains another interpreter first, and a link in the folder of the other interpreter starts the command.
    other = program(tmp_path / "bin" / "python3", "exit 3")
    link = other.with_name("millstream")
    link.symlink_to(command)
    how = {"command": str(link), "path": f"{other.parent}:/usr/bin:/bin"}

    def run_by(_: int) -> int:
        return int(os.environ.get("RUN_BY") == "the environment")

    address = start(None, **how)
    dataset = Dataset.range(3).map_python(run_by, element_spec=INT).apply(distribute("parallel_epochs", address))
    assert [int(x) for x in dataset] == [1, 1, 1]
    # The flag --python overrides the interpreter of the environment.
    assert "/no/such/python3 cannot be started" in failure(start("/no/such/python3", **how))


def test_an_interpreter_that_is_not_there_is_named(start: Start) -> None:
    found = failure(start("/no/such/python3"))
    assert "/no/such/python3 cannot be started" in found and "--python" in found and "MILLSTREAM_PYTHON" in found


LACKING = {
    "No module named 'millstream': install millstream and numpy": 'exec {python} -I -S "$@"',
    "No module named 'numpy': install millstream and numpy": 'exec {python} -S "$@"',
    "its process has ended. Choose an interpreter": "exit 3",
}


@pytest.mark.parametrize("expected", LACKING)
def test_an_interpreter_names_its_missing_module(expected: str, start: Start, tmp_path: Path) -> None:
    other = program(tmp_path / "python3", LACKING[expected].format(python=sys.executable))
    found = failure(start(other))
    assert f"{other} does not run code: {expected}" in found
    assert "--python" in found and "MILLSTREAM_PYTHON" in found


def test_a_refused_isolation_is_an_error(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = ["import millstream._isolation", "def refuse(*_): raise OSError('no Landlock here')", "millstream._isolation.restrict = refuse"]
    (tmp_path / "sitecustomize.py").write_text("\n".join(patch))
    other = program(tmp_path / "bin" / "python3", f'PYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"')
    monkeypatch.setenv("MILLSTREAM_ISOLATION", "strict")
    assert f"{other} does not run code: no Landlock here" in failure(start(other))


def test_a_loopback_worker_refuses_dispatchers_elsewhere() -> None:
    ended = subprocess.run([str(COMMAND), "worker", "--dispatcher", "198.51.100.7:5050"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "bound to 127.0.0.1, from which the dispatcher at 198.51.100.7:5050 cannot be reached" in ended.stderr
    assert "--bind 0.0.0.0:0" in ended.stderr and "sendmsg" not in ended.stderr


def test_a_refused_key_is_named_by_its_file(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = start(None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    with pytest.raises(ms.errors.PermissionDeniedError, match="own key file .*/other/millstream/cluster.key, because MILLSTREAM_KEY is not set"):
        list(Dataset.range(3).apply(distribute("parallel_epochs", address)))
    monkeypatch.setenv("MILLSTREAM_KEY", str(tmp_path / "absent.key"))
    with pytest.raises(ms.errors.NotFoundError, match="absent.key"):
        list(Dataset.range(3).apply(distribute("parallel_epochs", address)))


def test_a_port_in_use_registers_no_worker(cluster: Start) -> None:
    target = cluster(0).partition("://")[2]
    with ms.metrics.serve() as server:
        command = [str(COMMAND), "worker", "--dispatcher", target, "--bind", "127.0.0.1:0", "--admin", server.url.removeprefix("http://")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and "cannot be opened" in ended.stderr, ended.stderr
    assert connect(target).workers() == []
