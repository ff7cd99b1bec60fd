"""How a dataset is executed, as ``tf.data.Options`` says it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
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
]


class AutoShardPolicy(enum.IntEnum):
    """How ``distribute_dataset`` divides a dataset among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.Enum):
    """What becomes of state outside of a dataset when its position is saved."""

    FAIL = "fail"
    WARN = "warn"
    IGNORE = "ignore"


@dataclasses.dataclass
class ThreadingOptions:
    """Which threads a dataset uses."""

    max_intra_op_parallelism: int | None = None
    private_threadpool_size: int | None = None


@dataclasses.dataclass
class AutotuneOptions:
    """What is chosen by measurement where operations leave it open."""

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None


@dataclasses.dataclass
class DistributeOptions:
    """How input is distributed. ``num_devices`` is accepted and has no effect."""

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO
    num_devices: int | None = None


#: Names of older versions of upstream: what is at which place today.
_FORMERLY = {
    "experimental_deterministic": "deterministic",
    "experimental_external_state_policy": "external_state_policy",
    "experimental_threading": "threading",
}


@dataclasses.dataclass
class Options:
    """How a dataset is executed. What is ``None`` stays as it was.

    Names that begin with ``experimental_`` are upstream's own, or older ones of the same options.
    """

    deterministic: bool | None = None
    external_state_policy: ExternalStatePolicy | None = None
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)
    experimental_distribute: DistributeOptions = dataclasses.field(default_factory=DistributeOptions)

    def __getattr__(self, name: str) -> Any:
        if name in _FORMERLY:
            return getattr(self, _FORMERLY[name])
        raise AttributeError(f"Options have no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        name = _FORMERLY.get(name, name)
        if name not in self.__dataclass_fields__:
            raise AttributeError(f"Options have no {name}")
        object.__setattr__(self, name, value)

    def merge(self, options: Options) -> Options:
        """Combines two sets of options.

        Args:
            options: Options that replace these where they are set.

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
    """A dataset that is executed as options say."""
    state = options.external_state_policy
    threading = {
        "private_threads": options.threading.private_threadpool_size,
        "max_intra_op": options.threading.max_intra_op_parallelism,
    }
    autotune = {
        "enabled": options.autotune.enabled,
        "threads": options.autotune.cpu_budget,
        "ram_bytes": options.autotune.ram_budget,
    }
    return graph.then(
        "options",
        deterministic=options.deterministic,
        threading=_stated(threading),
        autotune=_stated(autotune),
        external_state=None if state is None else state.value,
    )


def _stated(settings: Mapping[str, object]) -> Mapping[str, object] | None:
    """Returns settings of which at least one is stated, else ``None``."""
    return settings if any(value is not None for value in settings.values()) else None


def error_policy(on_error: str) -> str:
    """Checks the treatment of what cannot be read: ``raise`` or ``skip``."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error {on_error!r}: use raise or skip")
    return on_error
