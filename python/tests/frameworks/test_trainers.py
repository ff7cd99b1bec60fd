"""Tests of the loader in libraries that train with torch. Tests of libraries that are not installed are skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms


class Numbers:
    """A dataset by index."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(3, index, np.float32), "y": index}


def loader() -> ms.DataLoader:
    return ms.DataLoader(Numbers(), 4, shuffle=True, seed=3, output="torch", dp_rank=0, dp_size=1)


def test_lightning_resumes_within_an_epoch(tmp_path: Path) -> None:
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

    def fit(checkpoint: str | None = None, **arguments: Any) -> list[list[int]]:
        seen.clear()
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
        saved = callbacks.ModelCheckpoint(tmp_path, filename="at7", every_n_train_steps=7, enable_version_counter=False)
        chosen = [saved] if "max_steps" in arguments else []
        trainer = lightning.Trainer(callbacks=chosen, enable_checkpointing=bool(chosen), **quiet, **arguments)
        trainer.fit(Module(), loader(), ckpt_path=checkpoint)
        return list(seen)

    whole = fit(max_epochs=2)
    assert len({str(batch) for batch in whole}) == 20
    assert fit(max_steps=7) + fit(str(tmp_path / "at7.ckpt"), max_epochs=2) == whole


def test_accelerate_leaves_the_loader_as_it_is() -> None:
    accelerate = pytest.importorskip("accelerate")
    mine = loader()
    assert accelerate.Accelerator(cpu=True).prepare(mine) is mine
    assert sorted(int(y) for batch in mine for y in batch["y"]) == list(range(40))


def test_a_stateful_protocol_is_that_of_torch() -> None:
    stateful = pytest.importorskip("torch.distributed.checkpoint.stateful")
    assert isinstance(loader(), stateful.Stateful)
