"""The executor: a process that runs one piece of user code for a worker, which is a function of elements or an iterable.

The template process of ``_foreman`` starts executors, by fork or as ``python -m millstream._executor``. An executor reports exceptions of the code
to the worker. The worker replaces an executor that crashes, exits or hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import _draws
from ._code import unpacked
from ._wire import Call, Leaf, Link
from ._worker import nested, tensors, told

__all__ = ["end_with", "leave", "read", "settle", "work"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
#: The result of ``next`` for an exhausted iterator.
_NOTHING = object()


def confine() -> None:
    """Prevents this process and its descendants from gaining privileges, and makes this process adopt orphaned descendants."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(parent: int) -> None:
    """Makes the system kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def settle(parent: int) -> None:
    """Prepares this process to run users' code."""
    end_with(parent)
    # A separate process group lets the worker kill the executor together with the processes that the code starts.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # After a crash, standard error shows the position in the code.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def leave(status: int) -> None:
    """Ends this forked process without running the exit handlers that the parent has registered."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def read(file: int, described: int, code: int) -> tuple[dict[str, Any], bytes]:
    """Reads the description of the elements and the code from a file in memory."""
    return json.loads(os.pread(file, described, 0)), _whole(file, code, described)


def _whole(file: int, size: int, at: int) -> bytes:
    parts = []
    while size > 0 and (part := os.pread(file, size, at)):
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def work(end: socket.socket, described: dict[str, Any], code: bytes, index: int, seed: int) -> None:
    """Runs the code for the worker at the other end of the socket, until the worker closes the socket."""
    given, yields = described["given"], described["yields"]
    link = Link(end, _dtypes(given), described["dtypes"])
    try:
        called = unpacked(code)
        # Named code is imported first, so that `_introduce` sees the imported object.
        called = getattr(called, "loaded", lambda: called)()
        _draws.tell(seed, index)
        own = getattr(called, "millstream_seed", None)
        first = _draws.mix(seed if own is None else _draws.base(own, seed), index)
        _draws.seed_all(first)
        _introduce(called, index, described["processes"], first & 0x7FFF_FFFF_FFFF_FFFF)
        if described["makes"] == "element":
            answer = _function(called, given, yields, index)
        else:
            answer = _iterable(called, yields) if given is None else _flat_function(called, given, yields, index)
    except BaseException as error:
        link.raised(*told(error, error.__traceback__))
        return
    link.ready()
    while (call := link.receive()) is not None:
        try:
            leaves = answer(call)
            if leaves is None:
                link.end()
            else:
                link.result(call, leaves)
        # SystemExit and KeyboardInterrupt are reported, too, because the process would end without a report.
        except BaseException as error:
            link.raised(*told(error, error.__traceback__))


def _function(called: Callable[..., Any], given: Any, yields: Any, index: int) -> Callable[[Call], list[Leaf] | None]:
    def answer(call: Call) -> list[Leaf] | None:
        _drawing(call, index)
        return tensors(_applied(called, given, call), yields)

    return answer


def _flat_function(called: Callable[..., Any], given: Any, yields: Any, index: int) -> Callable[[Call], list[Leaf] | None]:
    iterator: Iterator[Any] = iter(())

    def answer(call: Call) -> list[Leaf] | None:
        nonlocal iterator
        # An iterable that raised an exception is not continued.
        going_on, iterator = iterator, iter(())
        if not call.is_next:
            # The previous iterable is closed before the next iterable starts.
            del going_on
            _drawing(call, index)
            going_on = iter(_applied(called, given, call))
        made = next(going_on, _NOTHING)
        if made is _NOTHING:
            return None
        leaves = tensors(made, yields)
        iterator = going_on
        return leaves

    return answer


def _applied(called: Callable[..., Any], given: Any, call: Call) -> Any:
    element = nested(given, iter(call.components))
    return called(*element) if isinstance(element, tuple) else called(element)


def _iterable(called: Callable[..., Any], yields: Any) -> Callable[[Call], list[Leaf] | None]:
    iterator: Iterator[Any] = iter(called())

    def answer(_: Call) -> list[Leaf] | None:
        made = next(iterator, _NOTHING)
        return None if made is _NOTHING else tensors(made, yields)

    return answer


def _dtypes(given: Any) -> list[str]:
    """Returns the dtypes of the components, in order."""
    if given is None or given[0] == "none":
        return []
    if given[0] == "tensor":
        return [given[1]]
    items = [item for _, item in given[1]] if given[0] == "dict" else given[1]
    return [dtype for item in items for dtype in _dtypes(item)]


def _drawing(call: Call, index: int) -> None:
    """Seeds the generators by the call, so that draws do not depend on the process."""
    _draws.tell(call.draw, index)
    _draws.seed_all(call.draw)


def _introduce(called: Any, index: int, processes: int, seed: int) -> None:
    """Sets torch's worker information if torch is imported, and calls the code's ``worker_init_fn``."""
    if "torch" in sys.modules:
        import torch
        import torch.utils.data._utils.worker as of_torch

        torch.set_num_threads(1)
        dataset = getattr(called, "dataset", None)
        of_torch._worker_info = of_torch.WorkerInfo(
            id=index, num_workers=processes, seed=seed, dataset=dataset
        )
    initial = getattr(called, "worker_init_fn", None)
    if initial is not None:
        initial(index)


def main(arguments: list[str]) -> None:
    """Runs an executor that was started as a new interpreter."""
    parent, end, file, described, code, index, seed = map(int, arguments)
    settle(parent)
    work(socket.socket(fileno=end), *read(file, described, code), index, seed)


if __name__ == "__main__":
    main(sys.argv[1:])
    leave(0)
