"""A local service: a dispatcher and workers in child processes of this program, or in threads of this program."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any

from . import _html
from ._code import Shelf
from .errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from .service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

__all__ = ["LocalService", "local"]

#: The seconds that a process may take until it serves.
_READY_S = 60.0

#: The seconds that a process may take to end. After this time the process is killed.
_END_S = 5.0


class LocalService:
    """A running service, which can be passed as the argument ``service``. The service ends with ``close``, or with the program."""

    def __init__(self, target: str, servers: Sequence[_Child | DispatchServer | WorkerServer]) -> None:
        self.target = target
        #: The store for code that is too large for a definition.
        self.shelf = Shelf()
        self._servers = servers
        self._end = weakref.finalize(self, _ended, servers)

    @property
    def pids(self) -> list[int]:
        """The ids of the child processes, the dispatcher first."""
        return [server.process.pid for server in self._servers if isinstance(server, _Child)]

    def close(self) -> None:
        """Ends the service. Does nothing if the service has ended."""
        self._end()
        self.shelf.close()

    def __enter__(self) -> LocalService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<millstream.LocalService {self.target} processes={self.pids}{'' if self._end.alive else ' closed'}>"

    def _repr_html_(self) -> str:
        rows = [_row(server) for server in self._servers]
        state = "serves" if self._end.alive else "closed"
        return _html.block("millstream.LocalService", _html.table([("address", self.target), ("state", state)]), _html.table(rows, _TITLES))


class _Child:
    """A child process that serves until its standard input is closed, which this process holds open."""

    def __init__(self, *arguments: str) -> None:
        self.name = arguments[0]
        #: The address at which the child serves; empty before it serves.
        self.target = ""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "millstream._server", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # The child runs the code of this program, so it may see all environment variables of this program.
            env={
                "MILLSTREAM_PYTHON_ENV": "*",
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
        )

    def address(self, deadline: float) -> str:
        """Waits until the child serves, and returns its address."""
        stdout = self.process.stdout
        assert stdout is not None
        said = b""
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise DeadlineExceededError(f"the {self.name} did not start within {_READY_S:.0f} s")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                raise UnavailableError(f"the {self.name} ended before it had started: see its error output above")
            said += chunk
        self.target = said.decode().strip()
        return self.target

    def stop(self) -> None:
        """Closes the child's standard input, and kills the child if it does not end in time."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


#: The titles of the table of servers.
_TITLES = ("server", "address", "process", "state")


def _row(server: _Child | DispatchServer | WorkerServer) -> tuple[Any, ...]:
    """Returns the row of a server in the table, without a request to the server."""
    if isinstance(server, _Child):
        status = server.process.poll()
        return server.name, server.target, server.process.pid, "runs" if status is None else f"ended with status {status}"
    name = "dispatcher" if isinstance(server, DispatchServer) else "worker"
    return name, *server._place(), "this process", server._state()


def _ended(servers: Sequence[Any]) -> None:
    # Workers end before the dispatcher, because they send a goodbye message to the dispatcher.
    for server in reversed(servers):
        server.stop()


def local(workers: int = 1, *, threads: int | None = None, inline: bool = False) -> LocalService:
    """Starts a dispatcher and workers on this machine, and waits until all of them serve.

    The dispatcher and the workers are child processes, which share memory with this process, and end with this process.

    Args:
        workers: The number of workers.
        threads: The number of threads of each worker. The default is the number of processors.
        inline: Whether the dispatcher, the workers and their Python code run in threads of this process, without deadlines.

    Returns:
        The service, which is a context manager and stops when the ``with`` block ends.

    Raises:
        UnavailableError: A process ended before it served.
        DeadlineExceededError: A process did not serve in time.

    Example:
        >>> with ms.local(workers=1, inline=True) as service:
        ...     loader = ms.DataLoader(list(range(100)), batch_size=32, service=service)
        ...     print([len(batch) for batch in loader])
        [32, 32, 32, 4]
    """
    if workers < 1:
        raise InvalidArgumentError(f"workers={workers}: must be at least one")
    if inline:
        dispatcher = DispatchServer(DispatcherConfig())
        config = WorkerConfig(dispatcher.target, threads=threads, python="inline")
        inside: list[_Child | DispatchServer | WorkerServer] = [dispatcher]
        inside += [WorkerServer(config) for _ in range(workers)]
        return LocalService(dispatcher.target, inside)
    deadline = time.monotonic() + _READY_S
    children = [_Child("dispatcher")]
    try:
        target = children[0].address(deadline)
        children += [_Child("worker", target, str(threads or 0)) for _ in range(workers)]
        for child in children[1:]:
            child.address(deadline)
    except BaseException:
        _ended(children)
        raise
    return LocalService(target, children)
