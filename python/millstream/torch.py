"""For loaders of torch: datasets as they take them. Importing this module imports torch."""

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
    """A dataset for a ``DataLoader`` or ``StatefulDataLoader`` that wants one of torch's: give ``batch_size=None``, for it batches itself.

    ``num_workers`` processes of the loader read one job of a service together, so that each element comes once; what they compute
    by themselves they divide. None are needed: elements wait as tensors of this process either way.
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
                    f"num_workers={info.num_workers}: processes cannot share what is behind `distribute`: put it before, or use "
                    "num_workers=0"
                )
            return iter(self.dataset.shard(info.num_workers, info.id))
        if reading.request["job_name"] is None:
            # Of each epoch the loader's processes have a number in common, which is another one in the next.
            # What is left of it when all processes have gone nobody else goes on with.
            request = {**reading.request, "job_name": f"{self._name}/{info.seed - info.id}", "expires": True}
            reading = dataclasses.replace(reading, request=request, _connection=None, _job=None)
            self.dataset = Dataset(self.dataset._graph, reading=reading, output="torch")
        return iter(self.dataset)
