"""The servers of a service, and datasets that read from a service.

The names, parameters and defaults are those of ``tf.data.experimental.service``.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _html
from ._connection import Connection, connect, on_connection
from ._dataset import Dataset
from ._millstream import Dispatcher, Elements, Worker
from ._positions import Delivered
from ._ranks import rank
from ._resolve import ResolvedService, resolve
from ._service_saving import SaveProgress, Saving, load, save
from ._spec import dressed
from .errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = [
    "ON_LOST",
    "SHARD_HINT",
    "CrossTrainerCache",
    "DispatchServer",
    "DispatcherConfig",
    "ResolvedService",
    "SaveProgress",
    "Saving",
    "ShardingPolicy",
    "WorkerConfig",
    "WorkerServer",
    "distribute",
    "from_dataset_id",
    "load",
    "register_dataset",
    "resolve",
    "save",
]

SHARD_HINT = -1

#: The values of ``compression`` in tf.data and in Millstream, and the library's setting for each. Data that compression does not shorten is sent
#: uncompressed.
_COMPRESSIONS = {"AUTO": None, None: "none", "NONE": "none", "SNAPPY": "lz4", "LZ4": "lz4"}

#: The values of ``data_transfer_protocol``, and whether each permits shared memory.
_PROTOCOLS = {None: True, "grpc": True, "auto": True, "shm": True, "quic": False}

_SCHEMES = ("millstream", "grpc")

#: The valid reactions to the end of an epoch that lost elements.
ON_LOST = ("raise", "warn", "ignore")


class ShardingPolicy(enum.IntEnum):
    """The policy by which a service divides a dataset among its workers.

    With ``OFF`` each worker produces the whole dataset. With ``DYNAMIC`` the dispatcher leases splits to workers on demand. ``FILE``, ``DATA``,
    ``FILE_OR_DATA`` and ``HINT`` divide the dataset among a fixed list of workers.

    Example:
        >>> with ms.local(workers=2, inline=True) as service:
        ...     numbers = ms.Dataset.range(4).apply(ms.service.distribute(ms.service.ShardingPolicy.OFF, service))
        ...     print(sorted(int(x) for x in numbers))
        [0, 0, 1, 1, 2, 2, 3, 3]
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


class CrossTrainerCache:
    """The membership of a trainer in the cross-trainer cache of a job. Workers compute each element once for all trainers of the job.

    Args:
        trainer_id: The unique id of this trainer.

    Example:
        >>> cache = ms.service.CrossTrainerCache(trainer_id="trainer 1")
        >>> with ms.local(workers=1, inline=True) as service:
        ...     shared = ms.service.distribute("parallel_epochs", service, job_name="shared", cross_trainer_cache=cache)
        ...     print([int(x) for x in ms.Dataset.range(3).repeat().apply(shared).take(3)])
        [0, 1, 2]
    """

    def __init__(self, trainer_id: str) -> None:
        if not trainer_id:
            raise ValueError(f"expected a non-empty trainer_id for the cross-trainer cache, found {trainer_id!r}")
        self.trainer_id = str(trainer_id)


def _check_admin(admin: str | None, admin_token: str | None) -> None:
    if admin_token is not None and admin is None:
        raise ValueError("admin_token needs an admin port: pass admin, such as admin='127.0.0.1:9464'")


@dataclasses.dataclass(frozen=True)
class DispatcherConfig:
    """The settings of a dispatcher. tf.data has no counterpart for the settings after ``worker_max_concurrent_snapshots``.

    ``protocol`` and ``worker_max_concurrent_snapshots`` are accepted and have no effect. The dispatcher uses a ``work_dir`` only in
    ``fault_tolerant_mode``. ``store`` names the records that several dispatchers share on etcd, as ``millstream dispatcher --store`` does, and
    ``advertise`` is the address at which workers and readers reach this dispatcher. ``admin`` is the ``IP:PORT`` of an admin port, and
    ``admin_token`` the token that its requests must present.

    Example:
        >>> config = ms.service.DispatcherConfig(job_gc_timeout_ms=1000)
        >>> with ms.service.DispatchServer(config) as dispatcher:
        ...     print(dispatcher.workers())
        []
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
    store: str | None = None
    advertise: str | None = None
    admin: str | None = None
    admin_token: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.fault_tolerant_mode and not self.work_dir:
            raise ValueError("fault_tolerant_mode needs a work_dir, in which the dispatcher stores its records: pass work_dir")
        if self.store is not None and self.fault_tolerant_mode:
            raise ValueError("store and fault_tolerant_mode exclude each other, because each names the place of the records: pass one of them")
        if self.advertise is not None and self.store is None:
            raise ValueError("advertise needs a store that several dispatchers share, such as store='etcd://HOST:PORT/PREFIX'")
        _check_admin(self.admin, self.admin_token)


@dataclasses.dataclass(frozen=True)
class WorkerConfig:
    """The settings of a worker. tf.data has no counterpart for the settings after ``data_transfer_address``.

    ``protocol`` and ``heartbeat_interval_ms`` are accepted and have no effect, because the dispatcher sets the interval of heartbeats.
    ``admin`` is the ``IP:PORT`` of an admin port, and ``admin_token`` the token that its requests must present.
    ``python`` is the interpreter that runs users' Python code in separate processes. The default is the interpreter that
    ``MILLSTREAM_PYTHON`` names, or the interpreter of this process. ``"inline"`` runs users' code in this process, for debugging, without
    deadlines and limits.

    Example:
        >>> with ms.service.DispatchServer() as dispatcher:
        ...     with ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target, tags=["big"])):
        ...         print([worker["tags"] for worker in dispatcher.workers()])
        [['big']]
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
    admin: str | None = None
    admin_token: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_admin(self.admin, self.admin_token)
        if not isinstance(self.dispatcher_address, str) or not self.dispatcher_address:
            raise ValueError("dispatcher_address must be a non-empty string")
        _shares_memory(self.data_transfer_protocol)


#: The settings that are secrets, which no text shows.
_SECRETS = frozenset({"admin_token"})


def _shown(config: DispatcherConfig | WorkerConfig, field: dataclasses.Field[Any]) -> Any:
    """Returns a setting as it is shown; ``None`` for a default."""
    value = getattr(config, field.name)
    if value is None or value == field.default:
        return None
    return "set" if field.name in _SECRETS else value


class _Server:
    """The common part of dispatcher and worker servers."""

    #: The settings, which are a `DispatcherConfig` or a `WorkerConfig`.
    _config: Any

    def __init__(self, start: bool) -> None:
        self._server: Dispatcher | Worker | None = None
        self._is_stopped = False
        if start:
            self.start()

    def _started(self) -> Dispatcher | Worker:
        raise NotImplementedError

    def start(self) -> None:
        """Starts the server. A running server continues to run.

        Raises:
            FailedPreconditionError: The server was stopped.

        Example:
            >>> dispatcher = ms.service.DispatchServer(start=False)
            >>> dispatcher.start()
            >>> dispatcher.stop()
        """
        if self._is_stopped:
            raise FailedPreconditionError("the server was stopped: create a new server")
        if self._server is None:
            self._server = self._started()
            # The finalizer stops the server when its object is collected, or when the program ends.
            self._end = weakref.finalize(self, self._server.stop)

    def _serving(self) -> Any:
        if self._server is None:
            raise FailedPreconditionError("the server was not started: call start first")
        return self._server

    def _has_ended(self) -> bool:
        """Returns whether the server has ended: by ``stop``, by a shutdown of the service, or by an error, which ``join`` raises."""
        return bool(self._serving().has_ended())

    def _state(self) -> str:
        """Returns the state of the server as a word, without a request to the server."""
        if self._server is None:
            return "not started"
        return "stopped" if self._is_stopped or self._has_ended() else "runs"

    def _place(self) -> tuple[str]:
        """Returns the address of the server; empty before the start."""
        return ("" if self._server is None else self._server.address,)

    @property
    def admin_url(self) -> str | None:
        """The address of the admin port, such as ``http://127.0.0.1:9464``; ``None`` without an admin port."""
        address: str | None = self._serving().admin_address
        return None if address is None else f"http://{address}"

    def __repr__(self) -> str:
        return f"<millstream.service.{type(self).__name__} {self._place()[0]} {self._state()}>"

    def _repr_html_(self) -> str:
        rows = [("address", self._place()[0]), ("state", self._state())]
        rows += [(field.name, value) for field in dataclasses.fields(self._config) if (value := _shown(self._config, field)) is not None]
        return _html.block(f"millstream.service.{type(self).__name__}", _html.table(rows))

    def join(self) -> None:
        """Waits until the server has ended.

        Example:
            >>> dispatcher = ms.service.DispatchServer()
            >>> dispatcher.stop()
            >>> dispatcher.join()
        """
        if self._server is not None:
            self._server.join()

    def stop(self) -> None:
        """Stops the server. Does nothing if the server has ended.

        Example:
            >>> dispatcher = ms.service.DispatchServer()
            >>> dispatcher.stop()
        """
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
        start: Whether the server starts at once, instead of by a call of ``start``.

    Example:
        >>> with ms.service.DispatchServer() as dispatcher:
        ...     print(dispatcher.target.partition("://")[0])
        millstream
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
            store=config.store,
            advertise=config.advertise,
            admin=config.admin,
            admin_token=config.admin_token,
        )

    @property
    def target(self) -> str:
        """The dispatcher's address, as ``millstream://host:port``."""
        address: str = self._serving().address
        return f"millstream://{address}"

    def _address(self) -> str:
        return self.target.split("://")[1]

    def workers(self) -> list[dict[str, Any]]:
        """Lists the living workers.

        Returns:
            A dict for each worker, with the worker's address, tags and number of tasks.
        """
        return on_connection(lambda: connect(self._address()), Connection.workers)

    def _num_workers(self) -> int:
        return len(self.workers())


class WorkerServer(_Server):
    """A worker in this process. Readers in this process reach the worker without a network.

    Args:
        config: The settings.
        start: Whether the server starts at once, instead of by a call of ``start``.

    Example:
        >>> with ms.service.DispatchServer() as dispatcher:
        ...     with ms.service.WorkerServer(ms.service.WorkerConfig(dispatcher.target)):
        ...         numbers = ms.Dataset.range(3).apply(ms.service.distribute("parallel_epochs", dispatcher.target))
        ...         print([int(x) for x in numbers])
        [0, 1, 2]
    """

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if not isinstance(config, WorkerConfig):
            raise ValueError(f"config: expected a WorkerConfig, found {config!r}")
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
            admin=config.admin,
            admin_token=config.admin_token,
        )

    @property
    def address(self) -> str:
        """The address at which readers reach the worker, as ``host:port``."""
        address: str = self._serving().address
        return address

    def drain(self) -> None:
        """Starts the graceful shutdown of the worker, and returns at once. The worker first delivers the splits that it has begun."""
        self._serving().drain()

    def _num_tasks(self) -> int:
        dispatcher = _address(self._config.dispatcher_address)
        workers = on_connection(lambda: connect(dispatcher), Connection.workers)
        return sum(worker["tasks"] for worker in workers if worker["address"] == self.address)


@dataclasses.dataclass
class Reading:
    """The request by which a dataset reads from a service. A pickled copy opens a new connection, and a new job if the job has no name."""

    address: str
    request: dict[str, Any]
    config: dict[str, Any]
    shares_memory: bool = True
    #: The seconds for which the dispatcher may be unreachable. ``None`` uses the setting of the process.
    dispatcher_timeout_s: float | None = None
    #: The counter that yields the number of the next pass, for all datasets that share this object.
    passes: Iterator[int] = dataclasses.field(default_factory=itertools.count, repr=False, compare=False)
    #: The passes of the job that this process has opened with this object.
    opened: Delivered = dataclasses.field(default_factory=Delivered, repr=False, compare=False)
    _connection: Connection | None = dataclasses.field(default=None, repr=False, compare=False)
    _job: int | None = dataclasses.field(default=None, repr=False, compare=False)

    def connected(self) -> Connection:
        """Returns the open connection, or a new connection. On a new connection a job without a name is a new job."""
        if self._connection is None or not self._connection.is_usable():
            connection = connect(
                self.address, shares_memory=self.shares_memory, dispatcher_timeout_s=self.dispatcher_timeout_s
            )
            self._connection, self._job = connection, None
        return self._connection

    def open(self, number: int, take: Callable[[Any], Any] | None) -> Elements:
        """Opens one pass of the job."""
        connection = self.connected()
        if self._job is None:
            self._job = connection.job(self.request)
        elements = connection.read(self._job, number, self.config, take)
        self.opened.add(number)
        return elements

    def own(self) -> Reading:
        """Returns a copy with a new job. Returns this object if the job has a name, because other readers share a named job."""
        if self.request["job_name"] is not None:
            return self
        return dataclasses.replace(self, passes=itertools.count(), opened=Delivered(), _connection=None, _job=None)

    def unread(self, number: int) -> Reading:
        """Returns this object if it has not opened this pass yet, and otherwise a copy with a new job.

        Raises:
            FailedPreconditionError: The pass was opened before, and the job has a name, so a new job is not possible.
        """
        if number not in self.opened:
            return self
        if (name := self.request["job_name"]) is not None:
            raise FailedPreconditionError(
                f"pass {number} of the job {name!r} was opened in this process before, and a pass of a named job can be read only once: set another "
                "epoch, use another job name, or read the dataset without a job name"
            )
        return self.own()

    def __getstate__(self) -> dict[str, Any]:
        own = ("passes", "opened", "_connection", "_job")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, passes=itertools.count(), opened=Delivered(), _connection=None, _job=None)


def _address(service: Any) -> str:
    """Returns the ``host:port`` of a service, or a list of them with commas for a service with several dispatchers.

    Raises:
        ValueError: The argument names no service.
        NotFoundError: The address has an unknown scheme.
    """
    service = getattr(service, "target", service)
    if isinstance(service, tuple) and len(service) == 2:
        service = "://".join(service)
    if not isinstance(service, str):
        raise ValueError(f"service: expected a string such as millstream://host:port, found {type(service).__name__}: {service!r}")
    if not service:
        raise ValueError("service must not be empty: use millstream://host:port")
    scheme, found, address = service.partition("://")
    if not found:
        return service
    if "://" in address:
        raise ValueError(f"service {service!r} has several '://': use millstream://host:port")
    if scheme not in _SCHEMES:
        raise NotFoundError(f"service {service!r}: there is no scheme {scheme}, use millstream:// or grpc://")
    return address


def is_of_this_host(service: Any) -> bool:
    """Returns whether a service has only loopback addresses, which only this host can reach."""
    addresses = _address(service).split(",")
    return all(address.strip().startswith(("127.", "localhost:", "[::1]:")) for address in addresses)


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
        raise ValueError(f"job_name: expected a string, found {type(job_name).__name__}: {job_name!r}")
    if job_name == "":
        raise ValueError("job_name must not be empty")
    if (consumer_index is None) != (num_consumers is None):
        raise ValueError(
            "consumer_index and num_consumers belong together: pass both or neither, found "
            f"consumer_index={consumer_index}, num_consumers={num_consumers}"
        )
    if num_consumers is not None and job_name is None:
        raise ValueError(f"num_consumers={num_consumers} needs a job_name, which the consumers share: pass job_name")


#: The values of ``visitation``.
VISITATIONS = ("upstream", "exactly_once")

#: The maximum value of ``max_skips``.
SKIPS_MAX = 1024
#: The minimum and maximum values of ``max_deaths``, and the default.
DEATHS_MIN, DEATHS_MAX, DEATHS_DEFAULT = 2, 16, 3
#: The maximum value of ``max_quarantined``.
QUARANTINED_MAX = 256
#: The maximum value of ``max_failures``, and the default.
FAILURES_MAX, FAILURES_DEFAULT = 16, 2


@dataclasses.dataclass(frozen=True)
class ExactLimits:
    """The limits of an exactly-once job on splits that end their workers, and on elements that fail.

    Attributes:
        max_skips: The number of splits that the job may skip because their workers die.
        max_deaths: The number of dead workers after which a split is given up. Each of them held the split when it died.
        max_quarantined: The number of elements that an epoch may leave out because an operation fails at them.
        max_failures: The number of failures after which an element is left out.
    """

    max_skips: int = 0
    max_deaths: int = DEATHS_DEFAULT
    max_quarantined: int = 0
    max_failures: int = FAILURES_DEFAULT

    def unfit(self) -> str | None:
        """Returns the reason for which a job cannot have these limits; ``None`` if it can."""
        if not 0 <= self.max_skips <= SKIPS_MAX:
            return f"max_skips={self.max_skips}: expected a number of splits from 0 to {SKIPS_MAX}"
        if not DEATHS_MIN <= self.max_deaths <= DEATHS_MAX:
            return f"max_deaths={self.max_deaths}: expected a number of workers from {DEATHS_MIN} to {DEATHS_MAX}"
        if not 0 <= self.max_quarantined <= QUARANTINED_MAX:
            return f"max_quarantined={self.max_quarantined}: expected a number of elements from 0 to {QUARANTINED_MAX}"
        if not 1 <= self.max_failures <= FAILURES_MAX:
            return f"max_failures={self.max_failures}: expected a number of failures from 1 to {FAILURES_MAX}"
        return None

    def passed(self) -> dict[str, int]:
        """Returns the limits that are not the defaults."""
        fields = ((field.name, getattr(self, field.name), field.default) for field in dataclasses.fields(self))
        return {name: value for name, value, default in fields if value != default}

    def given(self) -> str | None:
        """Returns the first limit that is not the default, as ``name=value``; ``None`` if all are defaults."""
        return next((f"{name}={value}" for name, value in self.passed().items()), None)

    def unknown_lengths(self) -> str | None:
        """Returns the limit that makes the number of batches unknown, as ``name=value``; ``None`` if none does."""
        if self.max_skips:
            return f"max_skips={self.max_skips}"
        return f"max_quarantined={self.max_quarantined}" if self.max_quarantined else None


@dataclasses.dataclass(frozen=True)
class ExactTerms:
    """The terms on which a trainer reads an exactly-once job.

    Attributes:
        seed: The seed of operations that have no seed of their own.
        trainer: The number of this trainer.
        trainers: The number of trainers.
        split: The number of the first split of which elements are left.
        had: The splits of which trainers have elements, each with their number.
        placed: Whether the position after each element is delivered before the element, as a vector of bytes.
        limits: The limits on splits that end their workers, and on elements that fail.
        any_order: Whether elements are delivered as they arrive. Otherwise their order is that of the splits.
        files: The digest of the files to which the position belongs. ``None`` at the start of an epoch.
        quarantined: The elements that workers leave out, each with its split and its id.
    """

    seed: int
    trainer: int
    trainers: int
    split: int = 0
    had: dict[int, int] = dataclasses.field(default_factory=dict)
    placed: bool = False
    limits: ExactLimits = ExactLimits()
    any_order: bool = False
    files: int | None = None
    quarantined: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class _Terms:
    """The arguments that ``distribute`` and ``from_dataset_id`` share, checked at creation."""

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
    exactly_once: ExactTerms | None = None

    def __post_init__(self) -> None:
        _address(self.service)
        policy = _policy(self.processing_mode)
        if self.exactly_once is not None:
            self._check_exactly(policy)
        _check_job(self.job_name, self.consumer_index, self.num_consumers)
        _shares_memory(self.data_transfer_protocol)
        if self.on_lost not in ON_LOST:
            raise ValueError(f"on_lost {self.on_lost!r}: use {', '.join(map(repr, ON_LOST))}")

    def _check_exactly(self, policy: ShardingPolicy) -> None:
        if policy is not ShardingPolicy.DYNAMIC:
            raise ValueError("visitation='exactly_once' needs processing_mode 'distributed_epoch', which divides the dataset into splits")
        names = ("job_name", "num_consumers", "cross_trainer_cache")
        if found := [name for name in names if getattr(self, name) is not None]:
            raise ValueError(f"visitation='exactly_once' excludes {', '.join(found)}: each trainer reads a job of its own")

    def connected(self) -> Connection:
        """Returns a connection to the service."""
        return connect(
            _address(self.service),
            shares_memory=_shares_memory(self.data_transfer_protocol),
            dispatcher_timeout_s=self.dispatcher_timeout_s,
        )

    def dataset(self, dataset_id: str, job_name: str | None) -> Dataset:
        """Returns a dataset that reads a registered dataset."""
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
            "exactly_once": None if self.exactly_once is None else dataclasses.asdict(self.exactly_once),
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
        if self.exactly_once is not None:
            # A source in this process restores the order of the elements.
            return Dataset(self.connected().distributed(request, config))
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
    *,
    visitation: str = "upstream",
    seed: int = 0,
    dp_rank: int | None = None,
    dp_size: int | None = None,
    max_skips: int = 0,
    max_deaths: int = DEATHS_DEFAULT,
    max_quarantined: int = 0,
    max_failures: int = FAILURES_DEFAULT,
    in_order: bool = True,
) -> Callable[[Dataset], Dataset]:
    """Runs all operations before this transformation on the workers of a service. Pass the result to ``Dataset.apply``.

    Args:
        processing_mode: A ``ShardingPolicy``, ``"parallel_epochs"`` or ``"distributed_epoch"``.
        service: The address of the dispatcher: ``millstream://host:port``, ``grpc://host:port``, ``host:port``, or an object whose attribute
            ``target`` is an address. For a service with several dispatchers, the addresses of all: ``millstream://a:5050,b:5050``.
        job_name: A name by which several readers share a job.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read, which advance in step and end in the same step. Each worker leaves out its
            last elements that fill no step.
        max_outstanding_requests: The maximum number of elements of all workers that are in flight or wait in the reader. Tuned by default.
        data_transfer_protocol: ``None``, ``"grpc"``, ``"auto"`` or ``"shm"`` use shared memory where possible. ``"quic"`` always uses the network.
            Exactly-once reading, and datasets with operations after ``distribute``, use shared memory where possible with ``"quic"``, too.
        compression: The compression over the network: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        cross_trainer_cache: The id of this trainer in a cross-trainer cache, by which trainers share computed elements.
        target_workers: The workers to read from: ``"AUTO"``, ``"ANY"``, ``"LOCAL"`` (this process) or ``"HOST"`` (this host).
        on_lost: The reaction to the end of an epoch that lost elements with a worker. ``"warn"`` issues a ``DataLossWarning``, ``"raise"``
            raises a ``DataLossError``, and ``"ignore"`` does nothing.
        dispatcher_timeout_s: The seconds for which the dispatcher may be unreachable. The default is the value of
            ``MILLSTREAM_DISPATCHER_TIMEOUT_S``, or 600.
        visitation: ``"upstream"`` has the guarantees of the processing mode. ``"exactly_once"`` delivers every element exactly once, although
            workers are lost, in an order that depends only on the dataset, ``seed`` and the epoch. It needs ``"distributed_epoch"``. Workers
            run the dataset on each split of its source alone, so a batch or a shuffle never spans two splits. To save the position and
            continue from it, pass the resulting dataset to ``ms.DataLoader``.
        seed: The seed of operations that have no seed of their own. Only for ``"exactly_once"``.
        dp_rank: The number of this trainer, which reads its part of the splits. By default the rank that ``ms.rank`` finds. Only for
            ``"exactly_once"``.
        dp_size: The number of trainers. Only for ``"exactly_once"``.
        max_skips: The number of splits that a job may skip, each with a ``DataLossWarning``, because ``max_deaths`` workers died while they
            read the split. A job that may skip no further split raises a ``UserFunctionError``, which names the split and the workers. Only
            for ``"exactly_once"``.
        max_deaths: The number of dead workers after which a split is given up, from 2 to 16. Each of them held the split when it died. Use more
            than 3 where machines end often, such as spot machines that are preempted without notice. Only for ``"exactly_once"``.
        max_quarantined: The number of elements that this trainer may leave out in an epoch, from 0 to 256. The trainer leaves out an element at
            which a function raises an error, or whose data is broken, and issues a ``DataLossWarning``. With 0, the default, the first failure
            ends the epoch with its error. Only for ``"exactly_once"``.
        max_failures: The number of failures after which an element is left out, from 1 to 16. After each failure the trainer opens another job at
            its position. Has no effect if ``max_quarantined`` is 0. Only for ``"exactly_once"``.
        in_order: Whether the order is fixed. With ``False`` elements are delivered as they arrive, so a slow split delays no other split. Only
            for ``"exactly_once"``.

    Returns:
        The transformation.

    Raises:
        ValueError: An argument is unknown or contradicts another.
        InvalidArgumentError: The dataset cannot be read exactly once. The error names the reason.

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
        exactly_once=_exactly(visitation, seed, dp_rank, dp_size, ExactLimits(max_skips, max_deaths, max_quarantined, max_failures), in_order),
    )

    return _application(terms, travel)


def _exactly(visitation: str, seed: int, dp_rank: int | None, dp_size: int | None, limits: ExactLimits, in_order: bool) -> ExactTerms | None:
    """Returns the terms of an exactly-once job from the arguments of ``distribute``; ``None`` for another visitation."""
    if visitation not in VISITATIONS:
        raise ValueError(f"visitation {visitation!r}: use {' or '.join(map(repr, VISITATIONS))}")
    if unfit := limits.unfit():
        raise ValueError(unfit)
    if visitation == "exactly_once":
        found = rank(dp_rank, dp_size)
        return ExactTerms(seed, found.dp_rank, found.dp_size, limits=limits, any_order=not in_order)
    if seed != 0 or dp_rank is not None or dp_size is not None or limits.given() or not in_order:
        advice = "leave them out, or pass visitation='exactly_once'"
        names = ", ".join(field.name for field in dataclasses.fields(limits))
        raise ValueError(f"seed, dp_rank, dp_size, {names} and in_order belong to visitation='exactly_once': {advice}")
    return None


def distribute_steps(service: Any, in_order: bool) -> Callable[[Dataset], Dataset]:
    """Returns a function that distributes the dataset of a loader to a service. The loader's dataset has one source, and yields at most one element for each split.

    With ``in_order`` the reader takes elements in the order of the splits. The dispatcher then leases splits to each worker in ascending
    order, and leases the splits of a lost worker first.
    """
    plain = (None, None, None, None, None, None)
    # The loader counts the delivered steps. A lost split whose step was delivered is therefore not an error.
    terms = _Terms(ShardingPolicy.DYNAMIC, service, *plain, "AUTO", "ignore", None, in_order=in_order, whole_splits=True)
    return _application(terms, _travel("AUTO"))


def distribute_exactly(service: Any, terms: ExactTerms) -> Callable[[Dataset], Dataset]:
    """Returns a function that distributes the dataset of a loader to a service, on the terms of an exactly-once job."""
    plain = (None, None, None, None, None, None)
    return _application(_Terms(ShardingPolicy.DYNAMIC, service, *plain, "AUTO", "raise", None, exactly_once=terms), _travel("AUTO"))


@dataclasses.dataclass(frozen=True)
class Distribution:
    """A dataset that ``distribute`` reads exactly once, and the arguments of ``distribute``. A loader opens jobs with them at any position.

    Attributes:
        dataset: The dataset that the workers run.
        terms: The arguments of ``distribute``, with the address of the service.
        exact: The exactly-once terms at the start of an epoch.
        travel: The compression of elements.
        is_followed: Whether operations that change the elements follow ``distribute``.
    """

    dataset: Dataset
    terms: _Terms
    exact: ExactTerms
    travel: str | None
    is_followed: bool = False

    @property
    def service(self) -> str:
        """The address of the service."""
        return _address(self.terms.service)

    def followed(self) -> Distribution:
        """Returns the same reading with operations that follow it."""
        return dataclasses.replace(self, is_followed=True)

    def reader(self, service: Any, exact: ExactTerms) -> Callable[[Dataset], Dataset]:
        """Returns a function that distributes the dataset to a service, on other exactly-once terms and with the other arguments unchanged."""
        return _application(dataclasses.replace(self.terms, service=service, exactly_once=exact), self.travel)


def _application(terms: _Terms, travel: str | None) -> Callable[[Dataset], Dataset]:
    def apply(dataset: Dataset) -> Dataset:
        def distributed(connection: Connection) -> Dataset:
            return terms.dataset(_registered(connection, dataset, travel, None, terms.exactly_once), terms.job_name)

        read = on_connection(terms.connected, distributed)
        if terms.exactly_once is not None:
            # The address replaces a service of this process, which cannot be pickled.
            at = dataclasses.replace(terms, service=_address(terms.service))
            read._distribution = Distribution(dataset, at, terms.exactly_once, travel)
        return read

    return apply


def _registered(
    connection: Connection, dataset: Dataset, travel: str | None, dataset_id: str | None, exactly: ExactTerms | None = None
) -> str:
    executed = dataset._executed if exactly is None else dataset._executed.exactly_once(exactly.seed)
    graph = executed if travel is None else executed.then("options", compression=travel)
    return connection.register(graph, dataset_id)


def register_dataset(
    service: Any, dataset: Dataset, compression: str | None = "AUTO", dataset_id: str | None = None
) -> str:
    """Registers a dataset with a service, for readers that know its id.

    Args:
        service: The address of the service, as for ``distribute``.
        dataset: The dataset.
        compression: The compression over the network: ``"AUTO"``, ``None``, ``"lz4"`` or ``"none"``.
        dataset_id: The id of the dataset; by default the dispatcher chooses an id.

    Returns:
        The id of the registered dataset.

    Example:
        >>> with ms.local(workers=1, inline=True) as service:
        ...     print(ms.service.register_dataset(service, ms.Dataset.range(3), dataset_id="numbers"))
        numbers
    """
    address, travel = _address(service), _travel(compression)
    known_as = None if dataset_id is None else str(dataset_id)
    return on_connection(lambda: connect(address), lambda connection: _registered(connection, dataset, travel, known_as))


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
        service: The address of the service, as for ``distribute``.
        dataset_id: The id that ``register_dataset`` returned.
        element_spec: The expected spec of the elements; an error names a difference. By default the service's spec is used.
        job_name: A name by which several readers share a job of this dataset.
        consumer_index: The number of this reader in a coordinated read, from 0.
        num_consumers: The number of readers of a coordinated read, which advance in step and end in the same step. Each worker leaves out its
            last elements that fill no step.
        max_outstanding_requests: The maximum number of elements of all workers that are in flight or wait in the reader. Tuned by default.
        data_transfer_protocol: The transport, as for ``distribute``.
        cross_trainer_cache: The id of this trainer in a cross-trainer cache, by which trainers share computed elements.
        target_workers: The workers to read from: ``"AUTO"``, ``"ANY"``, ``"LOCAL"`` (this process) or ``"HOST"`` (this host).
        on_lost: ``"warn"``, ``"raise"`` or ``"ignore"``, as for ``distribute``.
        dispatcher_timeout_s: The seconds for which the dispatcher may be unreachable.

    Returns:
        The dataset.

    Raises:
        NotFoundError: The service has no dataset with this id.

    Example:
        >>> with ms.local(workers=1, inline=True) as service:
        ...     known_as = ms.service.register_dataset(service, ms.Dataset.range(3))
        ...     print([int(x) for x in ms.service.from_dataset_id("distributed_epoch", service, known_as)])
        [0, 1, 2]
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

    def found(connection: Connection) -> Dataset:
        if element_spec is not None:
            spec = dressed(connection.dataset(known_as)["spec"])
            if spec != element_spec:
                raise InvalidArgumentError(f"dataset {known_as}: expected elements {element_spec}, found elements {spec} in the service")
        return terms.dataset(known_as, None if job_name is None else f"dataset_id={known_as}/{job_name}")

    return on_connection(terms.connected, found)
