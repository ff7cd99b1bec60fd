"""Weights that differ from draw to draw: a dataset of weights as a dataset of choices.

Owns the computation of one choice. Refuses to know the datasets that are chosen from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._spec import TensorSpec

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["choices"]


def choices(weights: Dataset, draws: Dataset, count: int) -> Dataset:
    """Returns the index of a dataset for each vector of weights.

    Args:
        weights: The weights of each draw.
        draws: Random integers of 32 bits.
        count: The number of datasets.

    Raises:
        TypeError: The weights are no vectors of floats.
        ValueError: A vector has another number of weights.
    """
    from ._dataset import Dataset

    spec = weights.element_spec
    if not isinstance(spec, TensorSpec) or spec.shape is None or len(spec.shape) != 1 or not spec.dtype.is_floating:
        raise TypeError(f"sample_from_datasets: expected weights that are vectors of floats, found {spec}")
    if spec.shape[0] not in (None, count):
        raise ValueError(f"expected one weight for each of {count} datasets, found {spec.shape[0]} weights")

    def choice(shares: Any, draw: Any) -> Any:
        known = shares.reshape([count]).cast("float64")
        at = draw.cast("float64") / float(1 << 32) * known.sum()
        # The index is the number of partial sums that are not above the draw.
        index = draw * np.int64(0)
        for place in range(1, count):
            index = index + (at >= known[:place].sum()).cast("int64")
        return index

    return Dataset.zip((weights, draws)).map(choice)
