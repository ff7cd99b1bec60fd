"""Fixtures that start services for tests. A service runs in this process by default, with a key that only the tests use."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream as ms

#: The seconds after which a hanging test ends the process and prints all stacks: ten times the slowest test's time.
WATCHDOG_S = 300
#: The files that take longest. They begin first, so that no process is left alone with one of them at the end.
LONGEST_FILES = (
    "test_site.py",
    "test_skip.py",
    "test_example.py",
    "test_loader_losses.py",
    "test_flat_map_python.py",
    "test_isolation.py",
    "test_exactly_unordered.py",
    "test_exactly_once.py",
    "test_limits.py",
    "test_faults.py",
    "test_service_save.py",
    "test_local.py",
    "test_executors.py",
    "test_draws.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the tests by their files, the longest first."""
    places = {name: place for place, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session", autouse=True)
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sets the folder in which the first test creates the key."""
    home = tmp_path_factory.mktemp("data")
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(home)
    os.environ.pop("MILLSTREAM_KEY", None)
    yield home
    if before is not None:
        os.environ["XDG_DATA_HOME"] = before


@pytest.fixture
def cluster() -> Iterator[Callable[..., str]]:
    """Yields a function that starts a dispatcher and workers, and returns the dispatcher's target."""
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
    """Starts a service with two workers in separate processes."""
    with ms.local(workers=2) as service:
        yield service
