"""Tests that the examples of the README run and print the expected text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
README = Path(__file__).parents[2] / "README.md"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environ, input=program, capture_output=True, text=True, timeout=240)


def blocks() -> list[str]:
    return [block.split("```")[0] for block in README.read_text().split("```python\n")[1:]]


def test_digits_are_recognised() -> None:
    pytest.importorskip("sklearn")
    ended = run("", str(EXAMPLES / "digits.py"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "unseen digits recognised" in ended.stdout


def test_a_mixture_resumes_with_other_trainers() -> None:
    ended = run("", str(EXAMPLES / "llm_stream.py"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 missing, 0 twice" in ended.stdout


def test_the_quick_start_runs() -> None:
    quick_start = blocks()[1]
    counted = quick_start.replace("    ...", "    print(len(x), (y == x * x % 7).all())")
    ended = run(counted, "-")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.split("\n")[:-1]
    assert sum(int(line.split()[0]) for line in lines) == 1000
    assert all(line.endswith("True") for line in lines)


def test_the_loader_of_the_quick_start_runs() -> None:
    loader = blocks()[0].replace("DataLoader(dataset,", "DataLoader(list(range(100)),").replace("    ...", "    print(len(batch))")
    ended = run(loader + "print(position)\n", "-")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split("\n")[:4] == ["32", "32", "32", "4"]
