"""Tests that loaders are saved and restored by torch's distributed checkpoint, as torchtitan uses it, and by Orbax."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_loaders import KINDS, loader
from trainers import needs, told

import millstream as ms
import pages
from millstream.errors import InvalidArgumentError

Batches = list[list[int]]


def lists(batches: Any) -> Batches:
    return [[int(x) for x in batch] for batch in batches]


def whole(kind: str) -> Batches:
    """Returns the batches of an epoch that one trainer reads without a checkpoint."""
    return lists(loader(kind, "numpy"))


def trained(folder: Path, size: int, **task: Any) -> list[dict[str, Any]]:
    """Runs ``size`` trainers; see ``checkpoint_trainer.Task`` for ``task``."""
    meeting = str(folder / f"meeting-{len(list(folder.iterdir()))}")
    return told("checkpoint_trainer.py", *(([json.dumps({"rank": rank, "size": size, "meeting": meeting, **task})], {}) for rank in range(size)))


def in_order(trainers: list[dict[str, Any]], wanted: Batches) -> Batches:
    """Returns the batches of all trainers in the order of the steps. The batches of one step have the order of ``wanted``."""
    steps = itertools.zip_longest(*(one["batches"] for one in trainers))
    return [batch for step in steps for batch in sorted(filter(None, step), key=wanted.index)]


@pytest.mark.parametrize("kind", KINDS)
def test_any_trainers_load_the_state_of_a_loader(kind: str, tmp_path: Path) -> None:
    needs("torch")
    saved, wanted = str(tmp_path / "saved"), whole(kind)
    # After 24 steps a component of the mixture has ended.
    steps = 24 if kind == "mixture" else 7
    first = trained(tmp_path, 2, kind=kind, way="state", steps=steps, save=saved)
    assert [len(one["batches"]) for one in first] == [steps, steps]
    for later in (1, 2, 3):
        rest = trained(tmp_path, later, kind=kind, way="state", load=saved)
        assert [one["refusal"] for one in rest] == [""] * later
        assert {one["steps"] - len(one["batches"]) for one in rest} == {steps}, "the model was not restored"
        found = in_order(first, wanted) + in_order(rest, wanted)
        assert sorted(found) == sorted(wanted), later
        assert kind != "known" or found == wanted


def test_training_goes_on_during_a_save(tmp_path: Path) -> None:
    needs("torch")
    saved, wanted = str(tmp_path / "saved"), whole("known")
    first = trained(tmp_path, 2, kind="known", way="state", steps=7, save=saved, is_async=True)
    rest = trained(tmp_path, 3, kind="known", way="state", load=saved)
    assert in_order(first, wanted) + in_order(rest, wanted) == wanted


@pytest.mark.parametrize("kind", ["known", "filtered"])
def test_entries_of_ranks_resume_as_in_torchtitan(kind: str, tmp_path: Path) -> None:
    needs("torch")
    saved, wanted = str(tmp_path / "saved"), whole(kind)
    first = trained(tmp_path, 2, kind=kind, way="entry", steps=7, save=saved)
    rest = trained(tmp_path, 2, kind=kind, way="entry", load=saved)
    found = in_order(first, wanted) + in_order(rest, wanted)
    assert sorted(found) == sorted(wanted)
    assert kind != "known" or found == wanted


@pytest.mark.parametrize("kind", KINDS[1:])
def test_entries_lost_in_a_checkpoint_are_noticed(kind: str, tmp_path: Path) -> None:
    needs("torch")
    saved = str(tmp_path / "saved")
    trained(tmp_path, 2, kind=kind, way="plain", steps=24 if kind == "mixture" else 7, save=saved)
    for one in trained(tmp_path, 2, kind=kind, way="plain", load=saved):
        assert "ms.torch.LoaderState" in one["refusal"] and not one["batches"]


@pytest.mark.parametrize("kind", ["divided", "filtered", "mixture"])
@pytest.mark.parametrize("taken", [33, 40])
def test_a_plain_checkpoint_is_read_as_a_file(kind: str, taken: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    utilities = pytest.importorskip("torch.distributed.checkpoint.format_utils")
    first, resumed = loader(kind), loader(kind)
    batches = lists(itertools.islice(first, taken))
    dcp.save({"loader": first}, checkpoint_id=str(tmp_path / "saved"))
    utilities.dcp_to_torch_save(tmp_path / "saved", tmp_path / "saved.pt")
    resumed.load_state_dict(torch.load(tmp_path / "saved.pt")["loader"])
    assert batches + lists(resumed) == whole(kind)


def test_a_loader_of_samples_is_saved_plainly(tmp_path: Path) -> None:
    dcp = pytest.importorskip("torch.distributed.checkpoint")

    def samples() -> ms.DataLoader:
        return ms.DataLoader(list(range(40)), 4, shuffle=True, seed=3, output="torch", num_workers=2)

    first, resumed = samples(), samples()
    batches = lists(itertools.islice(first, 4))
    dcp.save({"loader": first}, checkpoint_id=str(tmp_path))
    dcp.load({"loader": resumed}, checkpoint_id=str(tmp_path))
    assert batches + lists(resumed) == lists(samples())


def test_foreign_states_are_refused_by_name() -> None:
    pytest.importorskip("torch")
    one = loader("known")
    with pytest.raises(InvalidArgumentError, match="expected a state of ms.torch.LoaderState, found the entries .*'epoch'"):
        ms.torch.LoaderState(one).load_state_dict(one.state_dict())
    copies = [{"dp_rank": 0, "dp_size": 1, "state": one.state_dict() | {"step": step}} for step in range(2)]
    with pytest.raises(InvalidArgumentError, match="several processes have different states of trainer 0 of 1"):
        ms.torch.LoaderState(one).load_state_dict({"processes": json.dumps(copies)})


class Unsaved:
    """An iterable whose state JSON cannot represent."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(40))

    def state_dict(self) -> dict[str, Any]:
        return {"at": {1, 2}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("the state was not saved")


def test_a_state_that_is_not_json_is_refused() -> None:
    pytest.importorskip("torch")
    one = ms.DataLoader(Unsaved(), 4)
    next(iter(one))
    with pytest.raises(InvalidArgumentError, match=r"cannot be saved as JSON: .* Return JSON values from the dataset's state_dict"):
        ms.torch.LoaderState(one).state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_orbax_restores_the_position_exactly(kind: str, tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    ocp = pytest.importorskip("orbax.checkpoint")
    first, resumed, zeros = loader(kind, "numpy"), loader(kind, "numpy"), {"w": np.zeros(3)}
    batches = lists(itertools.islice(first, 17))
    with ocp.CheckpointManager(tmp_path / "saved") as manager:
        loaders = ocp.args.JsonSave(first.state_dict())
        manager.save(17, args=ocp.args.Composite(model=ocp.args.StandardSave({"w": np.ones(3)}), loader=loaders))
    with ocp.CheckpointManager(tmp_path / "saved") as manager:
        wanted = ocp.args.Composite(model=ocp.args.StandardRestore(zeros), loader=ocp.args.JsonRestore())
        restored = manager.restore(manager.latest_step(), args=wanted)
    assert restored.model["w"].tolist() == [1, 1, 1] and restored.loader == first.state_dict()
    resumed.load_state_dict(restored.loader)
    found = batches + lists(resumed)
    assert sorted(found) == sorted(whole(kind))
    assert kind == "unordered" or found == whole(kind)


@pytest.mark.parametrize("package", ["torch", "orbax", "accelerate", "transformers"])
def test_the_code_of_the_guide_runs(package: str, tmp_path: Path) -> None:
    needs(package)
    marked = [code for reason, code in pages.blocks("guides/resume.md", "python") if f"needs {package}" in reason.lower()]
    assert marked
    program = "\n".join([pages.code("guides/resume.md")[2], *marked])
    program = "import millstream as ms\n" + program
    ended = subprocess.run([sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
