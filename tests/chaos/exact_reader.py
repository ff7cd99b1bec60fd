"""A trainer of an exactly-once job in a separate process: logs each batch, and the positions that the trainer saves.

Usage: ``python -m chaos.exact_reader SERVICE ELEMENTS LEDGER TRAINER``. ``TRAINER`` is a ``Trainer`` as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle

import millstream as ms
from millstream import Dataset

from .version import check_package

# Workers do not have this module, so its functions are pickled by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: The seconds of work for each position of the source while the work is slow.
POSITION_S = 0.02
#: The number of positions in a split of the source.
SPLIT = 16
#: The number of positions in the buffer of the shuffle.
BUFFER = 8
#: The maximum number of elements in a batch.
BATCH = 3
#: The seed of the job.
SEED = 3
#: Every ``FAILING_STEP``-th element from ``FIRST_BROKEN`` on fails always. Every ``FAILING_STEP``-th element from ``FIRST_WEAK`` on fails once.
FAILING_STEP, FIRST_BROKEN, FIRST_WEAK = 500, 250, 100
#: The maximum number of elements that are left out, and the number of failures after which an element is left out.
QUARANTINED_MAX, FAILURES_MAX = 64, 2


@dataclasses.dataclass(frozen=True)
class Trainer:
    """The settings of one trainer."""

    #: The path of a file. The work is slow while the file exists.
    slow: str
    #: Whether the trainer reads a ``ms.DataLoader``. The other trainers read a plain dataset.
    is_loader: bool
    rank: int = 0
    trainers: int = 1
    #: The number of batches between two saved positions.
    save_every: int = 5
    #: The saved position at which the trainer continues.
    state: dict[str, Any] | None = None
    #: The seconds of the trainer's own work for each batch.
    step_s: float = 0.0
    #: Whether the trainer waits after its last batch, if it had a batch, until it is killed.
    waits_at_end: bool = False
    #: Whether the batches have a fixed order.
    in_order: bool = True
    #: The path of a folder with a file for each element whose work has failed once; empty if no work fails.
    failing: str = ""


class Worked:
    """Returns its argument, after ``POSITION_S`` seconds while the work is slow. Some elements fail always or once, if ``failing`` is a folder."""

    def __init__(self, slow: str, failing: str) -> None:
        self.slow, self.failing = slow, failing

    def __call__(self, number: Any) -> Any:
        """Returns ``number``."""
        if os.path.exists(self.slow):
            time.sleep(POSITION_S)
        if self.failing and number % 2 == 0:
            self._fail(int(number) // 2)
        return number

    def _fail(self, element: int) -> None:
        if element % FAILING_STEP == FIRST_BROKEN:
            raise ValueError(f"element {element} is broken")
        if element % FAILING_STEP == FIRST_WEAK:
            try:
                os.close(os.open(os.path.join(self.failing, str(element)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            raise ValueError(f"element {element} is weak")


def broken(elements: int) -> int:
    """Returns the number of elements whose work always fails."""
    return len(range(FIRST_BROKEN, elements, FAILING_STEP))


def dataset(elements: int, trainer: Trainer) -> Dataset:
    """Returns batches of the numbers from 0 to the number of elements that can be computed, from a source of which a filter drops one half."""
    spec = ms.TensorSpec((), ms.int64)
    positions = Dataset.range(2 * elements).split_size(SPLIT).shuffle(BUFFER)
    worked = positions.map_python(Worked(trainer.slow, trainer.failing), element_spec=spec).filter(lambda x: x % 2 == 0)
    numbers = worked.map(lambda x: x // 2)
    if trainer.failing:
        # The numbers have no gaps at the broken elements, which are left out.
        numbers = numbers.map(lambda x: x - (x + FAILING_STEP - FIRST_BROKEN - 1) // FAILING_STEP)
    return numbers.batch(BATCH)


def events(trainer: Trainer, service: str, elements: int) -> Iterator[dict[str, Any]]:
    """Yields a record for each batch and each saved position, and a last record for the end."""
    outcome, message = "ok", ""
    try:
        yield from _read(trainer, service, dataset(elements, trainer))
    except Exception as error:  # Every error is a finding, which the harness prints.
        outcome, message = "error", f"{type(error).__name__}: {error}"
    yield {"at_s": time.monotonic(), "outcome": outcome, "message": message, "lost": []}


def _read(trainer: Trainer, service: str, batches: Dataset) -> Iterator[dict[str, Any]]:
    ranks: dict[str, Any] = {"seed": SEED, "dp_rank": trainer.rank, "dp_size": trainer.trainers, "in_order": trainer.in_order}
    if trainer.failing:
        ranks |= {"max_quarantined": QUARANTINED_MAX, "max_failures": FAILURES_MAX}
    if not trainer.is_loader:
        exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", **ranks)
        for batch in batches.apply(exactly):
            yield _record(batch)
            time.sleep(trainer.step_s)
        return
    loader = ms.DataLoader(batches, service=service, visitation="exactly_once", output="numpy", **ranks)
    if trainer.state is not None:
        loader.load_state_dict(trainer.state)
    yield {"state": loader.state_dict()}
    number = 0
    for number, batch in enumerate(loader, start=1):
        yield _record(batch)
        if number % trainer.save_every == 0:
            yield {"state": loader.state_dict()}
        time.sleep(trainer.step_s)
    while trainer.waits_at_end and number:
        time.sleep(1)
    yield {"state": loader.state_dict()}


def _record(batch: Any) -> dict[str, Any]:
    return {"at_s": time.monotonic(), "numbers": [int(number) for number in batch]}


def main(arguments: list[str]) -> int:
    """Reads an epoch, and writes the ledger. Returns 0 after any outcome, because the ledger contains the outcome."""
    check_package()
    service, elements, ledger, trainer = arguments
    with Path(ledger).open("w", buffering=1) as log:
        for event in events(Trainer(**json.loads(trainer)), service, int(elements)):
            log.write(json.dumps(event) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
