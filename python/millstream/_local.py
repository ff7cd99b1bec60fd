"""A service of this program's own: a dispatcher and workers as its child processes, or within it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any

from ._code import Shelf
from .errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from .service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

__all__ = ["LocalService", "local"]

#: How long a process may take until it serves.
_READY_S = 60.0

#: How long a process that was asked to end may take.
_END_S = 5.0


class LocalService:
    """A running service. Give it where a ``service`` is asked for; it ends with ``close``, or with the program."""

    def __init__(self, target: str, servers: Sequence[_Child | DispatchServer | WorkerServer]) -> None:
        self.target = target
        #: Where code waits for its workers that is too large for a definition.
        self.shelf = Shelf()
        self._servers = servers
        self._end = weakref.finalize(self, _ended, servers)

    @property
    def pids(self) -> list[int]:
        """The child processes, the dispatcher first."""
        return [server.process.pid for server in self._servers if isinstance(server, _Child)]

    def close(self) -> None:
        """Ends it; nothing if it has ended."""
        self._end()
        self.shelf.close()

    def __enter__(self) -> LocalService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<millstream.LocalService {self.target} processes={self.pids}>"


class _Child:
    """A process that serves until its standard input ends, which this one holds open."""

    def __init__(self, *arguments: str) -> None:
        self.name = arguments[0]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "millstream._server", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Its code is that of this program, which may see everything that this program sees.
            env={
                "MILLSTREAM_PYTHON_ENV": "*",
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
        )

    def address(self, deadline: float) -> str:
        """Where it serves, once it does."""
        stdout = self.process.stdout
        assert stdout is not None
        said = b""
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise DeadlineExceededError(f"the {self.name} does not serve after {_READY_S:.0f} s")
            chunk = os.read(stdout.fileno(), 4096)
            if not chunk:
                raise UnavailableError(f"the {self.name} ended before it served; its reason stands above")
            said += chunk
        return said.decode().strip()

    def stop(self) -> None:
        """Asks it to end, and kills it if it does not."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _ended(servers: Sequence[Any]) -> None:
    # Workers before the dispatcher, to which they say goodbye.
    for server in reversed(servers):
        server.stop()


def local(workers: int = 1, *, threads: int | None = None, inline: bool = False) -> LocalService:
    """Starts a dispatcher and workers on this machine, and waits until all of them serve.

    They are child processes, which share memory with this process and end with it.

    Args:
        workers: The number of workers.
        threads: The threads of each worker. The default is one for each processor.
        inline: Whether dispatcher, workers and their Python code run in threads of this process, without deadlines.

    Returns:
        The service. It is a context manager, and stops at its end.

    Raises:
        UnavailableError: One of the processes ended at once.
        DeadlineExceededError: One of the processes does not serve in time.

    Example:
        >>> with ms.local(workers=1, inline=True) as service:
        ...     loader = ms.DataLoader(list(range(100)), batch_size=32, service=service)
        ...     print([len(batch) for batch in loader])
        [32, 32, 32, 4]
    """
    if workers < 1:
        raise InvalidArgumentError(f"workers={workers}: a service has at least one")
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
