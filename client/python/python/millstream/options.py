"""How a dataset is executed, as ``tf.data.Options`` says it."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["AutotuneOptions", "ExternalStatePolicy", "Options", "ThreadingOptions"]


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
class Options:
    """How a dataset is executed. What is ``None`` stays as it was."""

    deterministic: bool | None = None
    external_state_policy: ExternalStatePolicy | None = None
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)

    def merge(self, options: Options) -> Options:
        """These options, and what the others say where they say something."""

        def merged(one: object, other: object) -> dict[str, object]:
            names = [field.name for field in dataclasses.fields(one)]  # type: ignore[arg-type]
            pairs = {name: (getattr(one, name), getattr(other, name)) for name in names}
            return {name: old if new is None else new for name, (old, new) in pairs.items()}

        return Options(
            deterministic=self.deterministic if options.deterministic is None else options.deterministic,
            external_state_policy=options.external_state_policy or self.external_state_policy,
            threading=ThreadingOptions(**merged(self.threading, options.threading)),  # type: ignore[arg-type]
            autotune=AutotuneOptions(**merged(self.autotune, options.autotune)),  # type: ignore[arg-type]
        )
