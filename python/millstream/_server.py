"""One server as a process of its own: ``python -m millstream._server dispatcher``, or ``worker ADDRESS``.

It says on standard output where it serves, and ends when its standard input does: with the process that started it,
whatever becomes of that one. For ``millstream._local``; servers that stay are the business of the command ``millstream``.
"""

from __future__ import annotations

import os
import signal
import sys

from .service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer


def main(arguments: list[str]) -> int:
    """Serves until standard input ends."""
    # Ctrl-C goes to the whole group of processes; this one ends with its parent, in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server: DispatchServer | WorkerServer
    match arguments:
        case ["dispatcher"]:
            server = DispatchServer(DispatcherConfig())
            address = server.target
        case ["worker", dispatcher, threads]:
            server = WorkerServer(WorkerConfig(dispatcher, threads=int(threads) or None))
            address = server.address
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    with server:
        print(address, flush=True)
        # Nobody reads further: what users' code prints goes where errors go.
        os.dup2(2, 1)
        while os.read(0, 4096):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
