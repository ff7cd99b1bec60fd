"""The tf.data service: a dispatcher and three workers, which divide the epoch among all trainers that join the job.

This module starts the processes of the service, and tries to save the iterator of a trainer. The module knows no case.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from .trainer import Trainer, payloads

TITLE = "tf.data service"
LIBRARY = "tensorflow"
SETTING = (
    '`"distributed_epoch"` on three workers, one named job for all trainers, `worker_timeout_ms=5000`, '
    "a shuffle buffer of 64 records on each worker; new trainers join the job by its name"
)
PACKAGES = ["tensorflow-cpu", "numpy"]
MODULES = ("numpy", "tensorflow")
REFUSED: dict[str, str] = {}
WORKERS = 3
#: The milliseconds without a heartbeat after which the dispatcher gives up a worker, and between two heartbeats.
TIMEOUT_MS, HEARTBEAT_MS = 5_000, 200
#: The records in the shuffle buffer of each worker. A killed worker loses its buffer, so the buffer is small.
BUFFER = 64

_WORKER = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
config = service.WorkerConfig(dispatcher_address=sys.argv[1], heartbeat_interval_ms=int(sys.argv[2]))
worker = service.WorkerServer(config)
print("serves", flush=True)
sys.stdin.read()
"""


def serve() -> tuple[str, list[int], Any]:
    """Starts the service. Returns its address, the ids of its worker processes, and an object that keeps the service running."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(worker_timeout_ms=TIMEOUT_MS))
    address = dispatcher.target.split("://")[1]
    command = [sys.executable, "-P", "-c", _WORKER, address, str(HEARTBEAT_MS)]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(WORKERS)]
    for worker in workers:
        if not worker.stdout.readline():
            raise SystemExit(f"a worker of the tf.data service ended with {worker.wait()} before it served: see its error output above")
    return dispatcher.target, [worker.pid for worker in workers], (dispatcher, workers)


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        import numpy
        import tensorflow as tf

        rows = (numpy.arange(trainer.records), payloads(trainer.records))
        dataset = tf.data.Dataset.from_tensor_slices(rows).shuffle(BUFFER, seed=trainer.seed).batch(trainer.batch)
        distribute = tf.data.experimental.service.distribute("distributed_epoch", trainer.target, job_name=trainer.run)
        self._iterator = iter(dataset.apply(distribute))

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches that this trainer receives until the end of the epoch."""
        return ((indices.numpy(), rows.numpy()) for indices, rows in self._iterator)

    def state(self) -> bytes:
        """Returns the checkpoint of the iterator."""
        import tensorflow as tf

        with tempfile.TemporaryDirectory() as folder:
            written = tf.train.Checkpoint(iterator=self._iterator).write(os.path.join(folder, "iterator"))
            return b"".join(path.read_bytes() for path in sorted(pathlib.Path(written).parent.iterdir()))
