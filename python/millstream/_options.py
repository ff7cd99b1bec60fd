"""The options for the execution of a dataset, like ``tf.data.Options``."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._millstream import Graph

__all__ = [
    "AutoShardPolicy",
    "AutotuneOptions",
    "DistributeOptions",
    "ExternalStatePolicy",
    "Options",
    "ThreadingOptions",
    "optioned",
    "skips_errors",
]


class AutoShardPolicy(enum.IntEnum):
    """The policy by which ``distribute_dataset`` divides a dataset among trainers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.Enum):
    """The reaction to a save of a position if the pipeline reads state outside of the dataset, such as a service."""

    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


@dataclasses.dataclass
class ThreadingOptions:
    """The threads of a dataset."""

    max_intra_op_parallelism: int | None = None
    private_threadpool_size: int | None = None


@dataclasses.dataclass
class AutotuneOptions:
    """The limits of automatic tuning, for operations with the setting ``AUTOTUNE``."""

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None


@dataclasses.dataclass
class DistributeOptions:
    """The options of ``distribute_dataset``. ``num_devices`` is accepted and has no effect."""

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int | None = None


#: The present name of each option that older versions of tf.data called differently.
_FORMERLY = {
    "experimental_deterministic": "deterministic",
    "experimental_external_state_policy": "external_state_policy",
    "experimental_threading": "threading",
}


@dataclasses.dataclass
class Options:
    """The options for the execution of a dataset. An option of ``None`` keeps its present value.

    Names that begin with ``experimental_`` are names of tf.data, or older names of the same options.
    """

    deterministic: bool | None = None
    external_state_policy: ExternalStatePolicy | None = None
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)
    experimental_distribute: DistributeOptions = dataclasses.field(default_factory=DistributeOptions)

    def __getattr__(self, name: str) -> Any:
        if name in _FORMERLY:
            return getattr(self, _FORMERLY[name])
        raise AttributeError(f"Options have no attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        name = _FORMERLY.get(name, name)
        if name not in self.__dataclass_fields__:
            raise AttributeError(f"Options have no attribute {name}: use one of {', '.join(self.__dataclass_fields__)}")
        object.__setattr__(self, name, value)

    def merge(self, options: Options) -> Options:
        """Combines two sets of options.

        Args:
            options: Options that replace the present options where they are set.

        Returns:
            The combined options.
        """

        def merged(one: object, other: object) -> dict[str, object]:
            names = [field.name for field in dataclasses.fields(one)]  # type: ignore[arg-type]
            pairs = {name: (getattr(one, name), getattr(other, name)) for name in names}
            return {name: old if new is None else new for name, (old, new) in pairs.items()}

        return Options(
            deterministic=self.deterministic if options.deterministic is None else options.deterministic,
            external_state_policy=options.external_state_policy or self.external_state_policy,
            threading=ThreadingOptions(**merged(self.threading, options.threading)),  # type: ignore[arg-type]
            autotune=AutotuneOptions(**merged(self.autotune, options.autotune)),  # type: ignore[arg-type]
            experimental_distribute=(
                self.experimental_distribute
                if options.experimental_distribute == DistributeOptions()
                else dataclasses.replace(options.experimental_distribute)
            ),
        )


def optioned(graph: Graph, options: Options) -> Graph:
    """Returns the graph with options for its execution."""
    state = options.external_state_policy
    return graph.with_options(
        deterministic=options.deterministic,
        private_threads=options.threading.private_threadpool_size,
        max_intra_op=options.threading.max_intra_op_parallelism,
        autotune=options.autotune.enabled,
        cpu_budget=options.autotune.cpu_budget,
        ram_budget=options.autotune.ram_budget,
        external_state=None if state is None else state.value,
    )


def skips_errors(on_error: str) -> bool:
    """Returns whether ``on_error`` is ``skip``. Refuses values other than ``raise`` and ``skip``."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error {on_error!r}: use raise or skip")
    return on_error == "skip"
