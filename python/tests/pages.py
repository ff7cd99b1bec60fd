"""Runs the code of documentation pages.

The blocks of a page run in order, in one process and in an empty directory. A page may begin with a hidden ``setup``. A block after
``<!-- not run: REASON -->`` is not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_SETUP = re.compile(r"<!-- setup\n(.*?)-->", re.DOTALL)
_BLOCK = re.compile(r"(?:<!-- not run: ([^\n]*?) -->\n)?```(python|sh)\n(.*?)```", re.DOTALL)


def pages() -> list[str]:
    """Returns the paths of the pages for users, relative to ``docs``."""
    found = [*DOCS.glob("start/*.md"), *DOCS.glob("guides/*.md"), *DOCS.glob("concepts/*.md"), DOCS / "index.md"]
    return sorted(page.relative_to(DOCS).as_posix() for page in found)


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """Returns the code blocks of a page in a language, each with the reason for not running it. The reason is empty for a block that runs."""
    text = (DOCS / page).read_text()
    return [(reason, code) for reason, found, code in _BLOCK.findall(text) if found == language]


def code(page: str) -> list[str]:
    """Returns the Python blocks of a page that run."""
    return [block for reason, block in blocks(page, "python") if not reason]


def run(page: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs the Python blocks of a page in one process."""
    setup = _SETUP.search((DOCS / page).read_text())
    program = "\n".join([f"ROOT = {str(ROOT)!r}", setup.group(1) if setup else "", *code(page)])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-"], input=program, env=environ, cwd=directory, capture_output=True, text=True, timeout=240
    )


def commands(page: str) -> list[list[str]]:
    """Returns the words of each ``millstream`` command in the shell blocks of a page."""
    lines = [line for _, block in blocks(page, "sh") for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"[;&|]+", line.split("#")[0])]
    calls = [part.removeprefix("do ") for part in parts]
    return [shlex.split(call) for call in calls if call.startswith("millstream ")]
