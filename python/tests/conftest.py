"""Services for tests: all in this process unless a test says otherwise, each with a key of the tests' own."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream as ms

#: Ten times what the slowest test may take: whatever hangs is shown and ended.
WATCHDOG_S = 300


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session", autouse=True)
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The key is made on first use in a directory of the tests' own."""
    home = tmp_path_factory.mktemp("data")
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(home)
    os.environ.pop("MILLSTREAM_KEY", None)
    yield home
    if before is not None:
        os.environ["XDG_DATA_HOME"] = before


@pytest.fixture
def cluster() -> Iterator[Callable[..., str]]:
    """Starts a dispatcher and workers, and gives the dispatcher's target."""
    running: list[ms.service.DispatchServer | ms.service.WorkerServer] = []

    def start(workers: int = 1, config: ms.service.DispatcherConfig | None = None, **settings: object) -> str:
        dispatcher = ms.service.DispatchServer(config)
        running.append(dispatcher)
        for _ in range(workers):
            worker = ms.service.WorkerConfig(dispatcher_address=dispatcher.target, **settings)  # type: ignore[arg-type]
            running.append(ms.service.WorkerServer(worker))
        return dispatcher.target

    yield start
    for server in reversed(running):
        server.stop()


@pytest.fixture(scope="session")
def processes() -> Iterator[ms.LocalService]:
    """A service of two workers, each a process of its own."""
    with ms.local(workers=2) as service:
        yield service
