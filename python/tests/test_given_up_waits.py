"""Tests that a wait which the program gives up does not count as waiting for data."""

import concurrent.futures
import json
import os
import shutil
import subprocess
import time
from typing import Any

import pytest

import millstream as ms

COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")

pytestmark = pytest.mark.skipif(COMMAND is None, reason="needs the command `millstream`: set MILLSTREAM_COMMAND")


def waiting(service: ms.LocalService) -> float:
    """Returns the share of time in which the only reader waits for data."""
    command = [str(COMMAND), "status", "--json", "--dispatcher", service.target.partition("://")[2]]
    status = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return float(status["iterations"][0]["clients"][0]["waiting"] or 0.0)


def expect(service: ms.LocalService, is_waiting: bool) -> None:
    deadline = time.monotonic() + 15
    while (waiting(service) > 0) != is_waiting:
        assert time.monotonic() < deadline, f"expected waiting: {is_waiting}"
        time.sleep(0.1)


def test_a_wait_with_a_timeout_ends() -> None:
    """The service would otherwise start workers for a program that reads nothing."""

    def slow(number: Any) -> Any:
        time.sleep(60)
        return number

    with ms.local(workers=1) as service:
        dataset = ms.Dataset.range(10).map_python(slow, element_spec=ms.TensorSpec((), ms.int64))
        elements: Any = iter(dataset.apply(ms.service.distribute("parallel_epochs", service)))
        nothing = object()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            found = pool.submit(elements.within, 6.0, nothing)
            expect(service, True)
            assert found.result() is nothing
        expect(service, False)
