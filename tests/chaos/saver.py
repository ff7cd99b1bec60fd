"""A process that saves a dataset on a service, and a process that reads it meanwhile and logs each batch.

Usage: ``python -m chaos.saver save SERVICE ELEMENTS PLACE SLOW``, or ``python -m chaos.saver load PLACE LEDGER``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import millstream as ms

from .exact_reader import SEED, Trainer, dataset
from .version import check_package


def events(place: str) -> Iterator[dict[str, Any]]:
    """Yields a record for each batch of a dataset that is being saved, and a last record for the end."""
    outcome, message = "ok", ""
    try:
        for batch in ms.service.load(place, wait=True):
            yield {"at_s": time.monotonic(), "numbers": [int(number) for number in batch]}
    except Exception as error:  # Every error is a finding, which the harness prints.
        outcome, message = "error", f"{type(error).__name__}: {error}"
    yield {"at_s": time.monotonic(), "outcome": outcome, "message": message, "lost": []}


def main(arguments: list[str]) -> int:
    """Saves or loads the dataset. Returns 0 after a complete save, and after any outcome of a load, which the ledger contains."""
    check_package()
    if arguments[0] == "save":
        _, service, elements, place, slow = arguments
        # The harness kills workers that read any split, so no number of deaths tells that a split ends its workers.
        ms.service.save(dataset(int(elements), Trainer(slow, is_loader=False)), place, service, seed=SEED, max_deaths=16)
        return 0
    _, place, ledger = arguments
    with Path(ledger).open("w", buffering=1) as log:
        for event in events(place):
            log.write(json.dumps(event) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
