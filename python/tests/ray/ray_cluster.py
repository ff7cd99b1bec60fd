"""A Ray cluster of processes on this machine. Each node has an address of its own on the loopback interface."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import ray

#: The address of the head node. Ray replaces 127.0.0.1 by the address of the machine.
HEAD = "127.0.0.2"
#: The port of the head node, below the ports of Ray's workers.
PORT = 6401
#: The seconds within which a node must join.
JOIN_S = 60.0
#: The maximum number of attempts to start a node.
STARTS_MAX = 3
#: The resource of every node but the head node.
SLOT = "slot"

# A token that another program has left in ~/.ray would be read by the nodes, but not by the tests.
os.environ["RAY_AUTH_MODE"] = "disabled"

#: The package, and the modules of the tests, whose functions run on the nodes.
_MODULES = os.pathsep.join((str(Path(__file__).parents[2]), str(Path(__file__).parent)))


class Cluster:
    """A head node without room for workers, and further nodes that can be killed.

    Args:
        python: The interpreter of the nodes.
        connects: False if this program does not connect to the cluster.
    """

    def __init__(self, python: str = sys.executable, *, connects: bool = True) -> None:
        self._python, self._connects = python, connects
        self._directory = tempfile.TemporaryDirectory(prefix="ms-ray-")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 2

    def __enter__(self) -> Self:
        folder = self._directory.name
        self._start(HEAD, "--head", f"--port={PORT}", "--include-dashboard=false", "--num-cpus=2", f"--temp-dir={folder}")
        if self._connects:
            try:
                ray.init(address=f"{HEAD}:{PORT}", log_to_driver=False, _node_ip_address=HEAD)
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()
        for address in list(self._processes):
            self.kill(address)
        self._directory.cleanup()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the nodes except the head node."""
        return [address for address in self._processes if address != HEAD]

    def add(self, cpus: int = 2, **resources: float) -> str:
        """Starts a node, waits until it has joined, and returns its address."""
        self._count += 1
        address = f"127.0.0.{self._count}"
        listed = ",".join(f'"{name}": {amount}' for name, amount in {SLOT: 1.0, **resources}.items())
        self._start(address, f"--address={HEAD}:{PORT}", f"--num-cpus={cpus}", f"--resources={{{listed}}}")
        return address

    def kill(self, address: str) -> None:
        """Kills all processes of a node with SIGKILL."""
        process = self._processes.pop(address)
        for pid in reversed(descendants(process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()

    def _start(self, address: str, *arguments: str) -> None:
        # On a busy machine, a process of Ray sometimes gives up while its node starts.
        for _ in range(STARTS_MAX - 1):
            try:
                return self._started(address, *arguments)
            except AssertionError:
                self.kill(address)
        return self._started(address, *arguments)

    def _started(self, address: str, *arguments: str) -> None:
        command = [os.path.join(os.path.dirname(self._python), "ray"), "start", "--block", "--disable-usage-stats"]
        environment = {**os.environ, "PYTHONPATH": _MODULES}
        # The nodes must not find the key of the tests in a file of the user.
        environment["XDG_DATA_HOME"] = os.path.join(self._directory.name, "no-keys")
        log = Path(self._directory.name, f"{address}.log")
        with log.open("wb") as output:
            self._processes[address] = subprocess.Popen(
                [*command, f"--node-ip-address={address}", *arguments], env=environment, stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + JOIN_S
        while b"block forever" not in log.read_bytes():
            if time.monotonic() > deadline or self._processes[address].poll() is not None:
                raise AssertionError(f"the node {address} did not join: {log.read_text()[-2000:]}")
            time.sleep(0.1)


def descendants(pid: int) -> list[int]:
    """Returns a process and all processes that it has started, the parents first."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def eventually(what: str, within_s: float, is_true: Any) -> float:
    """Blocks until a condition holds, and returns the seconds that it took."""
    began_s = time.monotonic()
    while not is_true():
        assert time.monotonic() - began_s < within_s, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - began_s
