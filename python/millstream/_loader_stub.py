"""The objects that stand for the dataset and the sampler of a loader, with the methods that libraries call.

The module forwards calls to the loader, and owns no position.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ._ranks import Rank

if TYPE_CHECKING:
    from ._loader import DataLoader

__all__ = ["Sampler", "Stub"]


class Sampler:
    """The object whose ``set_epoch`` libraries call."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the loader; see ``DataLoader.set_epoch``."""
        self._loader.set_epoch(epoch)


class Stub:
    """A wrapper of a loader's dataset with additional methods that libraries call. All other attributes are those of the dataset."""

    def __init__(self, loader: DataLoader, dataset: Any) -> None:
        self._loader, self._dataset = loader, dataset

    @property
    def num_shards(self) -> int:
        """The maximum number of shards, which is the number of samples."""
        return max(1, self._loader._loading.samples or 1)

    n_shards = num_shards

    def shard(self, num_shards: int, index: int, contiguous: bool = True) -> DataLoader:
        """Returns a loader for the part of trainer ``index`` of ``num_shards`` trainers."""
        part = copy.copy(self._loader)
        part._loading = self._loader._loading.sharded(num_shards, index)
        part.rank = Rank(index, num_shards, "shard")
        # The other parts may belong to other processes, and need the same seed.
        part._is_undrawn = False
        part._restored(self._loader.epoch, 0, [])
        return part

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the loader; see ``DataLoader.set_epoch``."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loader; see ``DataLoader.state_dict``."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the position of the loader; see ``DataLoader.load_state_dict``."""
        self._loader.load_state_dict(state_dict)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_dataset"):
            raise AttributeError(name)
        return getattr(self._dataset, name)
