"""Tests of waits within TensorFlow: a wait ends with its iterator, and occupies no compute thread of TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")

#: The timeout of a program in seconds: ten times its time on a busy machine.
_WATCHDOG_S = 240

_BEGIN = """
import threading

import tensorflow as tf

import millstream as ms

tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(2)
"""


def said(program: str) -> list[str]:
    """Runs a program in a separate process, because TensorFlow's number of threads is fixed per process. Returns the printed words."""
    run = subprocess.run([sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=_WATCHDOG_S)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_an_iterator_goes_though_its_service_has_gone() -> None:
    assert said(
        """
dispatcher = ms.service.DispatchServer(ms.service.DispatcherConfig())
worker = ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target))
elements = iter(tf.data.Dataset.range(10).apply(ms.tf.distribute("parallel_epochs", dispatcher.target)))
print(sum(int(next(elements)) for _ in range(10)))
dispatcher.stop()
worker.stop()
del elements
print("gone")
"""
    ) == ["45", "gone"]


def test_an_iterator_goes_while_its_prefetch_waits() -> None:
    assert said(
        """
dispatcher = ms.service.DispatchServer(ms.service.DispatcherConfig())
worker = ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target))
# The computation of the second element never ends.
endless = tf.data.Dataset.range(2).map(lambda x: tf.while_loop(lambda y: y > 0, lambda y: y, [x])[0])
served = endless.apply(ms.tf.distribute("parallel_epochs", dispatcher.target))
elements = iter(served.prefetch(2))
print(int(next(elements)))
del elements
print("gone")
import os, sys
sys.stdout.flush()
# The worker's thread runs an endless TensorFlow loop, so a normal exit would hang.
os._exit(0)
"""
    ) == ["0", "gone"]


def test_an_iterator_goes_while_awaiting_a_dispatcher() -> None:
    assert said(
        """
dispatcher = ms.service.DispatchServer(ms.service.DispatcherConfig())
served = tf.data.Dataset.range(2).apply(ms.tf.distribute("parallel_epochs", dispatcher.target))
dispatcher.stop()
# The prefetch of the second element opens a job at the dispatcher that has gone.
elements = iter(tf.data.Dataset.range(1).concatenate(served).prefetch(2))
print(int(next(elements)))
del elements
print("gone")
"""
    ) == ["0", "gone"]


@pytest.mark.parametrize("consumers", [3, 7])
def test_more_consumers_than_threads_make_progress(consumers: int) -> None:
    assert said(
        f"""
consumers = {consumers}
with ms.local(workers=1) as service:
    rows = tf.data.Dataset.range(10).repeat()
    datasets = [
        rows.apply(ms.tf.distribute("parallel_epochs", service, job_name="one", consumer_index=index, num_consumers=consumers))
        for index in range(consumers)
    ]
    together = tf.data.Dataset.from_tensor_slices(datasets)
    together = together.interleave(lambda each: each, cycle_length=consumers, num_parallel_calls=consumers)
    print(sum(1 for _ in together.take(10 * consumers)))
"""
    ) == [str(10 * consumers)]
