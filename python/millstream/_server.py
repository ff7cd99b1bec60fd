"""Runs one server as a separate process for ``ms.local``: ``python -m millstream._server dispatcher``, or ``worker ADDRESS THREADS``.

The process prints its address on standard output. The process ends when its standard input is closed, and therefore ends with its parent.
Use the command ``millstream`` for servers that outlive a program.
"""

from __future__ import annotations

import os
import signal
import sys

from .service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer


def main(arguments: list[str]) -> int:
    """Runs the server until standard input is closed."""
    # Ctrl-C sends SIGINT to the whole process group. This process ignores SIGINT, and shuts down gracefully with its parent.
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
        # The parent reads only the address. Later output of users' code goes to standard error.
        os.dup2(2, 1)
        while os.read(0, 4096):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
