"""Runs ``tf.data`` datasets on the workers of a service. The trainer sends the graph, and TensorFlow runs the graph on the workers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ._connection import connect, on_connection
from ._dataset import Dataset
from ._tf_elements import BLOCK, dataset_of
from ._tf_errors import raising_errors_of_tensorflow
from ._tf_registered import register, registered
from ._tf_shipping import NUM_SHARDS, Shipped, cardinality, native_policy, traced
from .errors import InvalidArgumentError, NotFoundError
from .service import CrossTrainerCache, ShardingPolicy, _address, _policy, _Terms, _travel
from .service import distribute as _distribute

__all__ = ["distribute", "from_dataset_id", "register_dataset"]

#: The number of datasets that one place in a function of TensorFlow keeps, so that a repeated call reads the next pass.
_KEPT = 64


@raising_errors_of_tensorflow
def distribute(
    processing_mode: ShardingPolicy | str,
    service: Any,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    num_shards: int = NUM_SHARDS,
    on_lost: str = "warn",
) -> Callable[[Any], Any]:
    """Runs all operations before this transformation on the workers of a service. Pass the result to ``tf.data.Dataset.apply``.

    The arguments are those of ``tf.data.experimental.service.distribute``. The result is a ``tf.data.Dataset`` of the same ``element_spec``. The
    transformation can be applied in a ``tf.function``, and in a function of another dataset. The graph may call Python functions: they are pickled,
    and run in the Python processes of the workers.

    The policy decides what a worker reads:

    - OFF: each worker reads the whole dataset, also an infinite one.
    - DYNAMIC, finite: each source is divided into ``num_shards`` shares. One worker reads each share and runs the whole pipeline on the share.
      Batches and counts, such as the count of ``take``, therefore apply to a share.
    - DYNAMIC, infinite: each worker runs the whole pipeline, and starts each source of known size at a different place. After the end of the
      source the worker continues at the beginning. All elements are therefore read equally often over time, but not exactly once in each pass.
      A source of unknown size starts at its beginning, and so do all sources if the pipeline counts elements, such as with ``take``.
    - FILE, DATA, FILE_OR_DATA, HINT: TensorFlow divides the dataset among the fixed list of workers of the dispatcher, as in the tf.data service.

    As with TensorFlow's service, the cardinality of the result is unknown unless it is 0 or infinite. Keras counts the steps in the first epoch,
    and then warns that the input ran out of data. To avoid the warning, repeat the result and pass ``steps_per_epoch`` to ``fit``.
    TensorFlow's strategies do not divide a named job again.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``.
        service: The address of the service, as for ``ms.service.distribute``.
        job_name: A name by which several readers share a job.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read, which advance in step and end in the same step. Each worker leaves out its
            last elements that fill no step.
        max_outstanding_requests: The maximum number of elements of all workers that are in flight or wait in the reader.
        data_transfer_protocol: The transport, as for ``ms.service.distribute``.
        compression: The compression over the network: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        cross_trainer_cache: The id of this trainer in a cross-trainer cache, by which trainers share computed elements.
        target_workers: The workers to read from: ``"AUTO"``, ``"ANY"`` or ``"LOCAL"`` (this process).
        num_shards: The number of shares of each source.
        on_lost: ``"warn"``, ``"raise"`` or ``"ignore"``, as for ``ms.service.distribute``.

    Returns:
        The transformation.

    Raises:
        InvalidArgumentError: The dataset has elements that are not tensors, or calls a Python function that cannot be pickled. As all errors here,
            the error is also the one of this name in ``tf.errors``.
        UnimplementedError: The policy divides the dataset, and the dataset is already distributed.
    """
    policy = _policy(processing_mode)
    if num_shards < 1:
        raise InvalidArgumentError(f"num_shards={num_shards}: must be at least 1")
    distributed = _distribute(
        native_policy(policy),
        service,
        job_name,
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        data_transfer_protocol,
        compression,
        cross_trainer_cache,
        target_workers,
        on_lost,
    )

    @raising_errors_of_tensorflow
    def apply(dataset: Any) -> Any:
        graph, count = traced(dataset)
        spec = dataset.element_spec

        def native(graph: bytes, count: Any) -> Dataset:
            shipped = Shipped.of(graph, int(count), spec, num_shards)
            return Dataset(shipped.form(policy)).apply(distributed)

        late = not isinstance(graph, bytes)
        made = _Late(native) if late else functools.partial(_same, native(graph, count))
        known = cardinality(-2 if late else count, policy, num_consumers)
        return _read(made, spec, (graph, count) if late else (), known, job_name, max_outstanding_requests)

    return apply


@raising_errors_of_tensorflow
def register_dataset(
    service: Any, dataset: Any, compression: str | None = "AUTO", dataset_id: str | None = None, *, num_shards: int = NUM_SHARDS
) -> Any:
    """Registers a ``tf.data.Dataset`` with a service, for readers that know its id.

    The service stores one form of the dataset for each sharding policy, together with the ``element_spec``.

    Args:
        service: The address of the service, as for ``distribute``.
        dataset: The dataset.
        compression: The compression over the network: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        dataset_id: The id of the dataset. By default the id is a number that equal datasets share. If a dataset of the same structure has the id
            already, this dataset stays.
        num_shards: The number of shares of each source, if a reader chooses DYNAMIC.

    Returns:
        The id of the registered dataset as a string tensor.

    Raises:
        InvalidArgumentError: The dataset has elements that are not tensors, or the id belongs to a dataset of other elements or of another size.
    """
    import tensorflow as tf

    address, travel, spec = _address(service), _travel(compression), getattr(dataset, "element_spec", None)
    graph, count = traced(dataset)

    def registering(graph: bytes, count: Any) -> bytes:
        shipped = Shipped.of(graph, int(count), spec, num_shards)
        known_as = None if dataset_id is None else str(dataset_id)
        return on_connection(lambda: connect(address), lambda connection: register(connection, shipped, travel, known_as)).encode()

    if isinstance(graph, bytes):
        return tf.constant(registering(graph, count))
    return tf.ensure_shape(tf.numpy_function(registering, [graph, count], tf.string), ())


@raising_errors_of_tensorflow
def from_dataset_id(
    processing_mode: ShardingPolicy | str,
    service: Any,
    dataset_id: Any,
    element_spec: Any = None,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    on_lost: str = "warn",
) -> Any:
    """Reads a dataset that ``register_dataset`` has registered, in this program or in another one.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``, as for ``distribute``.
        service: The address of the service, as for ``distribute``.
        dataset_id: The id that ``register_dataset`` returned: a string, bytes, a number, or a tensor.
        element_spec: The spec of the elements, by default the service's spec. An id that a ``tf.function`` computes needs an ``element_spec``.
        job_name: A name by which several readers share a job of this dataset.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read, which advance in step and end in the same step. Each worker leaves out its
            last elements that fill no step.
        max_outstanding_requests: The maximum number of elements of all workers that are in flight or wait in the reader.
        data_transfer_protocol: The transport, as for ``distribute``.
        cross_trainer_cache: The id of this trainer in a cross-trainer cache, by which trainers share computed elements.
        target_workers: The workers to read from: ``"AUTO"``, ``"ANY"`` or ``"LOCAL"`` (this process).
        on_lost: ``"warn"``, ``"raise"`` or ``"ignore"``, as for ``distribute``.

    Returns:
        The ``tf.data.Dataset``.

    Raises:
        NotFoundError: The service has no dataset with this id.
        ValueError: The service has no dataset with this id, and no ``element_spec`` is given, as upstream.
        InvalidArgumentError: The elements have another spec, or ``register_dataset`` did not register the dataset.
        UnimplementedError: The policy cannot divide the dataset.
    """
    import tensorflow as tf

    policy = _policy(processing_mode)
    terms = _Terms(
        native_policy(policy),
        service,
        job_name,
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        data_transfer_protocol,
        cross_trainer_cache,
        target_workers,
        on_lost,
        None,
    )

    def native(known_as: Any) -> Dataset:
        name = known_as.decode() if isinstance(known_as, bytes) else str(known_as)
        return terms.dataset(registered(terms.connected(), name).form(policy), None if job_name is None else f"dataset_id={name}/{job_name}")

    if tf.is_symbolic_tensor(dataset_id):
        if element_spec is None:
            raise ValueError("element_spec must be given for a dataset_id that a tf.function computes: pass the element_spec of the dataset")
        known = cardinality(-2, policy, num_consumers)
        return _read(_Late(native), element_spec, (dataset_id,), known, job_name, max_outstanding_requests)
    try:
        found = on_connection(terms.connected, lambda connection: registered(connection, _text(dataset_id)))
    except NotFoundError as error:
        if element_spec is not None:
            raise
        raise ValueError(f"{error.message}; pass a dataset_id of ms.tf.register_dataset, from which the element_spec can be read") from error
    spec = found.spec if element_spec is None else _checked(element_spec, found.spec, found.dataset_id)
    source = functools.partial(_same, native(found.dataset_id))
    return _read(source, spec, (), cardinality(found.count, policy, num_consumers), job_name, max_outstanding_requests)


class _Late:
    """Makes datasets when their arguments are known, and keeps the latest ones, so that a repeated call of a function reads the next pass."""

    def __init__(self, make: Callable[..., Dataset]) -> None:
        self._make = make
        self._made: dict[Any, Dataset] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Dataset:
        with self._lock:
            made = self._made.pop(args, None)
            made = self._make(*args) if made is None else made
            self._made[args] = made
            if len(self._made) > _KEPT:
                del self._made[next(iter(self._made))]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Late, (self._make,))


def _same(dataset: Dataset) -> Dataset:
    return dataset


def _text(dataset_id: Any) -> str:
    dataset_id = dataset_id.numpy() if hasattr(dataset_id, "numpy") else dataset_id
    return dataset_id.decode() if isinstance(dataset_id, bytes) else str(dataset_id)


def _checked(given: Any, found: Any, dataset_id: str) -> Any:
    """Returns the given spec, which may leave sizes open.

    Raises:
        InvalidArgumentError: The spec contradicts the registered spec.
    """
    import tensorflow as tf

    try:
        tf.nest.assert_same_structure(given, found)
        fits = all(a.is_compatible_with(b) for a, b in zip(tf.nest.flatten(given), tf.nest.flatten(found), strict=True))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InvalidArgumentError(f"dataset {dataset_id}: expected elements {given}, found elements {found} in the service")
    return given


def _read(source: Any, spec: Any, args: tuple[Any, ...], known: int, job_name: str | None, outstanding: int | None) -> Any:
    """Returns the elements of a service as a TensorFlow dataset of a known number of elements."""
    import tensorflow as tf

    # A block waits in the reader, so it counts as a small part of the elements that may be outstanding.
    block = max(1, outstanding // 8) if outstanding is not None and outstanding > 0 else BLOCK
    taken = dataset_of(source, spec, args, block=block)
    if known != tf.data.UNKNOWN_CARDINALITY:
        taken = taken.apply(tf.data.experimental.assert_cardinality(known))
    if job_name is not None:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        taken = taken.with_options(options)
    return taken
