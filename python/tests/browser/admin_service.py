"""A service of real processes with an admin port, for tests of the dashboard."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from selenium.webdriver.support.wait import WebDriverWait

#: The path of the command. ``python/check`` sets the variable to the command that it has built.
COMMAND = os.environ.get("MILLSTREAM_COMMAND", "")

#: A trainer that takes at most a hundred batches a second, so that it leaves the processors to the browser.
TRAINER = """
import sys, time
import millstream as ms
for _ in ms.DataLoader(ms.Dataset.range(10_000_000).batch(32), service=sys.argv[1], visitation="exactly_once"):
    time.sleep(0.01)
"""


class Service:
    """A dispatcher with an admin port, and its workers and trainers. The end of the context ends all processes.

    ``launcher`` is a command that runs the dispatcher, for example with limits.
    """

    def __init__(self, directory: Path, *flags: str, launcher: Sequence[str] = ()) -> None:
        self.directory = directory
        self.flags = flags
        self.launcher = launcher
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as ending:
            self._ending = ending
            arguments = ["dispatcher", "--bind", "127.0.0.1:0", "--admin", "127.0.0.1:0", *self.flags]
            self.dispatcher = self._start("dispatcher", [*self.launcher, COMMAND, *arguments])
            self.address = self._line("dispatcher", "dispatcher listening on ")
            self.page = self._line("dispatcher", "admin port at ")
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def add_worker(self, *flags: str) -> str:
        """Starts a worker, and returns its address."""
        name = f"worker-{len(self.workers)}"
        process = self._start(name, [COMMAND, "worker", "--dispatcher", self.address, "--bind", "127.0.0.1:0", *flags])
        address = self._line(name, " on ").rstrip(",;")
        self.workers[address] = process
        return address

    def add_trainer(self, program: str = TRAINER, *arguments: str) -> None:
        """Starts a trainer, which reads until the service ends. By default the trainer reads slowly."""
        self._start("trainer", [sys.executable, "-c", program, f"millstream://{self.address}", *arguments])

    def add_stranger(self, key: str) -> None:
        """Starts a worker with the key of another cluster."""
        self._start("stranger", [COMMAND, "worker", "--dispatcher", self.address, "--bind", "127.0.0.1:0"], MILLSTREAM_KEY=key)

    def _start(self, name: str, command: list[str], **environ: str) -> subprocess.Popen[str]:
        log = self._ending.enter_context((self.directory / f"{name}.log").open("w"))
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True, cwd=self.directory, env={**os.environ, **environ})
        self._ending.callback(process.wait)
        self._ending.callback(process.kill)
        return process

    def _line(self, name: str, before: str) -> str:
        """Returns the word after a text in the log of a process."""
        log = self.directory / f"{name}.log"
        lines = WebDriverWait(log, 60).until(
            lambda log: [line for line in log.read_text().splitlines() if before in line]
        )
        return lines[0].split(before)[1].split()[0]
