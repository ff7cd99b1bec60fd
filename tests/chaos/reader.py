"""A reader in a separate process: reads one epoch, and logs each batch before it requests the next batch.

Usage: ``python -m chaos.reader KIND SERVICE ELEMENTS LEDGER [JOB]``
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle

import millstream as ms
from millstream import Dataset

from .version import check_package

# Workers do not have this module, so its functions are pickled by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: Seconds of work that each element of the kinds "map" and "loader" takes on a worker.
ELEMENT_S = 0.002
#: The number of elements in a batch of the kind "numbers".
NUMBERS_BATCH = 256
#: The number of samples in a step of the kinds "loader" and "large-loader".
LOADER_BATCH = {"loader": 16, "large-loader": 256}


def worked(number: Any) -> Any:
    """Returns its argument after ``ELEMENT_S`` seconds."""
    time.sleep(ELEMENT_S)
    return number


class Samples:
    """A dataset of numbers by index. Each number takes ``element_s`` seconds of work."""

    def __init__(self, elements: int, element_s: float) -> None:
        self.elements = elements
        self.element_s = element_s

    def __len__(self) -> int:
        return self.elements

    def __getitem__(self, index: int) -> int:
        if self.element_s:
            time.sleep(self.element_s)
        return index


def batches(kind: str, service: str, elements: int, job: str | None) -> Iterable[Any]:
    """Returns an iterable over batches, which are arrays of numbers."""
    if kind in LOADER_BATCH:
        samples = Samples(elements, ELEMENT_S if kind == "loader" else 0)
        return ms.DataLoader(samples, LOADER_BATCH[kind], service=service, output="numpy", dp_rank=0, dp_size=1)
    numbers = Dataset.range(elements)
    if kind == "map":
        spec = ms.TensorSpec((), ms.int64)
        dataset = numbers.map_python(worked, element_spec=spec).batch(4)
    else:
        # Readers of the kind "left" end after their first batch.
        dataset = numbers.batch(NUMBERS_BATCH)
    distribute = ms.service.distribute("distributed_epoch", service, job_name=job, on_lost="raise")
    return dataset.apply(distribute)


def events(kind: str, service: str, elements: int, job: str | None) -> Iterator[dict[str, Any]]:
    """Yields a record for each batch, and a last record for the end."""
    lost: list[tuple[int, int]] = []
    outcome, message = "ok", ""
    try:
        for batch in batches(kind, service, elements, job):
            yield {"at_s": time.monotonic(), "numbers": [int(number) for number in batch]}
            if kind == "left":
                return
            if kind == "numbers":
                time.sleep(ELEMENT_S)
    except ms.errors.DataLossError as error:
        outcome, message = "lost", str(error)
        lost = [(run.first, run.count) for run in error.lost]
    except Exception as error:  # Every other error is a finding, which the harness prints.
        outcome, message = "error", f"{type(error).__name__}: {error}"
    yield {"at_s": time.monotonic(), "outcome": outcome, "message": message, "lost": lost}


def main(arguments: list[str]) -> int:
    """Reads an epoch, and writes the ledger. Returns 0 after any outcome, because the ledger contains the outcome."""
    check_package()
    kind, service, elements, ledger, *job = arguments
    with Path(ledger).open("w", buffering=1) as log:
        for event in events(kind, service, int(elements), job[0] if job else None):
            log.write(json.dumps(event) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
