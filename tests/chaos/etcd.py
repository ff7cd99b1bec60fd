"""A store on etcd for several dispatchers: one member of etcd, whose key names the leading dispatcher."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .processes import READY_S, Cluster, Hang
from .round import Skipped
from .version import Version

#: The beginning of the keys of the service.
PREFIX = "chaos"
#: A shell that ends etcd and removes its folder once its standard input closes, also if the harness is killed.
_SHELL = '"$@" & pid=$!; cat >/dev/null; kill -9 $pid; wait; rm -rf "$FOLDER"'
#: Seconds between two looks at the leader's key.
_LOOK_S = 0.02


class Etcd:
    """The store that the dispatchers of a service share.

    Raises:
        Skipped: etcd is not installed, or a version of the service has no store on etcd.
    """

    def __init__(self, cluster: Cluster, dispatchers: int) -> None:
        program = shutil.which(os.environ.get("ETCD", "etcd"))
        if program is None:
            raise Skipped("etcd is missing: install it (Debian: etcd-server), or name the program in ETCD", is_missing=True)
        for version in (cluster.present, cluster.previous):
            if version is not None:
                check_store(cluster, version)
        self._cluster = cluster
        self._port, peer_port = _free_port(), _free_port()
        cluster.share(f"etcd://127.0.0.1:{self._port}/{PREFIX}", dispatchers)
        # The disk of a busy machine would delay etcd for seconds.
        memory = Path("/dev/shm")
        folder = tempfile.mkdtemp(prefix="chaos-etcd-", dir=memory if memory.is_dir() else None)
        client, peer = f"http://127.0.0.1:{self._port}", f"http://127.0.0.1:{peer_port}"
        settings = {
            "data-dir": f"{folder}/data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        arguments = [program, *(f"--{name}={value}" for name, value in settings.items())]
        self._process = cluster.start("etcd", ["env", f"FOLDER={folder}", "sh", "-c", _SHELL, "sh", *arguments], cluster.present)

    def __enter__(self) -> Self:
        deadline = time.monotonic() + READY_S
        while self._get("leader") is None:
            if time.monotonic() > deadline:
                raise Hang(f"etcd does not serve after {READY_S:.0f} s: {self._process.log.read_text()[-2000:]}")
            time.sleep(_LOOK_S)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        # Killing the shell would leave etcd and its folder behind.
        stdin = self._process.child.stdin
        assert stdin is not None
        stdin.close()
        self._process.child.wait()

    def leader(self) -> int | None:
        """Returns the number of the leading dispatcher, or nothing during an election."""
        found = self._get("leader")
        return None if not found else self._cluster.addresses.index(json.loads(found[0])["address"])

    def wait_for_leader(self, expected: int) -> None:
        """Blocks until the dispatcher with a number leads."""
        deadline = time.monotonic() + READY_S
        while (found := self.leader()) != expected:
            if time.monotonic() > deadline:
                raise Hang(f"expected dispatcher {expected} to lead after {READY_S:.0f} s, found {found}")
            time.sleep(_LOOK_S)

    def _get(self, name: str) -> list[bytes] | None:
        """Returns the values of a key, or nothing if etcd does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=READY_S)
        try:
            key = base64.b64encode(f"{PREFIX}/{name}".encode()).decode()
            connection.request("POST", "/v3/kv/range", json.dumps({"key": key}))
            response = connection.getresponse()
            if response.status != http.client.OK:
                return None
            answer: dict[str, Any] = json.loads(response.read())
            return [base64.b64decode(pair["value"]) for pair in answer.get("kvs", [])]
        except OSError:
            return None
        finally:
            connection.close()


def check_store(cluster: Cluster, version: Version) -> None:
    """Raises ``Skipped`` if a version was built without etcd, or does not know the flag of the store."""
    # No etcd listens at this port, so every dispatcher ends by itself.
    arguments = [version.command, "dispatcher", "--bind", "127.0.0.1:0", "--store", f"etcd://127.0.0.1:1/{PREFIX}"]
    ended = subprocess.run(
        arguments, check=False, env=cluster.environment_of(version), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=READY_S
    )
    if "this build of millstream has no etcd" in ended.stderr:
        raise Skipped(f"the {version.name} version was built without the feature etcd, whose build needs protoc", is_missing=True)
    if "unexpected argument '--store'" in ended.stderr:
        raise Skipped(f"the {version.name} version has no store on etcd", is_missing=False)


def _free_port() -> int:
    """Returns a free TCP port of the loopback interface."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
