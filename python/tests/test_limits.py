"""Tests of dying processes and of limits: programs continue or raise a clear error, and leave no processes or files behind."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

FULL = os.environ.get("MILLSTREAM_FULL") == "1"


def descriptors() -> list[str]:
    """Returns the targets of this process's open file descriptors."""
    targets = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # Another thread may close a descriptor while it is looked at.
            targets.append(os.readlink(path))
    return sorted(targets)


def test_a_dispatcher_may_die_at_any_step() -> None:
    seed = random.randrange(1 << 32)
    steps = random.Random(seed)
    for _ in range(20 if FULL else 1):
        with ms.local(workers=1) as service:
            elements = iter(Dataset.range(1 << 40).apply(distribute("parallel_epochs", service)))
            for _ in range(steps.randrange(1, 500)):
                next(elements)
            os.kill(service.pids[0], signal.SIGKILL)
            try:
                for _ in range(1000):
                    next(elements)
            except ms.errors.MillstreamError as error:
                assert service.target.split("://")[1] in str(error), f"seed {seed}: {error}"
            pids = service.pids
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids), f"seed {seed}"


def test_nothing_is_left_open_by_services_that_end() -> None:
    def read() -> None:
        with ms.local(workers=1, inline=True) as service:
            assert len(list(Dataset.range(50).apply(distribute("distributed_epoch", service)))) == 50

    read()
    before = descriptors()
    for _ in range(3):
        read()
    # A service waits at most one second for a goodbye message, and its runtime closes sockets afterwards.
    deadline = time.monotonic() + 20
    while len(descriptors()) > len(before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(descriptors()) <= len(before)


def test_a_program_that_may_open_few_files_reads() -> None:
    program = """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    import millstream as ms
    with ms.local(workers=2) as service:
        kept = [iter(ms.Dataset.range(64).apply(ms.service.distribute("parallel_epochs", service))) for _ in range(8)]
        assert sorted(int(x) for reader in kept for x in reader) == sorted(list(range(64)) * 16)
    print("read")
    """
    assert ran(program) == "read\n"


def ran(program: str, *before: str) -> str:
    """Runs a Python program, which must succeed, and returns its output. ``before`` is a command that runs the interpreter."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [*before, sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


#: A program that reads arrays of 1 MiB from a worker, which inherits the limits that were set before its start.
READS = """
import resource, sys
import numpy as np
import millstream as ms

def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

def limit(kind, bytes):
    resource.setrlimit(kind, (bytes, bytes))

def read(service, made=lambda: ms.Dataset.from_tensors(np.arange(1 << 18, dtype=np.int32)).repeat(20)):
    shared = 0
    arrays = iter(made().apply(ms.service.distribute("parallel_epochs", service)))
    for count, array in enumerate(arrays, 1):
        assert (array == np.arange(1 << 18)).all()
        shared += "/memfd:" in open("/proc/self/maps").read()
    print("read", count, "shared" if shared else "sent")
"""


def test_row_246_unmappable_memory_is_not_shared() -> None:
    program = """
    with ms.local(workers=1) as service:
        read(service)
        # An arena of a worker takes 512 MiB of address space.
        limit(resource.RLIMIT_AS, used() + (128 << 20))
        read(service)
    """
    assert ran(READS + textwrap.dedent(program)) == "read 20 shared\nread 20 sent\n"


def test_row_246_want_of_address_space_is_named() -> None:
    program = """
    with ms.local(workers=1) as service:
        limit(resource.RLIMIT_AS, used() + (1 << 20))
        try:
            read(service)
        except MemoryError as error:
            print(type(error).__name__)
    """
    assert ran(READS + textwrap.dedent(program)) in ("ResourceExhaustedError\n", "MemoryError\n")


@pytest.mark.parametrize("kind", ["RLIMIT_MEMLOCK", "RLIMIT_FSIZE"])
def test_row_246_little_locked_memory_does_not_matter(kind: str) -> None:
    program = f"""
    limit(resource.{kind}, 64 << 10)
    with ms.local(workers=1) as service:
        read(service)
    """
    assert ran(READS + textwrap.dedent(program)).startswith("read 20")


def test_row_246_limited_memory_files_are_named() -> None:
    program = """
    limit(resource.RLIMIT_FSIZE, 64 << 10)
    spec = ms.TensorSpec((1 << 18,), ms.int32)

    def made():
        return ms.Dataset.range(3).map_python(lambda _: np.arange(1 << 18, dtype=np.int32), element_spec=spec)

    with ms.local(workers=1) as service:
        try:
            read(service, made)
        except ms.errors.ResourceExhaustedError as error:
            print(error)
    """
    said = ran(READS + textwrap.dedent(program))
    assert "1048576 bytes of memory to share" in said and "ulimit -f" in said and "worker 127.0.0.1:" in said


#: The command that runs a program in separate namespaces, if the system permits unprivileged namespaces.
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-c"]


@pytest.mark.parametrize(
    ("settings", "protocol", "found"),
    [
        ("mount -t tmpfs -o size=64k tmpfs /dev/shm", None, "shared"),
        ("mount -t tmpfs -o ro tmpfs /dev/shm", None, "shared"),
        ("ip link set lo mtu 1450", "quic", "sent"),
    ],
    ids=["64 KiB of /dev/shm", "/dev/shm that nobody may write to", "packets of 1450 bytes"],
)
def test_row_246_poor_hosts_are_enough(settings: str, protocol: str | None, found: str) -> None:
    prepared = f"ip link set lo up && {settings}"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("there is no unshare or no ip on this machine")
    tried = subprocess.run([*NAMESPACE, prepared], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine lets nobody have namespaces: {tried.stderr.strip()}")
    program = f"""
    with ms.local(workers=2) as service:
        arrays = ms.Dataset.from_tensors(np.arange(1 << 18, dtype=np.int32)).repeat(20)
        distributed = arrays.apply(
            ms.service.distribute("distributed_epoch", service, data_transfer_protocol={protocol!r}, compression=None)
        )
        kept = list(distributed)
        assert len(kept) == 20 and all((array == np.arange(1 << 18)).all() for array in kept)
        print("shared" if "/memfd:" in open("/proc/self/maps").read() else "sent")
    """
    assert ran(READS + textwrap.dedent(program), *NAMESPACE, f'{prepared} && exec "$0" "$@"') == f"{found}\n"
