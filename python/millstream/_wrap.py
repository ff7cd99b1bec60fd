"""The function that creates a loader from an existing torch loader or dataset. Knows the attributes of torch's loader only."""

from __future__ import annotations

from typing import Any

from ._distribute import collate_of, draws_all
from ._loader import DataLoader

__all__ = ["wrap"]


def wrap(x: Any, **arguments: Any) -> DataLoader:
    """Creates a loader from an existing torch loader or dataset.

    Args:
        x: A torch ``DataLoader``, whose arguments the new loader uses, or any dataset.
        **arguments: Arguments of ``ms.DataLoader``, which replace the arguments of ``x``.

    Returns:
        The loader.
    """
    if isinstance(x, DataLoader | str) or not all(hasattr(x, name) for name in ("dataset", "collate_fn", "batch_sampler")):
        return DataLoader(x, **{"batch_size": None, **arguments})
    names = ("batch_size", "num_workers", "pin_memory", "drop_last", "timeout", "worker_init_fn", "generator")
    taken = {name: getattr(x, name) for name in (*names, "prefetch_factor", "in_order") if hasattr(x, name)}
    taken["collate_fn"] = collate_of(x)
    if draws_all(x.sampler):
        taken["shuffle"] = True
    elif type(x.sampler).__name__ not in ("SequentialSampler", "_InfiniteConstantSampler"):
        taken["sampler"] = x.sampler
    if taken.get("batch_size") is None and x.batch_sampler is not None:
        taken.pop("sampler", None)
        taken["batch_sampler"] = x.batch_sampler
    return DataLoader(x.dataset, **{**taken, **arguments})
