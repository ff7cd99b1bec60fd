"""A trainer of several that saves and loads its model and its loader with torch's distributed checkpoint.

``test_checkpoints.py`` starts this program with a task as JSON; see ``Task``. The program prints the batches that it read, the number in its model, and
the reason if the loader refused the checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from checkpoint_loaders import loader

import millstream as ms
from millstream.errors import InvalidArgumentError


@dataclasses.dataclass
class Task:
    """The task of one trainer.

    Attributes:
        rank: The number of this trainer.
        size: The number of trainers.
        meeting: The file through which the trainers find each other.
        kind: The loader; see ``checkpoint_loaders``.
        way: The object that stands for the loader in the checkpoint; see ``main``.
        load: The checkpoint to continue from.
        steps: The number of batches to read; ``None`` reads the rest of the epoch.
        save: The checkpoint to write after the batches.
        is_async: Whether the checkpoint is written while training goes on.
    """

    rank: int
    size: int
    meeting: str
    kind: str
    way: str
    load: str | None = None
    steps: int | None = None
    save: str | None = None
    is_async: bool = False


class EntryOfRank:
    """A loader's state as torchtitan saves it: one pickled entry for each trainer, and the number of trainers."""

    def __init__(self, loader: ms.DataLoader | ms.Mixture) -> None:
        self.loader = loader
        self.name = f"dp_rank_{loader.rank.dp_rank}"

    def state_dict(self) -> dict[str, Any]:
        return {self.name: pickle.dumps(self.loader.state_dict()), "world_size": self.loader.rank.dp_size}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        assert state_dict["world_size"] == self.loader.rank.dp_size
        self.loader.load_state_dict(pickle.loads(state_dict[self.name]))


def main() -> None:
    """Loads a checkpoint, reads batches, and saves a checkpoint, as the task says."""
    task = Task(**json.loads(sys.argv[1]))
    torch.distributed.init_process_group("gloo", init_method=f"file://{task.meeting}", rank=task.rank, world_size=task.size)
    mine = loader(task.kind)
    saved = {"plain": lambda: mine, "entry": lambda: EntryOfRank(mine), "state": lambda: ms.torch.LoaderState(mine)}[task.way]()
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    states = {"model": model.state_dict(), "loader": saved}
    refusal, batches, writing = "", [], None
    if task.load is not None:
        try:
            dcp.load(states, checkpoint_id=task.load)
        except (InvalidArgumentError, dcp.CheckpointException) as error:
            refusal = str(error)
    if not refusal:
        reading = iter(mine)
        for batch in reading:
            batches.append(batch.tolist())
            with torch.no_grad():
                model.weight += 1
            if len(batches) == task.steps:
                break
        if task.save is not None and not task.is_async:
            dcp.save(states, checkpoint_id=task.save)
        elif task.save is not None:
            writing = dcp.async_save(states, checkpoint_id=task.save)
            # The batches after the save are not a part of the checkpoint.
            next(reading)
            writing.result()
    torch.distributed.destroy_process_group()
    print(json.dumps({"batches": batches, "steps": int(model.weight), "refusal": refusal}))


if __name__ == "__main__":
    main()
