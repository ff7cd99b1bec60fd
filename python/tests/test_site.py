"""Tests that the code of the documentation runs, and that its commands and flags exist."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import millstream as ms
import pages

COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")


@pytest.mark.parametrize("page", [page for page in pages.pages() if pages.code(page)])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path) -> None:
    ended = pages.run(page, tmp_path)
    assert ended.returncode == 0, f"{page}:\n{ended.stdout}{ended.stderr}"


@pytest.mark.skipif(COMMAND is None, reason="there is no command millstream: python/check builds it")
def test_the_commands_of_the_pages_have_their_flags() -> None:
    help_of: dict[str, str] = {}
    for page in pages.pages():
        for _, command, *arguments in pages.commands(page):
            if command not in help_of:
                shown = subprocess.run([str(COMMAND), command, "--help"], capture_output=True, text=True, check=True)
                help_of[command] = shown.stdout
            for flag in (word.split("=")[0] for word in arguments if word.startswith("--")):
                assert f"{flag} " in help_of[command] or f"{flag}\n" in help_of[command], f"{page}: {command} {flag}"


def test_the_index_of_errors_is_complete() -> None:
    index = (pages.DOCS / "reference" / "errors.md").read_text()
    kinds = [name for name in ms.errors.__all__ if issubclass(getattr(ms.errors, name), ms.errors.MillstreamError)]
    missing = [name for name in kinds if f"`{name}`" not in index and name != "MillstreamError"]
    assert not missing


def test_every_variable_of_the_environment_is_documented() -> None:
    page = (pages.DOCS / "reference" / "configuration.md").read_text()
    for name in ("KEY", "REVOKED", "PYTHON", "PYTHON_ENV", "ISOLATION", "ON_STALE_CODE", "DISPATCHER_TIMEOUT_S", "FULL_TRACEBACK"):
        assert f"`MILLSTREAM_{name}`" in page
