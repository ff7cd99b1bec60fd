"""Deaths and limits, seen from Python: a named error or none, and nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

FULL = os.environ.get("MILLSTREAM_FULL") == "1"


def descriptors() -> list[str]:
    """What this process has open: files, sockets, memory."""
    return sorted(os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists())


def test_the_dispatcher_is_killed_at_any_step_and_readers_go_on_or_say_why() -> None:
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
    # Whoever says goodbye is waited for no longer than a second.
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
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert (ended.stdout, ended.returncode) == ("read\n", 0), ended.stderr
