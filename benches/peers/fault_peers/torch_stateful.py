"""torchdata's ``StatefulDataLoader``: a dataset by index in the worker processes of each trainer.

This module knows the form of a state as a pickled dictionary, and nothing of its fields.
"""

import pickle
from collections.abc import Iterator
from typing import Any

from .trainer import Rows, Trainer

TITLE = "torchdata `StatefulDataLoader`"
LIBRARY = "torchdata"
SETTING = "`StatefulDistributedSampler(shuffle=True)`, two worker processes for each trainer, `snapshot_every_n_steps=1`"
PACKAGES = ["torch", "torchdata", "numpy"]
MODULES = ("numpy", "torch", "torchdata.stateful_dataloader")
REFUSED = {
    "trainers": "another number of trainers: a state belongs to one rank. The page *Stateful DataLoader* of torchdata 0.11 says that the loader "
    "distributes state across worker processes, but not across ranks"
}
WORKERS = 2


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        import torch
        from torchdata.stateful_dataloader import StatefulDataLoader
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        torch.set_num_threads(1)
        rows = Rows(trainer.records)
        sampler = StatefulDistributedSampler(rows, trainer.trainers, trainer.rank, shuffle=True, seed=trainer.seed)
        self._loader = StatefulDataLoader(rows, trainer.batch, sampler=sampler, num_workers=WORKERS, snapshot_every_n_steps=1)
        if trainer.saved is not None:
            self._loader.load_state_dict(pickle.loads(trainer.saved))

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches from the saved state to the end of the epoch."""
        return iter(self._loader)

    def state(self) -> bytes:
        """Returns the position as a pickled dictionary."""
        return pickle.dumps(self._loader.state_dict())
