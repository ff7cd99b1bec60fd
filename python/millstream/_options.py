"""The options for the execution of a dataset, like ``tf.data.Options``.

Owns the groups of options, their types, and the warnings of options that have no effect. Refuses to know how datasets are executed.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ._aggregator import StatsAggregator

if TYPE_CHECKING:
    from ._millstream import Graph

__all__ = [
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "DistributeOptions",
    "ExternalStatePolicy",
    "Group",
    "OptimizationOptions",
    "Options",
    "ServiceOptions",
    "StatsOptions",
    "ThreadingOptions",
    "error_policy",
    "optioned",
]


class AutoShardPolicy(enum.IntEnum):
    """The policy by which ``distribute_dataset`` divides a dataset among trainers.

    Example:
        >>> options = ms.Options()
        >>> options.experimental_distribute.auto_shard_policy = ms.AutoShardPolicy.DATA
        >>> ms.Dataset.range(3).with_options(options).options().experimental_distribute.auto_shard_policy.name
        'DATA'
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class AutotuneAlgorithm(enum.Enum):
    """TensorFlow's algorithms for tuning. Millstream has one of its own, and warns where a program asks for another.

    Example:
        >>> tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB.value
        1
    """

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(enum.Enum):
    """The treatment of state outside of a dataset when the position of the dataset is saved.

    Example:
        >>> options = ms.Options()
        >>> options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        >>> options.external_state_policy.name
        'IGNORE'
    """

    WARN = 0
    IGNORE = 1
    FAIL = 2


class Group:
    """A group of options: attributes that have one type each, and are ``None`` where a program says nothing."""

    #: The type of each option.
    _types: ClassVar[dict[str, type]] = {}
    #: Former names of options, and the names today.
    _formerly: ClassVar[dict[str, str]] = {}
    #: Options that have no effect: the values that a program may set without a warning, and the reason.
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._formerly:
            return getattr(self, type(self)._formerly[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        name = type(self)._formerly.get(name, name)
        expected = type(self)._types.get(name)
        if expected is None:
            raise AttributeError(f"{type(self).__name__} have no {name}: expected one of {', '.join(type(self)._types)}")
        if value is not None and not isinstance(value, expected):
            raise TypeError(f"option {name!r}: expected {expected.__name__}, found {value!r} of type {type(value).__name__}")
        accepted, reason = type(self)._inert.get(name, ((), ""))
        if reason and value is not None and value not in accepted:
            warnings.warn(f"{type(self).__name__}.{name}={value!r} has no effect: {reason}", stacklevel=2)
        object.__setattr__(self, name, value)


OneGroup = TypeVar("OneGroup", bound="Group")


@dataclasses.dataclass
class ThreadingOptions(Group):
    """The threads that a dataset uses.

    Attributes:
        max_intra_op_parallelism: The largest number of threads of one operation.
        private_threadpool_size: The threads of a pool of the dataset's own.

    Example:
        >>> options = ms.Options()
        >>> options.threading.private_threadpool_size = 2
        >>> [int(x) for x in ms.Dataset.range(3).with_options(options)]
        [0, 1, 2]
    """

    max_intra_op_parallelism: int | None = None
    private_threadpool_size: int | None = None

    _types: ClassVar[dict[str, type]] = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


@dataclasses.dataclass
class AutotuneOptions(Group):
    """The settings that are chosen by measurement where operations leave them open.

    Attributes:
        enabled: Whether they are.
        cpu_budget: The threads to use.
        ram_budget: The bytes to use.
        autotune_algorithm: Has no effect, which a warning says.
        initial_parallelism: Has no effect, which a warning says.
        min_parallelism: Has no effect, which a warning says.

    Example:
        >>> options = ms.Options()
        >>> options.autotune.cpu_budget = 2
        >>> [int(x) for x in ms.Dataset.range(3).with_options(options)]
        [0, 1, 2]
    """

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None
    autotune_algorithm: AutotuneAlgorithm | None = None
    initial_parallelism: int | None = None
    min_parallelism: int | None = None

    _types: ClassVar[dict[str, type]] = {
        "autotune_algorithm": AutotuneAlgorithm,
        "cpu_budget": int,
        "enabled": bool,
        "initial_parallelism": int,
        "min_parallelism": int,
        "ram_budget": int,
    }
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "autotune_algorithm": ((AutotuneAlgorithm.DEFAULT,), "Millstream tunes by an algorithm of its own"),
        "initial_parallelism": ((), "Millstream begins with one thread for each processor"),
        "min_parallelism": ((), "Millstream has no lower bound of threads"),
    }


@dataclasses.dataclass
class DistributeOptions(Group):
    """How input is distributed.

    Attributes:
        auto_shard_policy: How ``distribute_dataset`` divides a dataset.
        num_devices: Has no effect, which a warning says.

    Example:
        >>> options = ms.Options()
        >>> options.experimental_distribute.auto_shard_policy = ms.AutoShardPolicy.OFF
        >>> options.experimental_distribute.auto_shard_policy.name
        'OFF'
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int | None = None

    _types: ClassVar[dict[str, type]] = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "num_devices": ((), "the number of replicas is that of the strategy, or of InputContext"),
    }


_NOT_DONE = "Millstream has no such rewrite, and no element depends on it"


@dataclasses.dataclass
class OptimizationOptions(Group):
    """The rewrites of a dataset before it is executed. No rewrite changes an element.

    Attributes:
        apply_default_optimizations: Whether the rewrites are done that no other option names.
        map_fusion: Whether neighbouring maps run as one call.
        noop_elimination: Whether operations that do nothing are removed.
        map_and_batch_fusion: Is always done.
        filter_fusion: Has no effect, as the options below; ``True`` warns.
        filter_parallelization: Has no effect.
        inject_prefetch: Has no effect.
        map_and_filter_fusion: Has no effect.
        map_parallelization: Has no effect.
        parallel_batch: Has no effect.
        seq_interleave_prefetch: Has no effect.
        shuffle_and_repeat_fusion: Has no effect.

    Example:
        >>> options = ms.Options()
        >>> options.experimental_optimization.map_fusion = False
        >>> [int(x) for x in ms.Dataset.range(3).map(lambda x: x + 1).map(lambda x: x * 2).with_options(options)]
        [2, 4, 6]
    """

    apply_default_optimizations: bool | None = None
    filter_fusion: bool | None = None
    filter_parallelization: bool | None = None
    inject_prefetch: bool | None = None
    map_and_batch_fusion: bool | None = None
    map_and_filter_fusion: bool | None = None
    map_fusion: bool | None = None
    map_parallelization: bool | None = None
    noop_elimination: bool | None = None
    parallel_batch: bool | None = None
    seq_interleave_prefetch: bool | None = None
    shuffle_and_repeat_fusion: bool | None = None

    _types: ClassVar[dict[str, type]] = dict.fromkeys(
        (
            "apply_default_optimizations",
            "filter_fusion",
            "filter_parallelization",
            "inject_prefetch",
            "map_and_batch_fusion",
            "map_and_filter_fusion",
            "map_fusion",
            "map_parallelization",
            "noop_elimination",
            "parallel_batch",
            "seq_interleave_prefetch",
            "shuffle_and_repeat_fusion",
        ),
        bool,
    )
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "filter_fusion": ((False,), _NOT_DONE),
        "filter_parallelization": ((False,), _NOT_DONE),
        "inject_prefetch": ((False,), "Millstream adds no prefetch; add one by Dataset.prefetch"),
        "map_and_batch_fusion": ((True,), "a batch is always made together with the map before it"),
        "map_and_filter_fusion": ((False,), _NOT_DONE),
        "map_parallelization": ((False,), "maps run in threads where num_parallel_calls says so"),
        "parallel_batch": ((False,), "batches of pictures are always made by all threads, and others by one"),
        "seq_interleave_prefetch": ((False,), "Millstream adds no prefetch; use num_parallel_calls"),
        "shuffle_and_repeat_fusion": ((False,), "use tf.data.experimental.shuffle_and_repeat"),
    }


@dataclasses.dataclass
class ServiceOptions(Group):
    """Options of datasets that are read from a service.

    Attributes:
        pinned: Has no effect, which a warning says.

    Example:
        >>> ms.Options().experimental_service.pinned is None
        True
    """

    pinned: bool | None = None

    _types: ClassVar[dict[str, type]] = {"pinned": bool}
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "pinned": ((False,), "ms.feed pins the memory of elements when it copies them to a device"),
    }


@dataclasses.dataclass
class StatsOptions(Group):
    """The statistics of a dataset.

    Attributes:
        aggregator: The aggregator of the statistics.
        prefix: The text before the name of each statistic.
        counter_prefix: Has no effect, which a warning says.
        latency_all_edges: Has no effect; ``True`` warns.

    Example:
        >>> tf.data.Options().experimental_stats.aggregator is None
        True
    """

    aggregator: StatsAggregator | None = None
    prefix: str | None = None
    counter_prefix: str | None = None
    latency_all_edges: bool | None = None
    #: The measure and the name of each statistic.
    tags: tuple[tuple[str, str], ...] | None = None

    _types: ClassVar[dict[str, type]] = {
        "aggregator": StatsAggregator,
        "counter_prefix": str,
        "latency_all_edges": bool,
        "prefix": str,
        "tags": tuple,
    }
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "counter_prefix": ((), "Millstream has no counters apart from statistics"),
        "latency_all_edges": ((False,), "operations are measured on workers: see ``millstream top``"),
    }


@dataclasses.dataclass
class Options(Group):
    """The options for the execution of a dataset. An option of ``None`` keeps its present value.

    Names that begin with ``experimental_`` are upstream's own, or older ones of the same options.

    Attributes:
        deterministic: Whether operations that work in parallel keep the order.
        external_state_policy: The treatment of state outside of a dataset when its position is saved.
        threading: The threads.
        autotune: The settings that are tuned.
        experimental_distribute: How input is distributed.
        experimental_optimization: The rewrites.
        experimental_service: Options of datasets that are read from a service.
        experimental_stats: The statistics of iterators.
        experimental_warm_start: Whether ``iter`` begins to compute at once.
        experimental_slack: Has no effect; ``True`` warns.
        experimental_symbolic_checkpoint: Is always so; ``False`` warns.
        dataset_name: Has no effect, which a warning says.
        framework_type: Has no effect, which a warning says.

    Example:
        >>> options = ms.Options()
        >>> options.deterministic = False
        >>> sorted(int(x) for x in ms.Dataset.range(3).with_options(options))
        [0, 1, 2]
    """

    deterministic: bool | None = None
    external_state_policy: ExternalStatePolicy | None = None
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)
    experimental_distribute: DistributeOptions = dataclasses.field(default_factory=DistributeOptions)
    experimental_optimization: OptimizationOptions = dataclasses.field(default_factory=OptimizationOptions)
    experimental_service: ServiceOptions = dataclasses.field(default_factory=ServiceOptions)
    experimental_stats: StatsOptions = dataclasses.field(default_factory=StatsOptions)
    experimental_slack: bool | None = None
    experimental_symbolic_checkpoint: bool | None = None
    experimental_warm_start: bool | None = None
    dataset_name: str | None = None
    framework_type: list[str] | None = None

    _types: ClassVar[dict[str, type]] = {
        "autotune": AutotuneOptions,
        "dataset_name": str,
        "deterministic": bool,
        "experimental_distribute": DistributeOptions,
        "experimental_optimization": OptimizationOptions,
        "experimental_service": ServiceOptions,
        "experimental_slack": bool,
        "experimental_stats": StatsOptions,
        "experimental_symbolic_checkpoint": bool,
        "experimental_warm_start": bool,
        "external_state_policy": ExternalStatePolicy,
        "framework_type": list,
        "threading": ThreadingOptions,
    }
    _formerly: ClassVar[dict[str, str]] = {
        "experimental_deterministic": "deterministic",
        "experimental_external_state_policy": "external_state_policy",
        "experimental_threading": "threading",
    }
    _inert: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {
        "dataset_name": ((), "measurements name the operations of a dataset, and jobs have names of their own"),
        "experimental_slack": ((False,), "a reader requests elements ahead of need, and the link is never idle"),
        "experimental_symbolic_checkpoint": ((True,), "a saved position always holds places in sources and no elements that are computed again"),
        "framework_type": ((), "Millstream counts no frameworks"),
    }

    def merge(self, options: Options) -> Options:
        """Combines two sets of options.

        Args:
            options: Options that replace the present options where they are set.

        Returns:
            The combined options.

        Raises:
            TypeError: The other is no ``Options``.

        Example:
            >>> one, other = ms.Options(), ms.Options()
            >>> one.deterministic, other.autotune.enabled = True, False
            >>> merged = one.merge(other)
            >>> merged.deterministic, merged.autotune.enabled
            (True, False)
        """
        if not isinstance(options, Options):
            raise TypeError(f"merge: expected Options, found {options!r} of type {type(options).__name__}")
        return _merged(self, options)


def _merged(one: OneGroup, other: OneGroup) -> OneGroup:
    """Returns a group with the options of both groups. Options that the other group sets win."""
    made, unset = copy.copy(one), type(one)()
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        old, new = getattr(one, field.name), getattr(other, field.name)
        value = _merged(old, new) if isinstance(old, Group) else old if new == getattr(unset, field.name) else new
        # Not by assignment, which would warn again.
        object.__setattr__(made, field.name, value)
    return made


def optioned(graph: Graph, options: Options) -> Graph:
    """Returns the graph with options for its execution."""
    state, optimization = options.external_state_policy, options.experimental_optimization
    threading = {
        "private_threads": options.threading.private_threadpool_size,
        "max_intra_op": options.threading.max_intra_op_parallelism,
    }
    autotune = {
        "enabled": options.autotune.enabled,
        "threads": options.autotune.cpu_budget,
        "ram_bytes": options.autotune.ram_budget,
    }
    rewrites = {
        "all": optimization.apply_default_optimizations,
        "map_fusion": optimization.map_fusion,
        "noops": optimization.noop_elimination,
    }
    return graph.then(
        "options",
        deterministic=options.deterministic,
        threading=_stated(threading),
        autotune=_stated(autotune),
        rewrites=_stated(rewrites),
        external_state=None if state is None else state.name.lower(),
    )


def _stated(settings: Mapping[str, object]) -> Mapping[str, object] | None:
    """Returns the settings, or ``None`` if every setting is ``None``."""
    return settings if any(value is not None for value in settings.values()) else None


def error_policy(on_error: str) -> str:
    """Returns ``on_error``. Refuses values other than ``raise`` and ``skip``."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error {on_error!r}: use raise or skip")
    return on_error
