"""Grain: a shuffled ``MapDataset`` with ``ElasticIterator``, whose state is the same for every number of trainers.

This module knows the form of a state as JSON, and nothing of its fields.
"""

import json
from collections.abc import Iterator
from typing import Any

from .trainer import Rows, Trainer

TITLE = "Grain"
LIBRARY = "grain"
SETTING = (
    "`MapDataset.seed(7).shuffle()` with `grain.experimental.ElasticIterator`, two worker processes for each trainer, "
    "12 records in a step for any number of trainers"
)
PACKAGES = ["grain", "numpy"]
MODULES = ("numpy", "grain", "absl.flags")
REFUSED: dict[str, str] = {}
WORKERS = 2


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


def joined(states: list[bytes], trainers: int) -> bytes:
    """Returns the state of any trainer, because the states of all trainers are equal after the same number of steps."""
    return states[0]


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        import sys

        import grain
        from absl import flags

        # Worker processes of Grain read parsed flags.
        flags.FLAGS(sys.argv[:1])
        rows = grain.MapDataset.source(Rows(trainer.records)).seed(trainer.seed).shuffle()
        elastic = grain.experimental.ElasticIterator(
            rows,
            trainer.batch * trainer.trainers,
            grain.sharding.ShardOptions(trainer.rank, trainer.trainers, drop_remainder=False),
            multiprocessing_options=grain.multiprocessing.MultiprocessingOptions(num_workers=WORKERS),
        )
        self._iterator = iter(elastic)
        if trainer.saved is not None:
            self._iterator.set_state(json.loads(trainer.saved))

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches from the saved state to the end of the epoch."""
        return self._iterator

    def state(self) -> bytes:
        """Returns the position as JSON."""
        return json.dumps(self._iterator.get_state()).encode()
