"""Tests of the permitted and forbidden actions of code under ``--isolation strict``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
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

STRING = ms.TensorSpec((), ms.string)


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    folder = tmp_path / "readable"
    folder.mkdir()
    (folder / "data.txt").write_text("read me")
    return folder


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch, readable: Path) -> Iterator[ms.LocalService]:
    """Starts a service whose worker confines code. The code may read one folder."""
    monkeypatch.setenv("MILLSTREAM_ISOLATION", "strict")
    monkeypatch.setenv("MILLSTREAM_ISOLATION_READ", str(readable))
    with ms.local(workers=1) as service:
        yield service


def said(function: Callable[[Any], str], service: Any) -> str:
    """Returns the text that a function returns on a worker."""
    dataset = Dataset.range(1).map_python(function, element_spec=STRING, limits=Limits(attempts=1))
    (element,) = dataset.apply(distribute("distributed_epoch", service))
    return bytes(element).decode() if isinstance(element, bytes | np.bytes_) else str(element)


def tried(attempt: Callable[[], Any]) -> Callable[[Any], str]:
    """Returns a function that describes the result of an attempt, or the type of its error."""

    def called(_: Any) -> str:
        try:
            return f"got {attempt()!r}"
        except OSError as error:
            return type(error).__name__

    return called


def test_code_reads_only_what_it_is_given(strict: ms.LocalService, readable: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret")
    given, hidden = str(readable / "data.txt"), str(tmp_path / "key")
    assert said(tried(lambda: Path(given).read_text()), strict) == "got 'read me'"
    assert said(tried(lambda: Path(hidden).read_text()), strict) == "PermissionError"
    assert said(tried(lambda: os.listdir("/root")), strict) == "PermissionError"
    assert said(tried(lambda: Path("/etc/shadow").read_text()), strict) == "PermissionError"


def test_code_writes_to_its_own_folder_only(strict: ms.LocalService, readable: Path, tmp_path: Path) -> None:
    def keep() -> str:
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("kept")
            file.seek(0)
            return file.read()

    assert said(tried(keep), strict) == "got 'kept'"
    for place in (str(readable / "x"), str(tmp_path / "x"), "/dev/shm/x", "/var/tmp/x"):
        assert said(tried(lambda place=place: Path(place).write_text("x")), strict) == "PermissionError", place


def test_the_scratch_folder_goes_with_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_ISOLATION", "strict")
    with ms.local(workers=1) as service:
        folder = said(lambda _: os.environ["HOME"], service)
        assert "millstream-code-" in folder
        assert Path(folder).is_dir()
    assert not Path(folder).exists()


def test_code_opens_no_connection(strict: ms.LocalService) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    assert said(tried(lambda: socket.create_connection(address, 5)), strict) == "PermissionError"
    assert said(tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)), strict) == "PermissionError"
    assert said(tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)), strict) == "PermissionError"
    assert said(tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)), strict) == "PermissionError"
    # Socket pairs are permitted, because asyncio and subprocess use them.
    assert said(tried(lambda: [end.close() for end in socket.socketpair()]), strict) == "got [None, None]"
    listening.close()


def test_code_reaches_no_local_socket(strict: ms.LocalService, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        place = str(tmp_path / "s")
        assert said(tried(lambda: socket.socket(socket.AF_UNIX).connect(place)), strict) == "PermissionError"
        assert said(tried(lambda: socket.socket(socket.AF_UNIX).connect("\0abstract")), strict) == "PermissionError"


def test_code_sees_no_other_process(strict: ms.LocalService) -> None:
    worker = strict.pids[1]
    for name in ("environ", "mem", "maps"):
        assert said(tried(lambda name=name: Path(f"/proc/{worker}/{name}").read_bytes()), strict) == "PermissionError", name
    assert said(tried(lambda: os.kill(worker, 0)), strict) == "PermissionError"


def test_programs_that_code_starts_are_confined_too(strict: ms.LocalService, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret")
    hidden = str(tmp_path / "key")

    def start() -> tuple[str, int]:
        shown = subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout
        return shown, subprocess.run(["cat", hidden], capture_output=True, check=False).returncode

    assert said(tried(start), strict) == "got ('hello\\n', 1)"


def test_libraries_work_where_code_is_confined(strict: ms.LocalService) -> None:
    def computed(_: Any) -> str:
        import asyncio
        import concurrent.futures
        import sqlite3

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            squares = list(pool.map(lambda x: x * x, range(4)))

        async def nothing() -> int:
            await asyncio.sleep(0)
            return 5

        with sqlite3.connect(os.path.join(tempfile.gettempdir(), "x.db")) as database:
            database.execute("create table t (n)")
        return f"{np.arange(3).sum()} {squares} {asyncio.run(nothing())}"

    assert said(computed, strict) == "3 [0, 1, 4, 9] 5"


def test_without_isolation_code_reads_what_its_worker_may(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("plain")
    place = str(tmp_path / "data")
    with ms.local(workers=1) as service:
        assert said(tried(lambda: Path(place).read_text()), service) == "got 'plain'"
