"""Adapts datasets to torch's loaders. Importing this module imports torch."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import torch.utils.data

from ._dataset import Dataset
from .errors import InvalidArgumentError

__all__ = ["IterableDataset"]


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
