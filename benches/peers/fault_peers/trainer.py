"""The process of one trainer: it opens the loader of a peer, and answers requests for batches, states and worker processes.

This module owns the records that all peers deliver, and the requests and answers in JSON lines. The module knows no peer and no fault.
"""

import base64
import dataclasses
import functools
import importlib
import json
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

#: The bytes of a stored payload, and the number of copies that a worker joins, so that a worker's records do not all fit into read-ahead.
STORED_BYTES, COPIES = 512, 32


@dataclasses.dataclass(frozen=True)
class Trainer:
    """The settings of one trainer."""

    peer: str
    rank: int
    trainers: int
    records: int
    #: The records of a batch of this trainer.
    batch: int
    seed: int
    #: A folder for the files of the peer, which all trainers of a run share.
    directory: str
    #: The name of the run, which the trainers of a resumed run keep.
    run: str
    #: The address of the peer's service, if it has one.
    target: str = ""
    #: A free port, at which the trainers of one generation meet.
    port: int = 0
    #: The saved state in base64.
    state: str | None = None

    @property
    def saved(self) -> bytes | None:
        """The saved state, or nothing for a new epoch."""
        return None if self.state is None else base64.b64decode(self.state)


class Loader(Protocol):
    """The loader of a peer in one trainer: an iterator over batches of indices and payloads."""

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches from the saved state to the end of the epoch."""

    def state(self) -> bytes:
        """Returns the position after the last batch that the iterator returned."""


def stored(records: int) -> Any:
    """Returns the stored payloads of all records: random bytes, which are equal in every process."""
    import numpy

    return numpy.random.default_rng(0).integers(0, 256, (records, STORED_BYTES), numpy.uint8)


class Rows:
    """A dataset by index for loaders with worker processes."""

    def __init__(self, records: int) -> None:
        self._stored = stored(records)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: int) -> tuple[int, Any]:
        import numpy

        return index, numpy.tile(self._stored[index], COPIES)


@functools.cache
def expected(records: int) -> list[int]:
    """Returns the checksums of all records."""
    return [zlib.crc32(row.tobytes() * COPIES) for row in stored(records)]


def answer(trainer: Trainer, peer: Any) -> None:
    """Answers the requests on standard input until it ends.

    Args:
        trainer: The settings of this trainer.
        peer: The module of the peer. Its libraries are imported before the first answer, so that no time contains an import.
    """
    # Libraries print to standard output, so the answers use a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in peer.MODULES:
        importlib.import_module(name)
    answers.write(json.dumps({"pid": os.getpid()}) + "\n")
    loader, batches, raised = None, None, None
    while True:
        try:
            line = sys.stdin.readline()
        except Exception as error:
            # torch raises the death of a worker process in a signal handler, also between two requests.
            raised = error
            continue
        if not line:
            # Libraries with dead worker processes may block the end of the interpreter.
            os._exit(0)
        began = time.monotonic()
        try:
            if raised is not None:
                raise raised
            if loader is None:
                loader = peer.opened(trainer)
                batches = loader.batches()
            said = {**_answer(line.strip(), loader, batches), "seconds": time.monotonic() - began}
        except Exception as error:
            said = _failed(error)
        answers.write(json.dumps(said) + "\n")


def _failed(error: Exception) -> dict[str, Any]:
    message = str(error).strip() or "no message"
    return {"error": type(error).__name__, "message": message.splitlines()[0][:300]}


def _answer(request: str, loader: Loader, batches: Iterator[tuple[Any, Any]]) -> dict[str, Any]:
    import numpy

    if request == "state":
        return {"state": base64.b64encode(loader.state()).decode()}
    if request == "workers":
        return {"workers": sorted(child.pid for child in multiprocessing.active_children() if child.pid)}
    batch = next(batches, None)
    if batch is None:
        return {"end": True}
    indices, rows = batch
    checksums = [zlib.crc32(row.tobytes()) for row in numpy.asarray(rows)]
    return {"indices": [int(index) for index in indices], "checksums": checksums}
