"""Feeds a language model: tokenises two corpora on workers, mixes packed rows by weight, and resumes with more trainers.

To run the example on this machine: `python examples/llm_stream.py`. Replace `tokens_of` by your tokeniser, the corpora by your
files, and `ms.local` by the address of a service. Exits with 1 if a row of the epoch is missing or was read twice.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import cloudpickle
import numpy as np

import millstream as ms

LENGTH = 32  # tokens in a row
BATCH = 4
ROWS = 240  # rows in an epoch
WEIGHTS = {"web": 0.7, "code": 0.3}


def tokens_of(text: str) -> np.ndarray:
    """Returns the tokens of a document: in this example its bytes, followed by an end token."""
    return np.frombuffer(text.encode() + b"\0", np.uint8).astype(np.int32)


def prepare(folder: Path, service: ms.LocalService) -> None:
    """Tokenises each corpus on the workers, and writes its tokens to a file as one array."""
    for name in WEIGHTS:
        texts = [f"{name} document {number}. " * (number % 5 + 1) for number in range(200)]
        spec = ms.TensorSpec((None,), ms.int32)
        documents = ms.Dataset.from_tensor_slices(texts).map_python(tokens_of, element_spec=spec)
        documents = documents.apply(ms.service.distribute("distributed_epoch", service))
        np.save(folder / f"{name}.npy", np.concatenate([tokens.copy() for tokens in documents]))


class Mixture:
    """A dataset of packed rows. The row's number seeds the draws of its corpus and position, so a row is the same in every process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng((self.seed, index))
        name = draw.choice(list(WEIGHTS), p=list(WEIGHTS.values()))
        tokens = np.load(self.folder / f"{name}.npy", mmap_mode="r")
        start = int(draw.integers(len(tokens) - LENGTH - 1))
        row = np.asarray(tokens[start : start + LENGTH + 1])
        return {"index": np.int64(index), "inputs": row[:-1], "labels": row[1:]}


def loader_of(mixture: Mixture, service: ms.LocalService, trainer: int, trainers: int) -> ms.DataLoader:
    """Returns one trainer's loader. With torchrun, omit `dp_rank` and `dp_size`, because the loader finds the values itself."""
    return ms.DataLoader(mixture, BATCH, shuffle=True, seed=5, service=service, dp_rank=trainer, dp_size=trainers)


def main() -> int:
    """Trains with two trainers for some steps, and resumes with three trainers."""
    # Workers do not have this program, so its classes are pickled by value.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory() as name, ms.local(workers=2) as service:
        prepare(Path(name), service)
        mixture, seen, states = Mixture(Path(name), seed=1), [], []
        for trainer in range(2):
            batches = iter(loader := loader_of(mixture, service, trainer, 2))
            for _ in range(15):
                batch = next(batches)
                assert batch["inputs"].shape == (BATCH, LENGTH)
                seen += batch["index"].tolist()
            states.append(loader.state_dict())
        assert states[0] == states[1], "the state is the same on all trainers"
        for trainer in range(3):
            loader = loader_of(mixture, service, trainer, 3)
            loader.load_state_dict(states[0])
            for batch in loader:
                seen += batch["index"].tolist()
    missing, twice = ROWS - len(set(seen)), len(seen) - len(set(seen))
    print(f"{len(seen)} rows by 2 trainers and then by 3: {missing} missing, {twice} twice; the state is {states[0]}")
    return 0 if missing == twice == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
