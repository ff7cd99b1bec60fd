"""Dispatchers, workers and readers as processes, which share a directory and a key."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import millstream as ms

from .links import Links
from .version import PACKAGE, Version

#: The seconds within which a process must serve.
READY_S = 60.0
#: Seconds between two requests for the status of the service.
LOOK_S = 0.1
#: The seconds within which the status must show the result of a fault.
NOTICED_MAX_S = 60.0
#: The seconds within which a process must end after SIGTERM.
LEAVING_S = 120.0
#: The seconds within which a reader must end: ten times the duration of the slowest reader.
READING_S = 300.0

#: The roles of processes whose versions may differ.
ROLES = ("dispatcher", "worker", "reader")

_PACKAGE = str(Path(ms.__file__).parents[1])
_CHAOS = str(Path(__file__).parents[1])


#: Ports below those that Linux gives to sockets that ask for any port.
_PORTS = range(12_000, 32_000)
_taken: set[int] = set()
_lock = threading.Lock()


class Hang(AssertionError):
    """The error for a process that exceeded a time limit or ended too early."""


class Process:
    """A child process with a log file. The process ends with the harness."""

    def __init__(self, name: str, log: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self.name, self.log = name, log
        with log.open("ab") as stderr:
            self.child = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment
            )

    def address(self) -> str:
        """Blocks until the process prints its address, and returns the address."""
        stdout = self.child.stdout
        assert stdout is not None
        deadline = time.monotonic() + READY_S
        said = b""
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise Hang(f"{self.name} does not serve after {READY_S:.0f} s; its log is {self.log}")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                raise Hang(f"{self.name} ended before it served: {self.log.read_text()[-2000:]}")
            said += chunk
        return said.decode().split(" on ")[1].split()[0].rstrip(",;")

    def kill(self) -> None:
        """Kills the process with SIGKILL, and reaps it. The process must be alive."""
        assert self.child.poll() is None, f"{self.name} ended before the fault: {self.log.read_text()[-2000:]}"
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self) -> None:
        """Stops the process with SIGSTOP. The process must be alive."""
        assert self.child.poll() is None, f"{self.name} ended before the fault: {self.log.read_text()[-2000:]}"
        self.child.send_signal(signal.SIGSTOP)

    def leave(self) -> None:
        """Asks the process to end with SIGTERM, and waits until it has ended. The process must be alive, and must end without an error."""
        assert self.child.poll() is None, f"{self.name} ended before its turn: {self.log.read_text()[-2000:]}"
        self.child.send_signal(signal.SIGTERM)
        try:
            status = self.child.wait(LEAVING_S)
        except subprocess.TimeoutExpired:
            raise Hang(f"{self.name} has not ended {LEAVING_S:.0f} s after SIGTERM: {self.log.read_text()[-2000:]}") from None
        assert status == 0, f"{self.name} ended with status {status} after SIGTERM: {self.log.read_text()[-2000:]}"

    def go_on(self) -> None:
        """Lets a stopped process continue."""
        self.child.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Ends the process if it still runs."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()


class Cluster:
    """A service of processes with their files in one directory.

    Args:
        directory: The directory of the records, the logs and the ledgers.
        command: The path of the command ``millstream``.
        previous: A folder with the previous version: the command ``millstream``, and a folder ``python`` with the package.
    """

    def __init__(self, directory: Path, command: str, previous: Path | None = None) -> None:
        self.directory = directory
        self.present = Version("present", command, _PACKAGE)
        self.previous = None if previous is None else Version("previous", str(previous / "millstream"), str(previous / "python"))
        #: The versions of the processes that are started from now on, by role.
        self.versions = dict.fromkeys(ROLES, self.present)
        #: Further arguments of workers.
        self.worker_settings: list[str] = []
        #: The addresses of the dispatchers, which stay the same after each restart.
        self.addresses = [f"127.0.0.1:{free_port()}"]
        #: The store that the dispatchers share. Without one, the only dispatcher keeps its records in a work directory.
        self.store: str | None = None
        #: The links between the processes, if they can be cut.
        self.links: Links | None = None
        self.processes: list[Process] = []
        self._starting = threading.Lock()
        self.environment = {
            **os.environ,
            "XDG_DATA_HOME": str(directory),
            "PYTHONUNBUFFERED": "1",
        }
        self.environment.pop("MILLSTREAM_KEY", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        for process in reversed(self.processes):
            process.end()
        if self.links is not None:
            self.links.close()

    @property
    def address(self) -> str:
        """The addresses of all dispatchers, as other processes expect them."""
        return ",".join(self.addresses)

    def share(self, store: str, dispatchers: int) -> None:
        """Lets ``dispatchers`` dispatchers, which are started from now on, share a store."""
        self.store = store
        self.addresses += [f"127.0.0.1:{free_port()}" for _ in range(dispatchers - len(self.addresses))]

    def link_through_proxies(self) -> None:
        """Lets processes that are started from now on reach each other through links that can be cut."""
        assert len(self.addresses) == 1, "the links lead to one dispatcher"
        self.links = Links(self.address)

    def dispatcher(self, *settings: str, number: int = 0) -> Process:
        """Starts a dispatcher with the records of the dispatcher before it, and waits until it listens."""
        records = ["--work-dir", str(self.directory / "records")] if self.store is None else ["--store", self.store]
        started = self._serve("dispatcher", "--bind", self.addresses[number], *records, *settings)
        started.address()
        return started

    def worker(self, dispatcher: str | None = None) -> tuple[Process, str]:
        """Starts a worker with one thread, and waits until it serves. Returns the worker and its address."""
        started = self.begin_worker(dispatcher)
        return started, started.address()

    def begin_worker(self, dispatcher: str | None = None) -> Process:
        """Starts a worker with one thread, without waiting."""
        at = dispatcher or self.address
        settings = ["--threads", "1", "--python", sys.executable, *self.worker_settings]
        if self.links is not None:
            bound = f"127.0.0.1:{free_port()}"
            links = self.links.add_worker(bound)
            at = links.to_dispatcher.address
            # Shared memory would pass by the link to the trainers.
            settings += ["--bind", bound, "--advertise", links.to_trainers.address, "--shm-bytes", "0"]
        return self._serve("worker", "--dispatcher", at, *settings)

    def reader(
        self, kind: str, elements: int, job: str | None = None, service: str | None = None
    ) -> tuple[Process, Path]:
        """Starts a reader. Returns the reader and the path of its ledger."""
        ledger = self.directory / f"ledger-{len(self.processes)}"
        ledger.touch()
        arguments = [kind, f"millstream://{service or self.address}", str(elements), str(ledger)]
        arguments += [] if job is None else [job]
        return self._trains("reader", "chaos.reader", *arguments), ledger

    def exact_reader(self, elements: int, trainer: dict[str, Any]) -> tuple[Process, Path]:
        """Starts a trainer of an exactly-once job. Returns the trainer and the path of its ledger."""
        ledger = self.directory / f"ledger-{len(self.processes)}"
        ledger.touch()
        service = self.address if self.links is None else self.links.trainers.address
        arguments = [f"millstream://{service}", str(elements), str(ledger), json.dumps(trainer)]
        return self._trains("trainer", "chaos.exact_reader", *arguments), ledger

    def saver(self, elements: int, place: Path, slow: Path) -> Process:
        """Starts a process that saves a dataset at ``place``. The work is slow while the file ``slow`` exists."""
        arguments = ["save", f"millstream://{self.address}", str(elements), str(place), str(slow)]
        return self._trains("saver", "chaos.saver", *arguments)

    def saved_reader(self, place: Path) -> tuple[Process, Path]:
        """Starts a process that reads a dataset that is being saved. Returns the process and the path of its ledger."""
        ledger = self.directory / f"ledger-{len(self.processes)}"
        ledger.touch()
        return self._trains("reader", "chaos.saver", "load", str(place), str(ledger)), ledger

    def statuses(self, missing: str) -> Iterator[dict[str, Any]]:
        """Yields the status of the service again and again. Raises an error with the text ``missing`` after a minute."""
        deadline = time.monotonic() + NOTICED_MAX_S
        while time.monotonic() < deadline:
            status = self.status()
            if status is not None:
                yield status
            time.sleep(LOOK_S)
        raise AssertionError(f"{missing} within {NOTICED_MAX_S:.0f} s")

    def status(self, version: Version | None = None) -> dict[str, Any] | None:
        """Returns the status of the service as a version shows it, or nothing if the dispatcher does not answer."""
        by = version or self.present
        asked = subprocess.run(
            [by.command, "status", "--json", "--dispatcher", self.address],
            check=False,
            env=self.environment_of(by),
            capture_output=True,
            timeout=READY_S,
        )
        if asked.returncode:
            return None
        said: dict[str, Any] = json.loads(asked.stdout)
        return said

    def _serve(self, role: str, *arguments: str) -> Process:
        by = self.versions[role]
        return self.start(role, [by.command, role, *arguments, "--until-stdin-closes"], by)

    def _trains(self, name: str, module: str, *arguments: str) -> Process:
        # Without `-P`, the interpreter prefers a package in the current directory.
        return self.start(name, [sys.executable, "-P", "-m", module, *arguments], self.versions["reader"])

    def environment_of(self, version: Version) -> dict[str, str]:
        """Returns the environment of a process of a version."""
        return {**self.environment, "PYTHONPATH": os.pathsep.join((version.package, _CHAOS)), PACKAGE: version.package}

    def start(self, name: str, arguments: list[str], version: Version) -> Process:
        """Starts any process, which ends with the harness."""
        # Faults start processes from several threads.
        with self._starting:
            log = self.directory / f"{name}-{len(self.processes)}.log"
            process = Process(name, log, arguments, self.environment_of(version))
            self.processes.append(process)
        return process


def free_port() -> int:
    """Returns a free UDP port of the loopback interface, which no later call returns.

    The system gives ports of this range to no socket that asks for any port, so the port stays free until a process binds it.
    """
    while True:
        port = random.choice(_PORTS)
        with _lock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
            if port in _taken:
                continue
            with contextlib.suppress(OSError):
                bound.bind(("127.0.0.1", port))
                _taken.add(port)
                return port


def lines(ledger: Path) -> int:
    """Returns the number of batches that a reader has logged so far."""
    with ledger.open("rb") as log:
        return sum(1 for _ in log)


def wait_for_batches(reader: Process, ledger: Path, count: int) -> None:
    """Blocks until a reader has logged ``count`` batches."""
    deadline = time.monotonic() + READY_S
    while lines(ledger) < count:
        if reader.child.poll() is not None:
            raise Hang(
                f"the reader ended before the fault: {reader.log.read_text()[-2000:]}{ledger.read_text()[-500:]}"
            )
        if time.monotonic() > deadline:
            raise Hang(
                f"the reader has {lines(ledger)} of {count} batches after {READY_S:.0f} s: {reader.log.read_text()[-2000:]}"
            )
        time.sleep(0.01)


def wait_for_end(reader: Process) -> None:
    """Blocks until a reader has ended by itself."""
    try:
        reader.child.wait(READING_S)
    except subprocess.TimeoutExpired:
        raise Hang(f"the reader hangs after {READING_S:.0f} s: {reader.log.read_text()[-2000:]}") from None
