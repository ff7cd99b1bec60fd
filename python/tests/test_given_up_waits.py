"""Tests that only waits of the program itself count as waiting for data, until the program gives them up."""

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


def test_a_prefetching_thread_is_no_waiting_program() -> None:
    """The thread of an exactly-once reader waits for elements that the program has not requested."""

    def slow_after_first(number: Any) -> Any:
        time.sleep(60 * min(int(number), 1))
        return number

    with ms.local(workers=1) as service:
        dataset = ms.Dataset.range(10).map_python(slow_after_first, element_spec=ms.TensorSpec((), ms.int64))
        elements = iter(dataset.apply(ms.service.distribute("distributed_epoch", service, visitation="exactly_once")))
        assert next(elements) == 0
        # Several reports follow the first element.
        time.sleep(3)
        expect(service, is_waiting=False)
        del elements
