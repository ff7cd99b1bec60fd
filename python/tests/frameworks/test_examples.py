"""Tests that the examples end successfully."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("framework", ["torch", "jax", "keras"])
def test_digits_are_recognised(framework: str) -> None:
    pytest.importorskip(framework)
    pytest.importorskip("sklearn")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(EXAMPLES / f"digits_{framework}.py")]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "unseen digits recognised" in ended.stdout


def test_a_training_resumes_on_another_number_of_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    for number, shard in enumerate(sorted((EXAMPLES / "data").glob("photos-*.tar"))):
        folder = tmp_path / "train" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(shard) as tar:
            for member in tar.getmembers():
                if member.name.endswith(".jpg") and (content := tar.extractfile(member)):
                    (folder / Path(member.name).name).write_bytes(content.read())
    pictures = len(list((tmp_path / "train").glob("*/*.jpg")))

    def train(processes: int, *arguments: str) -> list[tuple[int, int]]:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        program = [str(EXAMPLES / "imagenet.py"), "train", "--epochs", "1", "--batch", "4", *arguments]
        ended = subprocess.run([*launcher, *program], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=240)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        steps = [line.split() for line in ended.stdout.splitlines() if line.startswith("epoch ")]
        return [(int(words[1]), int(words[3])) for words in steps]

    assert train(2, "--steps", "3") == [(0, 1), (0, 2), (0, 3)]
    # Six batches of the epoch are already read, and one process reads the remaining batches.
    assert len(train(1)) == pictures // 4 - 6
