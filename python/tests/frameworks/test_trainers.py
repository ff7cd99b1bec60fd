"""Tests of the loader in libraries that train with torch. Tests of libraries that are not installed are skipped."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms


class Numbers:
    """A dataset by index."""

    def __init__(self, count: int = 40, first: int = 0) -> None:
        self.count, self.first = count, first

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(3, index, np.float32), "y": self.first + index}


def loader() -> ms.DataLoader:
    return ms.DataLoader(Numbers(), 4, shuffle=True, seed=3, output="torch", dp_rank=0, dp_size=1)


def mixture(stop: str) -> ms.Mixture:
    small = ms.DataLoader(Numbers(12, 100), 4, shuffle=True, seed=3, output="torch", dp_rank=0, dp_size=1)
    return ms.mix({"large": loader(), "small": small}, weights={"large": 3, "small": 1}, stop=stop)


def steps_of(made: ms.Mixture) -> list[list[int]]:
    """Returns the samples of 30 steps of an endless mixture, or of two epochs as libraries read them: with the length of the first epoch."""
    if "never" in repr(made):
        return [batch["y"].tolist() for batch, _ in zip(made, range(30), strict=False)]
    steps = len(made)
    return [batch["y"].tolist() for _ in range(2) for batch in itertools.islice(made, steps)]


Fit = Callable[..., list[list[int]]]


@pytest.fixture
def fit(tmp_path: Path) -> Fit:
    """Returns a function that trains with Lightning, and returns the samples of each step. ``save`` writes a checkpoint after seven steps."""
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    seen: list[list[int]] = []

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        """A module that learns nothing, and records its batches."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            seen.append(batch["y"].tolist())
            return self.layer(batch["x"]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.0)

    def run(batches: Any, checkpoint: Path | None = None, save: bool = False, **arguments: Any) -> list[list[int]]:
        seen.clear()
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
        saved = callbacks.ModelCheckpoint(tmp_path, filename="at7", every_n_train_steps=7, enable_version_counter=False)
        trainer = lightning.Trainer(callbacks=[saved] if save else [], enable_checkpointing=save, **quiet, **arguments)
        trainer.fit(Module(), batches, ckpt_path=checkpoint and str(checkpoint))
        return list(seen)

    return run


def test_lightning_resumes_within_an_epoch(fit: Fit, tmp_path: Path) -> None:
    whole = fit(loader(), max_epochs=2)
    assert len({str(batch) for batch in whole}) == 20
    assert fit(loader(), save=True, max_steps=7) + fit(loader(), tmp_path / "at7.ckpt", max_epochs=2) == whole


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted_without_replacement"])
def test_lightning_resumes_a_mixture(fit: Fit, tmp_path: Path, stop: str) -> None:
    wanted = steps_of(mixture(stop))
    assert fit(mixture(stop), max_epochs=2) == wanted
    assert fit(mixture(stop), save=True, max_steps=7) + fit(mixture(stop), tmp_path / "at7.ckpt", max_epochs=2) == wanted


def test_lightning_resumes_an_endless_mixture(fit: Fit, tmp_path: Path) -> None:
    wanted = steps_of(mixture("never"))
    # With a limit Lightning prefetches no batch, so the state is that of the model.
    limited = {"limit_train_batches": 10}
    assert fit(mixture("never"), max_steps=30, **limited) == wanted
    first = fit(mixture("never"), save=True, max_steps=7, **limited)
    assert first + fit(mixture("never"), tmp_path / "at7.ckpt", max_steps=30, **limited) == wanted


def test_the_hugging_face_trainer_takes_a_mixture(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    seen: list[list[int]] = []

    class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
        """A model that learns nothing, and records its batches."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x: Any, y: Any) -> dict[str, Any]:
            seen.append(y.tolist())
            return {"loss": self.layer(x).sum()}

    def train(batches: Any, **arguments: Any) -> list[list[int]]:
        class Trainer(transformers.Trainer):  # type: ignore[misc,name-defined]
            def get_train_dataloader(self) -> Any:
                return batches

        seen.clear()
        settings = transformers.TrainingArguments(
            output_dir=str(tmp_path), use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", learning_rate=0.0, **arguments
        )
        Trainer(model=Model(), args=settings).train()
        return list(seen)

    for stop, arguments in (("first_exhausted", {"num_train_epochs": 2}), ("never", {"max_steps": 30})):
        assert train(mixture(stop), **arguments) == steps_of(mixture(stop))


def test_accelerate_leaves_the_loader_as_it_is() -> None:
    accelerate = pytest.importorskip("accelerate")
    mine, mixed = loader(), mixture("all_exhausted_without_replacement")
    assert accelerate.Accelerator(cpu=True).prepare(mine, mixed) == (mine, mixed)
    assert sorted(int(y) for batch in mine for y in batch["y"]) == list(range(40))
    assert sorted(int(y) for batch in mixed for y in batch["y"]) == [*range(40), *range(100, 112)]


def test_a_stateful_protocol_is_that_of_torch() -> None:
    stateful = pytest.importorskip("torch.distributed.checkpoint.stateful")
    assert isinstance(loader(), stateful.Stateful) and isinstance(mixture("never"), stateful.Stateful)
