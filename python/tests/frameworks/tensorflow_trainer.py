"""A trainer that uses TensorFlow's own strategies.

``test_several_processes.py`` starts this program with the address of a service and a name. The program prints the elements that it read as a
line of JSON. With ``TF_CONFIG`` the program is one of several trainers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import millstream as ms

#: The number of rows of all replicas in a step.
GLOBAL_BATCH = 8
SAMPLES = 64


def steps(strategy: tf.distribute.Strategy, dataset: Any) -> dict[str, Any]:
    """Returns the parts of a distributed dataset that replicas received, and the sums over all replicas."""

    @tf.function
    def total(values: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(values,)), axis=None)

    seen, sums = [], []
    for values in dataset:
        parts = strategy.experimental_local_results(values)
        seen.append([np.asarray(part).tolist() for part in parts])
        sums.append(int(total(values)))
    return {"seen": seen, "sums": sums}


def distributed(service: str) -> Any:
    """Returns a TensorFlow dataset of global batches that workers compute. Each row arrives once, at one of the job's readers."""
    # A pass of a job can be read only once, so each test uses its own job.
    reading = ms.tf.distribute("distributed_epoch", service, job_name=" ".join(sys.argv[2:]), num_shards=4)
    return tf.data.Dataset.range(SAMPLES).apply(reading).batch(GLOBAL_BATCH)


def of_a_dataset(strategy: tf.distribute.Strategy, service: str) -> dict[str, Any]:
    """Cuts global batches with ``experimental_distribute_dataset``."""
    return steps(strategy, strategy.experimental_distribute_dataset(distributed(service)))


def of_a_function(strategy: tf.distribute.Strategy, service: str) -> dict[str, Any]:
    """Reads batches of each replica's size with ``distribute_datasets_from_function``."""

    def make(context: tf.distribute.InputContext) -> Any:
        return distributed(service).unbatch().batch(context.get_per_replica_batch_size(GLOBAL_BATCH))

    return steps(strategy, strategy.distribute_datasets_from_function(make))


def of_millstream(strategy: tf.distribute.Strategy, service: str) -> dict[str, Any]:
    """Cuts global batches with ``ms.distribute_dataset``, and passes the parts to TensorFlow's replicas."""
    native = ms.Dataset.range(SAMPLES).apply(ms.service.distribute("distributed_epoch", service)).batch(GLOBAL_BATCH)
    cut = ms.distribute_dataset(native, strategy.num_replicas_in_sync)

    def values() -> Any:
        for step in cut:
            yield strategy.experimental_distribute_values_from_function(
                lambda context, step=step: tf.constant(step.values[context.replica_id_in_sync_group])
            )

    return steps(strategy, values())


def of_keras(strategy: tf.distribute.Strategy, service: str) -> dict[str, Any]:
    """Fits a line with Keras under a strategy."""
    import keras

    x = np.linspace(-1, 1, 128, dtype=np.float32)[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((x, 2 * x + 1)).shuffle(128)
    dataset = dataset.apply(ms.tf.distribute("distributed_epoch", service, num_shards=4)).batch(16).repeat()
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.3), "mse")
    return {"loss": model.fit(dataset, epochs=10, steps_per_epoch=8, verbose=0).history["loss"][-1]}


WAYS: dict[str, Callable[[tf.distribute.Strategy, str], dict[str, Any]]] = {
    "dataset": of_a_dataset,
    "function": of_a_function,
    "millstream": of_millstream,
    "keras": of_keras,
}


def main() -> None:
    """Runs one of ``WAYS`` with two replicas in this process, or with one replica in each of several processes."""
    service, how, way = sys.argv[1:]
    if how == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    found = ms.rank()
    told = {"rank": [found.dp_rank, found.dp_size, found.source], "replicas": strategy.num_replicas_in_sync}
    print(json.dumps({**told, **WAYS[way](strategy, service)}))


if __name__ == "__main__":
    main()
