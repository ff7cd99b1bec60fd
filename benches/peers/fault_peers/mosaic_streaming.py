"""MosaicML Streaming: shards in the MDS format, read with ``StreamingDataset`` and ``StreamingDataLoader``.

This module writes the shards. The module knows the form of a state as JSON, and nothing of its fields.
"""

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from .trainer import Rows, Trainer

TITLE = "MosaicML Streaming"
LIBRARY = "mosaicml-streaming"
SETTING = (
    "`StreamingDataset(shuffle=True, num_canonical_nodes=1)` on local MDS shards, `StreamingDataLoader` with two worker processes for each trainer, "
    "12 records in a step for any number of trainers"
)
PACKAGES = ["mosaicml-streaming", "numpy"]
MODULES = ("numpy", "torch", "streaming")
REFUSED: dict[str, str] = {}
WORKERS = 2
#: The folder in which Streaming names its shared memory by six digits and a purpose.
SHARED_MEMORY = pathlib.Path("/dev/shm")
#: The bytes of a shard, so that the records fill several shards.
SHARD_BYTES = 1 << 23


def prepared(directory: str, records: int) -> None:
    """Writes the shards of all records."""
    from streaming import MDSWriter

    (pathlib.Path(directory) / "names.json").write_text(json.dumps(sorted(_names())))
    folder = pathlib.Path(directory) / "mds"
    with MDSWriter(out=str(folder), columns={"index": "int", "payload": "bytes"}, size_limit=SHARD_BYTES) as shards:
        rows = Rows(records)
        for index in range(records):
            shards.write({"index": index, "payload": rows[index][1].tobytes()})


def cleaned(directory: str) -> None:
    """Removes the names in shared memory that the killed trainers of this run left. Other names were there before the run."""
    for name in _names() - set(json.loads((pathlib.Path(directory) / "names.json").read_text())):
        (SHARED_MEMORY / name).unlink(missing_ok=True)


def _names() -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob("[0-9][0-9][0-9][0-9][0-9][0-9]_*")}


def opened(trainer: Trainer) -> "Loading":
    """Returns the loader of a trainer."""
    return Loading(trainer)


def joined(states: list[bytes], trainers: int) -> bytes:
    """Returns the state of the first trainer, which counts the samples of all trainers."""
    return states[0]


def rows_of(samples: list[dict[str, Any]]) -> tuple[list[int], Any]:
    """Returns a batch of samples as indices and payloads."""
    import numpy

    rows = [numpy.frombuffer(sample["payload"], numpy.uint8) for sample in samples]
    return [sample["index"] for sample in samples], numpy.stack(rows)


class Loading:
    """The loader of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        rank, size = str(trainer.rank), str(trainer.trainers)
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(trainer.port)}
        import torch
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        torch.set_num_threads(1)
        if trainer.trainers > 1:
            torch.distributed.init_process_group("gloo")
        # A killed trainer leaves names in shared memory, which its successor removes as the documentation advises.
        clean_stale_shared_memory()
        dataset = StreamingDataset(
            local=str(pathlib.Path(trainer.directory) / "mds"),
            shuffle=True,
            shuffle_seed=trainer.seed,
            num_canonical_nodes=1,
            batch_size=trainer.batch,
        )
        self._loader = StreamingDataLoader(dataset, batch_size=trainer.batch, num_workers=WORKERS, collate_fn=rows_of)
        if trainer.saved is not None:
            self._loader.load_state_dict(json.loads(trainer.saved))

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Returns the batches from the saved state to the end of the epoch."""
        return iter(self._loader)

    def state(self) -> bytes:
        """Returns the position as JSON."""
        return json.dumps(self._loader.state_dict()).encode()
