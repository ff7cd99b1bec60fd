"""Loaders whose positions ``test_checkpoints.py`` saves and restores."""

from __future__ import annotations

import millstream as ms

#: The loaders. All except ``known`` have other entries in their state in the middle of an epoch than at its beginning, or other states on other
#: trainers.
KINDS = ["known", "divided", "filtered", "unordered", "mixture"]


def loader(kind: str, output: str = "torch") -> ms.DataLoader | ms.Mixture:
    """Returns an exactly-once loader.

    The order of ``known`` is the same for any number of trainers. The other loaders have splits of several batches, so that positions within splits
    matter. The number of batches of ``filtered`` is unknown. The batches of ``unordered`` arrive in any order. A component of ``mixture`` ends
    after eight steps of two trainers.
    """
    if kind == "mixture":
        short = _read(ms.Dataset.range(1000, 1064).split_size(16), output)
        return ms.mix({"long": loader("divided", output), "short": short}, seed=5, stop="all_exhausted_without_replacement")
    numbers = ms.Dataset.range(240) if kind == "known" else ms.Dataset.range(240).split_size(40)
    numbers = numbers.filter(lambda x: x % 3 != 0) if kind == "filtered" else numbers.shuffle(240)
    return _read(numbers, output, in_order=kind != "unordered")


def _read(numbers: ms.Dataset, output: str, in_order: bool = True) -> ms.DataLoader:
    return ms.DataLoader(numbers.batch(4), visitation="exactly_once", seed=3, output=output, in_order=in_order)
