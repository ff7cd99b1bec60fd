"""A process that runs one piece of user code for a worker: a function of elements, or an iterable.

``foreman`` starts it, by fork or as ``python -m millstream._executor``. It reports exceptions of the code to the worker, which replaces the
process when it crashes, exits or hangs.
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
#: What an iterator that is exhausted yields.
_NOTHING = object()


def confine() -> None:
    """Has no process of this tree gain rights by starting a program, and adopts those that their parents leave behind."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(parent: int) -> None:
    """Has the system kill this process when its parent ends, whatever ends that."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def settle(parent: int) -> None:
    """What a process does before it runs anybody's code."""
    end_with(parent)
    # A group of its own: what the code starts ends with it.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where it crashed or hung, standard error says.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def leave(status: int) -> None:
    """Ends this process without what its parent, of which it is a fork, has registered for its own end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def read(file: int, described: int, code: int) -> tuple[dict[str, Any], bytes]:
    """What elements are and what is done with them, and the code, from a file in memory."""
    return json.loads(os.pread(file, described, 0)), _whole(file, code, described)


def _whole(file: int, size: int, at: int) -> bytes:
    parts = []
    while size > 0 and (part := os.pread(file, size, at)):
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def work(end: socket.socket, described: dict[str, Any], code: bytes, index: int, seed: int) -> None:
    """Runs the code for the process at the other end, until it is gone."""
    given, yields = described["given"], described["yields"]
    link = Link(end, _dtypes(given), described["dtypes"])
    try:
        called = unpacked(code)
        # What is only named is imported before it is told who it is.
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
        # Also what is meant to end a process: it would end without a word.
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
        # Of an iterable that raised nothing is left, whatever kind it is.
        going_on, iterator = iterator, iter(())
        if not call.is_next:
            # What is left of the one before ends first.
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
    """Of the components, in order."""
    if given is None or given[0] == "none":
        return []
    if given[0] == "tensor":
        return [given[1]]
    items = [item for _, item in given[1]] if given[0] == "dict" else given[1]
    return [dtype for item in items for dtype in _dtypes(item)]


def _drawing(call: Call, index: int) -> None:
    """Has what a function draws follow from the call, whichever process it comes to."""
    _draws.tell(call.draw, index)
    _draws.seed_all(call.draw)


def _introduce(called: Any, index: int, processes: int, seed: int) -> None:
    """Tells torch, where it is used, which of how many workers this is; and calls what is to be called in each."""
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
    """One that was not forked."""
    parent, end, file, described, code, index, seed = map(int, arguments)
    settle(parent)
    work(socket.socket(fileno=end), *read(file, described, code), index, seed)


if __name__ == "__main__":
    main(sys.argv[1:])
    leave(0)
