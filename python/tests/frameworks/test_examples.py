"""The examples end as they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("framework", ["torch", "jax", "keras"])
def test_digits_are_recognised(framework: str) -> None:
    pytest.importorskip(framework)
    pytest.importorskip("sklearn")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(EXAMPLES / f"digits_{framework}.py")]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "unseen digits recognised" in ended.stdout
