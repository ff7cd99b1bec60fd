"""Starts trainers in separate processes for tests, and collects what they print."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: The timeout of all trainers, in seconds. The import of a framework alone takes several seconds.
LIMIT_S = 240


def told(program: str, *trainers: tuple[list[str], dict[str, str]]) -> list[dict[str, Any]]:
    """Runs trainers concurrently, each with its arguments and environment variables. Returns the JSON that each trainer prints."""
    with ExitStack() as ending:
        started = []
        for arguments, variables in trainers:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
            process = subprocess.Popen(
                [sys.executable, str(HERE / program), *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            ending.callback(process.kill)
            started.append(process)
        said = []
        for process in started:
            out, errors = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, errors[-4000:]
            said.append(json.loads(out.splitlines()[-1]))
    return said


def needs(framework: str) -> None:
    """Skips a test if a framework is not installed. Only the trainers import the framework, because some frameworks conflict in one process."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"there is no {framework}")


def free_addresses(count: int) -> list[str]:
    """Returns addresses of free ports."""
    with ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return ["{}:{}".format(*each.getsockname()) for each in sockets]
