"""Adapts datasets to torch's loaders, and states to torch's distributed checkpoint. Importing this module imports torch."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from typing import Any

import torch.distributed
import torch.utils.data

from ._dataset import Dataset
from ._exact_places import joined_states
from ._loader import DataLoader
from ._mixture import Mixture
from .errors import InvalidArgumentError

__all__ = ["IterableDataset", "LoaderState"]


class IterableDataset(torch.utils.data.IterableDataset[Any]):  # type: ignore[misc]
    """A torch dataset for a ``DataLoader`` or ``StatefulDataLoader``. Pass ``batch_size=None`` to the loader, because the dataset batches.

    With ``num_workers`` the loader's processes share one job of a service, so each element is delivered once. A dataset without a service is
    divided among the processes. The loader needs no processes, because a service or prefetching prepares the elements anyway.
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.dataset = dataset if dataset._output == "torch" else dataset.with_output("torch")
        self._name = f"loader/{uuid.uuid4()}"

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is None or info.num_workers == 1:
            return iter(self.dataset)
        reading = self.dataset._reading
        if reading is None:
            if self.dataset._graph.reads_service:
                raise InvalidArgumentError(
                    f"num_workers={info.num_workers}: processes cannot share operations after `distribute`: move the operations before "
                    "`distribute`, or use num_workers=0"
                )
            return iter(self.dataset.shard(info.num_workers, info.id))
        if reading.request["job_name"] is None:
            # All processes of the loader compute the same number from the epoch's seed, and another number in the next epoch.
            # No other reader continues the job of an epoch, so its pass expires when all processes have left.
            request = {**reading.request, "job_name": f"{self._name}/{info.seed - info.id}", "expires": True}
            reading = dataclasses.replace(reading, request=request, _connection=None, _job=None)
            self.dataset = Dataset(self.dataset._graph, reading=reading, output="torch")
        return iter(self.dataset)


class LoaderState:
    """The position of a loader on all trainers, as an object that ``torch.distributed.checkpoint`` saves and loads.

    ``torch.distributed.checkpoint`` divides a state into its entries. It stores each entry of one process only, and restores only the entries
    that the new loader has. This object instead collects the states of all processes, and is saved as one entry. It thus loses nothing, and
    another number of trainers can load it.

    All processes of ``group`` must save and load together, as they do with ``save``, ``async_save`` and ``load`` of
    ``torch.distributed.checkpoint``. Without ``torch.distributed``, the program is the only process.

    Args:
        loader: The loader or mixture of this process.
        group: The process group with all trainers. The default is the group of all processes.
    """

    def __init__(self, loader: DataLoader | Mixture, group: torch.distributed.ProcessGroup | None = None) -> None:
        self.loader = loader
        self.group = group

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all processes as one text. All processes of the group must call this method.

        Raises:
            InvalidArgumentError: JSON cannot represent the state of an iterable dataset.
        """
        rank = self.loader.rank
        own = {"dp_rank": rank.dp_rank, "dp_size": rank.dp_size, "state": self.loader.state_dict()}
        processes: list[Any] = [own]
        if self._is_distributed():
            processes = [None] * torch.distributed.get_world_size(self.group)
            torch.distributed.all_gather_object(processes, own, self.group)
        try:
            return {"processes": json.dumps(processes)}
        except TypeError as error:
            raise InvalidArgumentError(f"the loader's state cannot be saved as JSON: {error}. Return JSON values from the dataset's state_dict()") from error

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the position of the loader. If the number of trainers has changed, the trainers divide the rest of the epoch again.

        Args:
            state_dict: The state that ``state_dict`` returned.

        Raises:
            InvalidArgumentError: The state is not one of this class, or the loader refuses it. See ``ms.joined_states`` for other numbers of
                trainers.
        """
        if "processes" not in state_dict:
            raise InvalidArgumentError(f"expected a state of ms.torch.LoaderState, found the entries {sorted(state_dict)}: load it with the loader itself")
        self.loader.load_state_dict(self._chosen(json.loads(state_dict["processes"])))

    def _chosen(self, processes: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the state for the loader of this process."""
        rank = self.loader.rank
        index = torch.distributed.get_rank(self.group) if self._is_distributed() else 0
        count = torch.distributed.get_world_size(self.group) if self._is_distributed() else 1
        if len(processes) == count and (processes[index]["dp_rank"], processes[index]["dp_size"]) == (rank.dp_rank, rank.dp_size):
            own: dict[str, Any] = processes[index]["state"]
            return own
        states: dict[int, dict[str, Any]] = {}
        for process in processes:
            if states.setdefault(process["dp_rank"], process["state"]) != process["state"]:
                raise InvalidArgumentError(
                    f"several processes have different states of trainer {process['dp_rank']} of {process['dp_size']}: continue with "
                    f"{len(processes)} processes, or create the loaders with dp_rank and dp_size"
                )
        if processes[0]["dp_size"] == rank.dp_size and rank.dp_rank in states:
            return states[rank.dp_rank]
        found = list(states.values())
        is_of_samples = "trainers" not in found[0] and "components" not in found[0]
        if is_of_samples and all(state == found[0] for state in found):
            return found[0]
        return joined_states(found, rank.dp_size)

    def _is_distributed(self) -> bool:
        return bool(torch.distributed.is_available() and torch.distributed.is_initialized())
