"""The foreman: a template process that starts and ends the executors of one piece of code.

A worker starts the foreman with ``python -m millstream._foreman PARENT [SCRATCH READABLE...]``. With a scratch folder the foreman confines itself
and its executors; see ``_isolation``. The foreman imports the modules that the code names, so that its executors need not import them. A foreman
with one thread forks executors. A foreman with several threads starts new interpreters, because a fork may then hang. The foreman's standard
input is the socket to its worker. The foreman ends with its worker, and kills all executors. The foreman runs no user code except imports.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

from . import _executor, _isolation
from ._own_modules import remember

__all__ = ["main"]

_START, _HIRE, _END = 1, 2, 3
_DONE, _FAILED = b"\1", b"\2"
_SOON, _SHOWN = 0, 2

#: The seconds that a child may take to end by itself, and to write its traceback.
_SOON_S, _SHOWN_S = 1.0, 0.5


class _Foreman:
    def __init__(self, control: socket.socket, refusal: OSError | None) -> None:
        self._control = control
        #: The error for which the foreman refuses to run code.
        self._refusal = refusal
        self._children: dict[int, tuple[int, subprocess.Popen[bytes] | None]] = {}
        self._described: dict[str, Any] = {}
        self._code = b""
        self._sizes = (0, 0)
        self._file = -1
        self._forks = True
        #: The child processes that imports have started.
        self._own: set[int] = set()

    def serve(self) -> None:
        """Executes the worker's requests until the worker closes the socket."""
        try:
            while True:
                try:
                    data, fds, _, _ = socket.recv_fds(self._control, 1 << 12, 1)
                except ConnectionResetError:
                    # The worker has closed the socket before it read the last answer.
                    return
                if not data:
                    return
                try:
                    answer = self._answer(data, fds)
                except OSError as error:
                    answer = _FAILED + str(error).encode()
                try:
                    self._control.send(answer)
                except BrokenPipeError:
                    # The worker has closed the socket, for example because the task was stopped.
                    return
        finally:
            for child in list(self._children):
                self._end(child, urgency=1)
            self._end_orphans()
            # Extensions that count their objects at exit would report frozen objects as leaks.
            gc.unfreeze()

    def _answer(self, data: bytes, fds: list[int]) -> bytes:
        number = 0
        if data[0] == _START:
            self._start(fds[0], *struct.unpack_from("<QQ", data, 1))
        elif data[0] == _HIRE:
            number = self._hire(fds[0], *struct.unpack_from("<IIQ", data, 1))
        elif data[0] == _END:
            number = self._end(*struct.unpack_from("<IB", data, 1))
        return _DONE + struct.pack("<q", number)

    def _start(self, file: int, described: int, code: int) -> None:
        if self._refusal is not None:
            raise self._refusal
        self._file, self._sizes = file, (described, code)
        self._described, self._code = _executor.read(file, described, code)
        header = json.loads(self._code.partition(b"\n")[0])
        for name in header.get("modules", ()):
            # If an import fails, the code itself raises the error later.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        remember(header.get("own", ()))
        self._forks = len(os.listdir("/proc/self/task")) == 1 and os.environ.get("MILLSTREAM_START_METHOD") != "spawn"
        self._own = _children()
        # Frozen objects stay in pages that the foreman and its children share.
        gc.collect()
        gc.freeze()

    def _hire(self, end: int, child: int, index: int, seed: int) -> int:
        started = None
        if self._forks:
            pid = os.fork()
            if pid == 0:
                self._become(end, index, seed)
        else:
            inherited = (end, self._file)
            arguments = map(str, (os.getpid(), *inherited, *self._sizes, index, seed))
            started = subprocess.Popen(
                [sys.executable, "-P", "-m", "millstream._executor", *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
            )
            pid = started.pid
        os.close(end)
        self._children[child] = (pid, started)
        return pid

    def _become(self, end: int, index: int, seed: int) -> None:
        """Runs the executor in the child of a fork. Never returns."""
        status = 1
        try:
            parent = os.getppid()
            self._control.close()
            os.close(self._file)
            _executor.settle(parent)
            _executor.work(socket.socket(fileno=end), self._described, self._code, index, seed)
            status = 0
        finally:
            _executor.leave(status)

    def _end(self, child: int, urgency: int) -> int:
        """Ends and reaps a child and its descendants. Returns the exit status, which is negative for a signal."""
        known = self._children.pop(child, None)
        if known is None:
            raise ProcessLookupError(f"no child {child}")
        pid, started = known
        grace = _SOON_S
        if urgency == _SHOWN:
            # The child's signal handler writes its traceback to standard error.
            os.kill(pid, signal.SIGABRT)
            grace = _SHOWN_S
        if urgency not in (_SOON, _SHOWN) or not _has_ended(pid, grace):
            os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        # The process group belongs to the child until the child is reaped.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if started is not None:
            started.returncode = status
        self._end_orphans()
        return status

    def _end_orphans(self) -> None:
        """Kills and reaps orphaned processes that executors started in other process groups, and that this process has adopted."""
        while True:
            executors = {pid for pid, _ in self._children.values()}
            orphans = _children() - executors - self._own
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for pid in orphans:
                # The process may already be reaped. This process has now adopted the children of the orphan.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _children() -> set[int]:
    """Returns the ids of the child processes of this process."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as children:
            found.update(map(int, children.read().split()))
    return found


def _has_ended(pid: int, grace: float) -> bool:
    """Returns whether a child process ends within ``grace`` seconds."""
    watched = os.pidfd_open(pid)
    try:
        return bool(select.select([watched], [], [], grace)[0])
    finally:
        os.close(watched)


def main(arguments: list[str]) -> int:
    """Runs the foreman for the worker whose process id is the first argument."""
    # Ctrl-C sends SIGINT to the whole process group. The foreman ignores SIGINT, and ends with its worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _executor.end_with(int(arguments[0]))
    _executor.confine()
    refusal = None
    if len(arguments) > 1:
        try:
            _isolation.restrict(arguments[1], arguments[2:])
        except OSError as error:
            refusal = error
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _Foreman(control, refusal).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
