"""The records of a dataset from which a batch was made, for the search for bad batches.

Owns the description of these records and its text. Refuses to know loaders, services and the contents of batches.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ._millstream import EpochLineage

__all__ = ["Lineage", "LineagePart", "indexed", "part_of"]

#: The maximum number of records that the text of a lineage names.
_RECORDS_TOLD = 8


@dataclasses.dataclass(frozen=True, repr=False)
class LineagePart:
    """The part of a batch that was made from one split of the source.

    Attributes:
        split: The number of the split in the source. ``None`` for a dataset with indices, which has no splits.
        positions: The positions of the batch among the batches that the dataset yields on the split.
        first: The first position of the split, in the order in which the epoch reads the source. ``None`` if splits are files.
        count: The number of positions of the split. ``None`` if splits are files.
        records: The indices in the source of the records of the batch, in the order of the batch. ``None`` if records have no known index.
        is_exact: Whether ``records`` are exactly those of the batch. Otherwise they are those of the whole split, and an operation that ran on
            the worker decided which of them are in the batch.
        file: The path of the file that is the split. ``None`` if splits are ranges of positions.
        byte_range: The bytes of the file in which the records of the split begin: the first byte, and the byte after the last one. ``None`` for
            the whole file.
        note: The reason why records or the file are not known exactly; empty if they are.
    """

    split: int | None
    positions: tuple[int, ...] = ()
    first: int | None = None
    count: int | None = None
    records: tuple[int, ...] | None = None
    is_exact: bool = False
    file: str | None = None
    byte_range: tuple[int, int] | None = None
    note: str = ""

    def __str__(self) -> str:
        words = []
        if self.split is not None:
            words.append(f"batch {_listed(self.positions)} of split {self.split}")
        if self.records is not None:
            words.append(f"{'' if self.is_exact else 'some of '}records {_listed(self.records)}")
        if self.file is not None:
            within = "" if self.byte_range is None else f" bytes {self.byte_range[0]} to {self.byte_range[1] - 1}"
            words.append(f"file {self.file}{within}")
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"<millstream.LineagePart {self}{f' ({self.note})' if self.note else ''}>"


@dataclasses.dataclass(frozen=True, repr=False)
class Lineage:
    """The parts of the dataset from which the batch of one step of one trainer was made.

    Attributes:
        epoch: The number of the epoch.
        step: The number of the step in the epoch. Skipped batches count.
        rank: The number of the trainer.
        parts: The parts of the batch, each from one split of the source.
        component: The name of the component of a mixture; ``None`` for a loader.
        component_epoch: The epoch of the component; ``None`` for a loader.
        component_step: The step in the epoch of the component; ``None`` for a loader.

    Example:
        >>> numbers = ms.Dataset.range(100).batch(10)
        >>> loader = ms.DataLoader(numbers, visitation="exactly_once", output="numpy")
        >>> loader.lineage(3)
        <millstream.Lineage of step 3 of epoch 0, trainer 0: batch 0 of split 3, records 30 to 39>
        >>> loader.lineage(3).parts[0].records[:3]
        (30, 31, 32)
    """

    epoch: int
    step: int
    rank: int
    parts: tuple[LineagePart, ...]
    component: str | None = None
    component_epoch: int | None = None
    component_step: int | None = None

    def to_json(self) -> str:
        """Returns all fields as a JSON object."""
        return json.dumps(dataclasses.asdict(self))

    def __str__(self) -> str:
        whose = ""
        if self.component is not None:
            whose = f"component {self.component!r} (step {self.component_step} of epoch {self.component_epoch}), "
        return f"step {self.step} of epoch {self.epoch}, trainer {self.rank}: {whose}{'; '.join(map(str, self.parts))}"

    def __repr__(self) -> str:
        return f"<millstream.Lineage of {self}>"


def part_of(epoch: EpochLineage, split: int, position: int, *, is_reduced: bool = False) -> LineagePart:
    """Returns the part of a batch at a position of a split. A split that ``is_reduced`` leaves failed elements out."""
    positions, records, is_exact, file, byte_range = epoch.of(split, position)
    first, count = positions or (None, None)
    note = epoch.files_error or ""
    if positions is not None and not is_exact:
        note = "an operation such as a filter, or a shuffle with a buffer, decides which records of the split are in the batch"
        if records is None:
            note = "the dataset reads its source several times in different orders, so the records are unknown"
    if is_reduced:
        records, is_exact, note = None, False, "elements of the split were left out because they failed, so the records of its batches are unknown"
    known = None if records is None else tuple(records)
    return LineagePart(split, (position,), first, count, known, is_exact, file, byte_range, note)


def _listed(numbers: Sequence[int]) -> str:
    """Returns a few numbers as text, and many as a range or as the first ones."""
    if len(numbers) > 2 and all(after == before + 1 for before, after in zip(numbers, numbers[1:], strict=False)):
        return f"{numbers[0]} to {numbers[-1]}"
    told = ", ".join(map(str, numbers[:_RECORDS_TOLD]))
    return f"{told}, ... ({len(numbers)} in all)" if len(numbers) > _RECORDS_TOLD else told


def indexed(rows: Any) -> LineagePart:
    """Returns the part of a batch of a dataset with indices, whose samples have these indices."""
    return LineagePart(None, records=tuple(int(row) for row in rows), is_exact=True)
