"""The process of one trainer: it opens the loader of a peer, and answers requests for batches, states and worker processes.

This module owns the records that all peers deliver, and the requests and answers in JSON lines. The module knows no peer and no fault.
"""

import base64
import dataclasses
import importlib
import json
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

#: The bytes of the payload of a record.
PAYLOAD_BYTES = 512


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


def payloads(records: int) -> Any:
    """Returns the payloads of all records: random bytes, which are equal in every process."""
    import numpy

    return numpy.random.default_rng(0).integers(0, 256, (records, PAYLOAD_BYTES), numpy.uint8)


def checksums(rows: Any) -> list[int]:
    """Returns the CRC-32 of each row of payloads."""
    import numpy

    return [zlib.crc32(row.tobytes()) for row in numpy.asarray(rows)]


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
    if request == "state":
        return {"state": base64.b64encode(loader.state()).decode()}
    if request == "workers":
        return {"workers": sorted(child.pid for child in multiprocessing.active_children() if child.pid)}
    batch = next(batches, None)
    if batch is None:
        return {"end": True}
    indices, rows = batch
    return {"indices": [int(index) for index in indices], "checksums": checksums(rows)}
