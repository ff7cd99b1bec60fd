"""The tf.data service: a dispatcher and three workers, which divide the epoch among all trainers that join the job.

This module starts the processes of the service, and tries to save the iterator of a trainer. The module knows no case.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from .trainer import COPIES, Trainer, stored

TITLE = "tf.data service"
LIBRARY = "tensorflow"
SETTING = (
    '`"distributed_epoch"` on three workers, one named job for all trainers, `worker_timeout_ms=5000`, '
    "a shuffle buffer of 64 records on each worker, a supervisor that restarts a killed worker at its address. "
    "New trainers join the job by its name"
)
PACKAGES = ["tensorflow-cpu", "numpy"]
MODULES = ("numpy", "tensorflow")
REFUSED: dict[str, str] = {}
WORKERS = 3
#: The milliseconds without a heartbeat after which the dispatcher gives up a worker, and between two heartbeats.
TIMEOUT_MS, HEARTBEAT_MS = 5_000, 200
#: The records in the shuffle buffer of each worker. A killed worker loses its buffer, so the buffer is small.
BUFFER = 64
#: The maximum number of restarts of one worker.
RESTARTS_MAX = 3

_WORKER = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
config = service.WorkerConfig(
    dispatcher_address=sys.argv[1], worker_address=f"localhost:{sys.argv[2]}", port=int(sys.argv[2]), heartbeat_interval_ms=int(sys.argv[3])
)
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
    workers = [Supervised(address, port) for port in _free_ports(WORKERS)]
    pids = [worker.wait_until_serving() for worker in workers]
    for worker in workers:
        threading.Thread(target=worker.restart_always, daemon=True).start()
    return dispatcher.target, pids, (dispatcher, workers)


class Supervised:
    """A worker process that is started again at its address after its death, as a cluster manager does."""

    def __init__(self, dispatcher: str, port: int) -> None:
        self._command = [sys.executable, "-P", "-c", _WORKER, dispatcher, str(port), str(HEARTBEAT_MS)]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def wait_until_serving(self) -> int:
        """Blocks until the worker serves. Returns its process id."""
        if not self._process.stdout.readline():
            code = self._process.wait()
            raise SystemExit(f"a worker of the tf.data service ended with {code} before it served: see its error output above")
        return self._process.pid

    def restart_always(self) -> None:
        """Starts the worker again after each of its deaths, at most ``RESTARTS_MAX`` times."""
        for _ in range(RESTARTS_MAX):
            self._process.wait()
            self._start()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        import numpy
        import tensorflow as tf

        rows = (numpy.arange(trainer.records), stored(trainer.records))
        dataset = tf.data.Dataset.from_tensor_slices(rows).shuffle(BUFFER, seed=trainer.seed)
        dataset = dataset.map(lambda index, row: (index, tf.tile(row, [COPIES]))).batch(trainer.batch)
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
