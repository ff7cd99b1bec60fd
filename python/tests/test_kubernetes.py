"""Tests of the readiness probes in the manifests for Kubernetes, with workers of this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream as ms

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
MANIFESTS = ("base/worker.yaml", "overlays/gpu-node-agent/node-agent.yaml")
#: The command ``millstream``, which ``python/check`` builds.
COMMAND = os.environ.get("MILLSTREAM_COMMAND") or shutil.which("millstream")
#: The seconds after which a test gives up: ten times the expected time.
WATCHDOG_S = 60


def probed(manifest: str, address: str) -> bool:
    """Returns the answer of the readiness probe of a manifest, for a worker with this admin port."""
    text = (FOLDER / manifest).read_text()
    # The first command is that of the container.
    found = re.search(r"^ *readinessProbe:\n +exec:\n +command:\n +- (\S+)\n +- -c\n +- (.*)$", text, re.MULTILINE)
    port = re.search(r"^ *- --admin=127\.0\.0\.1:(\d+)$", text, re.MULTILINE)
    assert found and port, "expected a probe of the admin port"
    shell, script = found.groups()
    host, _, number = address.rpartition(":")
    asked = f"/dev/tcp/127.0.0.1/{port[1]}"
    assert host == "127.0.0.1" and asked in script
    command = ["timeout", "2", shell, "-c", script.replace(asked, f"/dev/tcp/127.0.0.1/{number}")]
    # A probe without a key of the service cannot ask the dispatcher.
    return subprocess.run(command, env={"PATH": os.environ["PATH"]}, timeout=WATCHDOG_S).returncode == 0


def lives(address: str) -> bool:
    """Returns the answer of the liveness probe of dispatchers with a store on etcd, for this admin port."""
    text = (FOLDER / "overlays/ha-etcd/dispatchers.yaml").read_text()
    found = re.search(r"^ *- bash\n +- -c\n +- (.*)$", text, re.MULTILINE)
    assert found and "--admin=127.0.0.1:9464" in text, "expected a probe of the admin port"
    script = found[1].replace("/127.0.0.1/9464", f"/127.0.0.1/{address.rpartition(':')[2]}")
    return subprocess.run(["timeout", "2", "bash", "-c", script], env={"PATH": os.environ["PATH"]}, timeout=WATCHDOG_S).returncode == 0


@pytest.mark.skipif(COMMAND is None, reason="the command millstream is missing")
def test_a_dispatcher_lives_while_its_port_answers(free: str) -> None:
    assert COMMAND is not None
    assert not lives(free)
    with subprocess.Popen([COMMAND, "dispatcher", "--bind", "127.0.0.1:0", "--admin", free]) as process:
        try:
            until_s = time.monotonic() + WATCHDOG_S
            while not lives(free):
                assert time.monotonic() < until_s
        finally:
            process.kill()
    assert not lives(free)


@pytest.fixture
def free() -> Iterator[str]:
    """Yields the address of a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_worker_is_ready_until_it_ends(cluster: Callable[..., str], manifest: str) -> None:
    worker = ms.service.WorkerServer(ms.service.WorkerConfig(cluster(0), admin="127.0.0.1:0"))
    assert worker.admin_url is not None
    address = worker.admin_url.removeprefix("http://").rstrip("/")
    assert probed(manifest, address)
    worker.drain()
    until_s = time.monotonic() + WATCHDOG_S
    while probed(manifest, address):
        assert time.monotonic() < until_s
    worker.join()


@pytest.mark.skipif(COMMAND is None, reason="the command millstream is missing")
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_worker_without_a_dispatcher_is_not_ready(manifest: str, free: str) -> None:
    assert COMMAND is not None
    arguments = ["--dispatcher", "127.0.0.1:1", "--bind", "127.0.0.1:0", "--admin", free]
    with subprocess.Popen([COMMAND, "worker", *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None and "waiting for the dispatcher" in process.stderr.readline()
            assert not probed(manifest, free)
        finally:
            process.kill()
