"""Millstream: a native pipeline on three workers of a service, read exactly once.

This module uses only the public calls of Millstream. It knows the form of a state as JSON, and nothing of its fields.
"""

import json
from collections.abc import Iterator
from typing import Any

from .trainer import COPIES, Trainer, stored

TITLE = "Millstream"
LIBRARY = "millstream"
SETTING = (
    'three workers with one thread each, `ms.DataLoader(visitation="exactly_once")`, a shuffle of all records, '
    "batches of 6 records for any number of trainers, `ms.joined_states`"
)
PACKAGES = ["numpy", "cloudpickle"]
MODULES = ("numpy", "millstream")
REFUSED: dict[str, str] = {}
#: The records of a batch of one trainer. Batches are elements of the dataset, so every number of trainers has the same batches.
BATCH = 6
#: The workers of the service, and the threads of each worker.
WORKERS, THREADS = 3, 1


def serve() -> tuple[str, list[int], Any]:
    """Starts the service. Returns its address, the ids of its worker processes, and an object that keeps the service running."""
    import millstream as ms

    service = ms.local(workers=WORKERS, threads=THREADS)
    return service.target, service.pids[1:], service


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


def joined(states: list[bytes], trainers: int) -> bytes:
    """Returns the state for another number of trainers."""
    import millstream as ms

    return json.dumps(ms.joined_states([json.loads(state) for state in states], trainers)).encode()


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        import numpy

        import millstream as ms

        rows = (numpy.arange(trainer.records), stored(trainer.records))
        dataset = ms.Dataset.from_tensor_slices(rows).shuffle(trainer.records)
        dataset = dataset.map(lambda index, row: (index, ms.ops.concat([row] * COPIES))).batch(trainer.batch)
        ranks = {"dp_rank": trainer.rank, "dp_size": trainer.trainers}
        self._loader = ms.DataLoader(dataset, service=trainer.target, visitation="exactly_once", seed=trainer.seed, output="numpy", **ranks)
        if trainer.saved is not None:
            self._loader.load_state_dict(json.loads(trainer.saved))

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches from the saved state to the end of the epoch."""
        return iter(self._loader)

    def state(self) -> bytes:
        """Returns the position as JSON."""
        return json.dumps(self._loader.state_dict()).encode()
