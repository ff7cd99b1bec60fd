"""The service: servers, and datasets that are read from it.

Names, parameters and defaults are those of ``tf.data.experimental.service``.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._connection import Connection, connect
from ._dataset import Dataset
from ._millstream import Dispatcher, Elements, Worker
from ._positions import Delivered
from ._spec import dressed
from .errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = [
    "ON_LOST",
    "SHARD_HINT",
    "CrossTrainerCache",
    "DispatchServer",
    "DispatcherConfig",
    "ShardingPolicy",
    "WorkerConfig",
    "WorkerServer",
    "distribute",
    "from_dataset_id",
    "register_dataset",
]

SHARD_HINT = -1

#: Upstream's words, and ours. Compression is never forced: what does not get shorter travels as it is.
_COMPRESSIONS = {"AUTO": None, None: "none", "NONE": "none", "SNAPPY": "lz4", "LZ4": "lz4"}

#: How elements may travel: by the best way there is, or over the network in any case.
_PROTOCOLS = {None: True, "grpc": True, "auto": True, "shm": True, "quic": False}

_SCHEMES = ("millstream", "grpc")

#: What becomes of the end of an epoch of which elements were lost.
ON_LOST = ("raise", "warn", "ignore")


class ShardingPolicy(enum.IntEnum):
    """How a dataset is dealt out to workers.

    ``OFF``: each worker produces all of it. ``DYNAMIC``: in splits, as workers ask for them. ``FILE``, ``DATA``,
    ``FILE_OR_DATA`` and ``HINT`` divide it among a fixed list of workers.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


class CrossTrainerCache:
    """The share of a trainer in what workers compute for all trainers of a job.

    Args:
        trainer_id: The trainer's id, which no other trainer has.
    """

    def __init__(self, trainer_id: str) -> None:
        if not trainer_id:
            raise ValueError("a cross-trainer cache needs a trainer_id that is not empty")
        self.trainer_id = str(trainer_id)


@dataclasses.dataclass(frozen=True)
class DispatcherConfig:
    """The settings of a dispatcher. Those after ``worker_max_concurrent_snapshots`` are Millstream's own.

    ``protocol`` and ``worker_max_concurrent_snapshots`` are accepted and have no effect. A ``work_dir`` is used in
    ``fault_tolerant_mode``, and only then.
    """

    port: int = 0
    protocol: str | None = None
    work_dir: str | None = None
    fault_tolerant_mode: bool = False
    worker_addresses: Sequence[str] | None = None
    job_gc_check_interval_ms: int | None = None
    job_gc_timeout_ms: int | None = None
    worker_timeout_ms: int | None = None
    worker_max_concurrent_snapshots: int = 0
    host: str = "127.0.0.1"
    client_timeout_ms: int | None = None
    gc_dynamic_sharding_jobs: bool = False
    liveness_ms: int | None = None
    deployment_mode: str | None = None

    def __post_init__(self) -> None:
        if self.fault_tolerant_mode and not self.work_dir:
            raise ValueError("fault_tolerant_mode needs a work_dir in which the dispatcher keeps its records")


@dataclasses.dataclass(frozen=True)
class WorkerConfig:
    """The settings of a worker. Those after ``data_transfer_address`` are Millstream's own.

    ``protocol`` and ``heartbeat_interval_ms`` are accepted and have no effect: how often workers show that they live the
    dispatcher says. ``python`` runs users' code of Python, in processes of its own: by default what ``MILLSTREAM_PYTHON`` names,
    else the interpreter of this process; ``"inline"`` runs it in this process, for debugging, without deadlines and limits.
    """

    dispatcher_address: str
    worker_address: str | None = None
    port: int = 0
    protocol: str | None = None
    heartbeat_interval_ms: int | None = None
    dispatcher_timeout_ms: int | None = None
    data_transfer_protocol: str | None = None
    data_transfer_address: str | None = None
    host: str = "127.0.0.1"
    tags: Sequence[str] = ()
    threads: int | None = None
    memory_bytes: int | None = None
    cross_trainer_cache_bytes: int | None = None
    compression: str | None = None
    python: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dispatcher_address, str) or not self.dispatcher_address:
            raise ValueError("dispatcher_address must be a string that is not empty")
        _shares_memory(self.data_transfer_protocol)


class _Server:
    """What both kinds of servers do."""

    def __init__(self, start: bool) -> None:
        self._server: Dispatcher | Worker | None = None
        self._is_stopped = False
        if start:
            self.start()

    def _started(self) -> Dispatcher | Worker:
        raise NotImplementedError

    def start(self) -> None:
        """Begins to serve; nothing if it serves.

        Raises:
            FailedPreconditionError: It was stopped.
        """
        if self._is_stopped:
            raise FailedPreconditionError("the server was stopped; make another one")
        if self._server is None:
            self._server = self._started()
            # A server that nobody holds ends, and so does every server at the end of the program.
            self._end = weakref.finalize(self, self._server.stop)

    def _serving(self) -> Any:
        if self._server is None:
            raise FailedPreconditionError("the server was not started")
        return self._server

    def join(self) -> None:
        """Waits until it has ended."""
        if self._server is not None:
            self._server.join()

    def stop(self) -> None:
        """Ends it; nothing if it has ended."""
        self._is_stopped = True
        if self._server is not None:
            self._server.stop()

    _stop = stop

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class DispatchServer(_Server):
    """A dispatcher in this process.

    Args:
        config: The settings.
        start: Whether it starts at once; otherwise by ``start``.
    """

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        self._config = config or DispatcherConfig()
        super().__init__(start)

    def _started(self) -> Dispatcher:
        config = self._config
        return Dispatcher.start(
            host=config.host,
            port=config.port or 0,
            work_dir=config.work_dir if config.fault_tolerant_mode else None,
            worker_addresses=[_address(address) for address in config.worker_addresses or ()],
            job_gc_check_interval_ms=config.job_gc_check_interval_ms,
            job_gc_timeout_ms=config.job_gc_timeout_ms,
            worker_timeout_ms=config.worker_timeout_ms,
            client_timeout_ms=config.client_timeout_ms,
            gc_dynamic_sharding_jobs=config.gc_dynamic_sharding_jobs,
            liveness_ms=config.liveness_ms,
            deployment_mode=config.deployment_mode,
        )

    @property
    def target(self) -> str:
        """Where it is, as ``millstream://host:port``."""
        address: str = self._serving().address
        return f"millstream://{address}"

    def _address(self) -> str:
        return self.target.split("://")[1]

    def workers(self) -> list[dict[str, Any]]:
        """Lists the living workers.

        Returns:
            A dict for each, with its address, its tags and its number of tasks.
        """
        return connect(self._address()).workers()

    def _num_workers(self) -> int:
        return len(self.workers())


class WorkerServer(_Server):
    """A worker in this process. Readers in this process reach it without a network.

    Args:
        config: The settings.
        start: Whether it starts at once; otherwise by ``start``.
    """

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if not isinstance(config, WorkerConfig):
            raise ValueError(f"config must be a WorkerConfig, not {config!r}")
        self._config = config
        super().__init__(start)

    def _started(self) -> Worker:
        config = self._config
        return Worker.start(
            dispatcher=_address(config.dispatcher_address),
            host=config.host,
            port=config.port or 0,
            advertise=config.data_transfer_address or config.worker_address,
            tags=list(config.tags),
            threads=config.threads,
            memory_bytes=config.memory_bytes,
            cross_trainer_cache_bytes=config.cross_trainer_cache_bytes,
            shm_bytes=None if _shares_memory(config.data_transfer_protocol) else 0,
            compression=config.compression,
            python=config.python,
            dispatcher_timeout_ms=config.dispatcher_timeout_ms,
        )

    @property
    def address(self) -> str:
        """Where readers find it, as ``host:port``."""
        address: str = self._serving().address
        return address

    def drain(self) -> None:
        """Has it leave in good order: what it has begun is brought to its readers. Returns at once."""
        self._serving().drain()

    def _num_tasks(self) -> int:
        workers = connect(_address(self._config.dispatcher_address)).workers()
        return sum(worker["tasks"] for worker in workers if worker["address"] == self.address)


@dataclasses.dataclass
class Reading:
    """What is read of a service and how. Picklable: a copy connects again, and without a job's name reads a job of its own."""

    address: str
    request: dict[str, Any]
    config: dict[str, Any]
    shares_memory: bool = True
    #: Seconds for which the dispatcher may be out of reach; ``None``: as this process says.
    dispatcher_timeout_s: float | None = None
    #: The numbers of the passes to come, for all datasets that are this reading.
    passes: Iterator[int] = dataclasses.field(default_factory=itertools.count, repr=False, compare=False)
    #: The passes of the job that this process has opened by it.
    opened: Delivered = dataclasses.field(default_factory=Delivered, repr=False, compare=False)
    _connection: Connection | None = dataclasses.field(default=None, repr=False, compare=False)
    _job: int | None = dataclasses.field(default=None, repr=False, compare=False)

    def connected(self) -> Connection:
        """The connection, which is kept as long as this is. Another one reads another job, unless it has a name."""
        if self._connection is None or not self._connection.is_usable():
            connection = connect(
                self.address, shares_memory=self.shares_memory, dispatcher_timeout_s=self.dispatcher_timeout_s
            )
            self._connection, self._job = connection, None
        return self._connection

    def open(self, number: int, take: Callable[[Any], Any] | None) -> Elements:
        """One pass."""
        connection = self.connected()
        if self._job is None:
            self._job = connection.job(self.request)
        elements = connection.read(self._job, number, self.config, take)
        self.opened.add(number)
        return elements

    def own(self) -> Reading:
        """Returns the same reading with a job of its own, unless the job has a name: then others read it too, and it is this one."""
        if self.request["job_name"] is not None:
            return self
        return dataclasses.replace(self, passes=itertools.count(), opened=Delivered(), _connection=None, _job=None)

    def unread(self, number: int) -> Reading:
        """Returns a reading of which this pass was not opened yet: this one, or one with another job.

        Raises:
            FailedPreconditionError: The job has a name, so that there is no other.
        """
        if number not in self.opened:
            return self
        if (name := self.request["job_name"]) is not None:
            raise FailedPreconditionError(
                f"pass {number} of the job {name!r} was opened in this process before, and each pass of a job is read once: set another "
                "epoch, or read the dataset without a job name or by another one"
            )
        return self.own()

    def __getstate__(self) -> dict[str, Any]:
        own = ("passes", "opened", "_connection", "_job")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, passes=itertools.count(), opened=Delivered(), _connection=None, _job=None)


def _address(service: Any) -> str:
    """The ``host:port`` of what names a service.

    Raises:
        ValueError: It names none.
        NotFoundError: It names one by a scheme that is unknown.
    """
    service = getattr(service, "target", service)
    if isinstance(service, tuple) and len(service) == 2:
        service = "://".join(service)
    if not isinstance(service, str):
        raise ValueError(f"service must be a string, not {type(service).__name__}: {service!r}")
    if not service:
        raise ValueError("service must not be empty")
    scheme, found, address = service.partition("://")
    if not found:
        return service
    if "://" in address:
        raise ValueError(f"service {service!r} has several '://'")
    if scheme not in _SCHEMES:
        raise NotFoundError(f"service {service!r}: there is no scheme {scheme}, use millstream:// or grpc://")
    return address


def is_of_this_host(service: Any) -> bool:
    """Whether a service is named by an address that only this host reaches."""
    return _address(service).startswith(("127.", "localhost:", "[::1]:"))


def _policy(processing_mode: Any) -> ShardingPolicy:
    if isinstance(processing_mode, ShardingPolicy):
        return processing_mode
    named = {"parallel_epochs": ShardingPolicy.OFF, "distributed_epoch": ShardingPolicy.DYNAMIC}
    if isinstance(processing_mode, str) and processing_mode in named:
        return named[processing_mode]
    raise ValueError(
        f"processing_mode {processing_mode!r}: use a ShardingPolicy, 'parallel_epochs' or 'distributed_epoch'"
    )


def _travel(compression: Any) -> str | None:
    word = compression.upper() if isinstance(compression, str) else compression
    if word not in _COMPRESSIONS:
        raise ValueError(f"compression {compression!r}: use 'AUTO', None, 'lz4' or 'none'")
    return _COMPRESSIONS[word]


def _shares_memory(data_transfer_protocol: Any) -> bool:
    if data_transfer_protocol not in _PROTOCOLS:
        known = ", ".join(repr(name) for name in _PROTOCOLS)
        raise NotFoundError(f"data_transfer_protocol {data_transfer_protocol!r} is not available: use one of {known}")
    return _PROTOCOLS[data_transfer_protocol]


def _check_job(job_name: Any, consumer_index: Any, num_consumers: Any) -> None:
    if job_name is not None and not isinstance(job_name, str):
        raise ValueError(f"job_name must be a string, not {type(job_name).__name__}: {job_name!r}")
    if job_name == "":
        raise ValueError("job_name must not be empty")
    if (consumer_index is None) != (num_consumers is None):
        raise ValueError(
            "consumer_index and num_consumers belong together: give both or neither, not "
            f"consumer_index={consumer_index}, num_consumers={num_consumers}"
        )
    if num_consumers is not None and job_name is None:
        raise ValueError(f"num_consumers={num_consumers} needs a job_name, by which the consumers find each other")


@dataclasses.dataclass(frozen=True)
class _Terms:
    """How a service is read, as both ways of naming a dataset are told it; checked when it is said."""

    processing_mode: Any
    service: Any
    job_name: str | None
    consumer_index: int | None
    num_consumers: int | None
    max_outstanding_requests: int | None
    data_transfer_protocol: str | None
    cross_trainer_cache: CrossTrainerCache | None
    target_workers: str
    on_lost: str
    dispatcher_timeout_s: float | None
    in_order: bool = False
    whole_splits: bool = False

    def __post_init__(self) -> None:
        _address(self.service)
        _policy(self.processing_mode)
        _check_job(self.job_name, self.consumer_index, self.num_consumers)
        _shares_memory(self.data_transfer_protocol)
        if self.on_lost not in ON_LOST:
            raise ValueError(f"on_lost {self.on_lost!r}: use {', '.join(map(repr, ON_LOST))}")

    def connected(self) -> Connection:
        """The connection by which it is read."""
        return connect(
            _address(self.service),
            shares_memory=_shares_memory(self.data_transfer_protocol),
            dispatcher_timeout_s=self.dispatcher_timeout_s,
        )

    def dataset(self, dataset_id: str, job_name: str | None) -> Dataset:
        """What is read of a registered dataset."""
        cache, credits = self.cross_trainer_cache, self.max_outstanding_requests or 0
        request = {
            "dataset_id": dataset_id,
            "policy": _policy(self.processing_mode).name.lower(),
            "job_name": job_name,
            "target_workers": self.target_workers.lower(),
            "num_consumers": self.num_consumers,
            "cross_trainer_cache": cache is not None,
            "expires": False,
            "in_order": self.in_order,
        }
        config = {
            "max_outstanding": credits if credits > 0 else None,
            "max_outstanding_bytes": None,
            "consumer": self.consumer_index,
            "trainer_id": cache.trainer_id if cache else None,
            "whole_splits": self.whole_splits,
            "on_lost": self.on_lost,
        }
        shares_memory = _shares_memory(self.data_transfer_protocol)
        reading = Reading(_address(self.service), request, config, shares_memory, self.dispatcher_timeout_s)
        return Dataset(reading.connected().distributed(request, config), reading=reading)


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
    on_lost: str = "warn",
    dispatcher_timeout_s: float | None = None,
) -> Callable[[Dataset], Dataset]:
    """Runs the operations before it on the workers of a service; a transformation for ``Dataset.apply``.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``.
        service: ``millstream://host:port``, ``grpc://host:port``, ``host:port``, or an object with such a ``target``.
        job_name: A name by which several readers share a job.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read.
        max_outstanding_requests: Elements that may be in flight or wait for the user, over all workers. Tuned by default.
        data_transfer_protocol: ``"grpc"``, ``"local"`` or ``None``, as upstream; shared memory is used where it can be.
        compression: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        cross_trainer_cache: The trainer's id, to share what workers compute with other trainers.
        target_workers: ``"AUTO"``, ``"ANY"``, ``"LOCAL"``, or ``"HOST"`` for workers of this host.
        on_lost: What happens at the end of an epoch that lost elements with a worker: ``"warn"`` issues a ``DataLossWarning``, ``"raise"``
            raises a ``DataLossError``, ``"ignore"`` does nothing.
        dispatcher_timeout_s: Seconds for which the dispatcher may be away. The default is that of ``MILLSTREAM_DISPATCHER_TIMEOUT_S``, or 600.

    Returns:
        The transformation.

    Raises:
        ValueError: An argument is unknown or contradicts another.

    Example:
        >>> with ms.local(workers=1, inline=True) as service:
        ...     squares = ms.Dataset.range(4).map(lambda x: x * x).apply(ms.service.distribute("distributed_epoch", service))
        ...     print(sorted(int(x) for x in squares))
        [0, 1, 4, 9]
    """
    travel = _travel(compression)
    terms = _Terms(
        processing_mode,
        service,
        job_name,
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        data_transfer_protocol,
        cross_trainer_cache,
        target_workers,
        on_lost,
        dispatcher_timeout_s,
    )

    return _application(terms, travel)


def distribute_steps(service: Any, in_order: bool) -> Callable[[Dataset], Dataset]:
    """Returns the transformation for a loader, whose dataset has one element at most for each split of its only source.

    ``in_order``: the reader takes elements in the order of the splits. The dispatcher then deals them out so that no worker reads an earlier
    split after a later one, and splits of a worker that has gone are read first.
    """
    plain = (None, None, None, None, None, None)
    # A split that is lost is no loss if its step came: the loader counts steps.
    terms = _Terms(ShardingPolicy.DYNAMIC, service, *plain, "AUTO", "ignore", None, in_order=in_order, whole_splits=True)
    return _application(terms, _travel("AUTO"))


def _application(terms: _Terms, travel: str | None) -> Callable[[Dataset], Dataset]:
    def apply(dataset: Dataset) -> Dataset:
        # Held, so that one connection does all of it.
        connection = terms.connected()
        return terms.dataset(_registered(connection, dataset, travel, None), terms.job_name)

    return apply


def _registered(connection: Connection, dataset: Dataset, travel: str | None, dataset_id: str | None) -> str:
    graph = dataset._executed if travel is None else dataset._executed.then("options", compression=travel)
    return connection.register(graph, dataset_id)


def register_dataset(
    service: Any, dataset: Dataset, compression: str | None = "AUTO", dataset_id: str | None = None
) -> str:
    """Registers a dataset with a service, for readers that know its id.

    Args:
        service: The service, as for ``distribute``.
        dataset: The dataset.
        compression: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        dataset_id: The id; the dispatcher chooses one by default.

    Returns:
        The id.
    """
    address, travel = _address(service), _travel(compression)
    return _registered(connect(address), dataset, travel, None if dataset_id is None else str(dataset_id))


def from_dataset_id(
    processing_mode: ShardingPolicy | str,
    service: Any,
    dataset_id: str | int | bytes,
    element_spec: Any = None,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    on_lost: str = "warn",
    dispatcher_timeout_s: float | None = None,
) -> Dataset:
    """Reads a registered dataset.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``.
        service: The service, as for ``distribute``.
        dataset_id: The id that ``register_dataset`` returned.
        element_spec: The spec of the elements. Without it the service is asked.
        job_name: A name among the jobs of this dataset.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read.
        max_outstanding_requests: Elements that may be in flight or wait for the user, over all workers. Tuned by default.
        data_transfer_protocol: ``"grpc"``, ``"local"`` or ``None``, as upstream.
        cross_trainer_cache: The trainer's id, to share what workers compute with other trainers.
        target_workers: ``"AUTO"``, ``"ANY"``, ``"LOCAL"``, or ``"HOST"`` for workers of this host.
        on_lost: ``"warn"``, ``"raise"`` or ``"ignore"``, as for ``distribute``.
        dispatcher_timeout_s: Seconds for which the dispatcher may be away.

    Returns:
        The dataset.

    Raises:
        NotFoundError: The service has no such dataset.
    """
    known_as = dataset_id.decode() if isinstance(dataset_id, bytes) else str(dataset_id)
    terms = _Terms(
        processing_mode,
        service,
        job_name,
        consumer_index,
        num_consumers,
        max_outstanding_requests,
        data_transfer_protocol,
        cross_trainer_cache,
        target_workers,
        on_lost,
        dispatcher_timeout_s,
    )
    connection = terms.connected()
    if element_spec is not None:
        found = dressed(connection.dataset(known_as)["spec"])
        if found != element_spec:
            raise InvalidArgumentError(f"dataset {known_as} is registered with elements {found}, not {element_spec}")
    return terms.dataset(known_as, None if job_name is None else f"dataset_id={known_as}/{job_name}")
