"""The processes of a run: the service of a peer, and its trainers, which take every step together.

This module owns the requests to child processes and their time limits. The module knows no case and no verdict.
"""

import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Self

from .ledger import Generation, Step
from .trainer import Trainer, expected

#: The seconds within which a process must answer a request: ten times the longest wait of an undisturbed run.
ANSWER_MAX_S = 120.0
#: The seconds within which a killed process must be gone.
GONE_MAX_S = 30.0


class PeerFailed(Exception):
    """The error for a trainer that reports an error of its library, or that does not answer."""


class Asked:
    """A child process that prints one JSON line at its start, and one for each line of its standard input."""

    def __init__(self, arguments: list[str], limit_s: float = ANSWER_MAX_S) -> None:
        self._limit_s, self._unread = limit_s, b""
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)

    def ask(self, request: str) -> None:
        """Sends a request without waiting for its answer."""
        try:
            self.process.stdin.write(f"{request}\n".encode())
        except BrokenPipeError:
            raise PeerFailed(f"the trainer ended with {self.process.wait()}") from None

    def answer(self) -> dict[str, Any]:
        """Blocks until the next answer.

        Raises:
            PeerFailed: The answer is an error, the process ended, or the process did not answer in time.
        """
        deadline, stdout = time.monotonic() + self._limit_s, self.process.stdout
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise PeerFailed(f"no answer within {self._limit_s:.0f} s")
            chunk = os.read(stdout.fileno(), 1 << 16)
            if not chunk:
                raise PeerFailed(f"the process ended with {self.process.wait()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerFailed(answer["error"] + ": " + answer["message"])
        return answer

    def kill(self) -> None:
        """Kills the process and its children with SIGKILL, and reaps the process."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self) -> None:
        """Closes the standard input of the process, and kills the process and its children if they do not end in time."""
        self.process.stdin.close()
        try:
            self.process.wait(GONE_MAX_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()


class Service:
    """The files and the service of a peer, which outlive its trainers."""

    def __init__(self, program: str, peer: str, directory: str, records: int) -> None:
        settings = {"peer": peer, "directory": directory, "records": records}
        self._child = Asked([sys.executable, program, "--serve", json.dumps(settings)])
        said = self._child.answer()
        self.target: str = said["target"]
        self.workers: list[int] = said["workers"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()


class Trainers:
    """The trainers of one generation. All of them take a step before any of them takes the next step."""

    def __init__(self, program: str, settings: Trainer, states: list[str | None]) -> None:
        settings = dataclasses.replace(settings, port=_free_port())
        self.generation = Generation()
        self._expected = expected(settings.records)
        ranks = [dataclasses.replace(settings, rank=rank, state=state) for rank, state in enumerate(states)]
        self._children = [Asked([sys.executable, program, "--trainer", json.dumps(dataclasses.asdict(rank))]) for rank in ranks]
        self._ended = [False] * len(ranks)
        #: The number of steps before the last saved states.
        self.saved = 0
        #: The seconds of the slowest trainer for each step. The first step opens the loaders.
        self.seconds: list[float] = []
        try:
            for child in self._children:
                child.answer()
        except PeerFailed:
            self.kill()
            raise

    def step(self) -> bool:
        """Takes one step with all trainers that have not ended. Returns whether any trainer received a batch."""
        running = [rank for rank, ended in enumerate(self._ended) if not ended]
        for rank in running:
            self._children[rank].ask("next")
        step: Step = [[] for _ in self._children]
        seconds = []
        for rank in running:
            answer = self._children[rank].answer()
            self._ended[rank] = "end" in answer
            seconds.append(answer["seconds"])
            step[rank] = answer.get("indices", [])
            pairs = zip(step[rank], answer.get("checksums", []), strict=True)
            self.generation.damaged += sum(self._expected[index] != checksum for index, checksum in pairs)
        if any(step):
            self.generation.steps.append(step)
            self.seconds.append(max(seconds))
        return any(step)

    def states(self) -> list[str]:
        """Returns the states of all trainers in base64."""
        for child in self._children:
            child.ask("state")
        # Every answer is read, also after an error.
        answers, failures = [], []
        for child in self._children:
            try:
                answers.append(child.answer()["state"])
            except PeerFailed as failed:
                failures.append(failed)
        if failures:
            raise failures[0]
        return answers

    def workers(self) -> list[int]:
        """Returns the ids of the worker processes of the first trainer."""
        self._children[0].ask("workers")
        found: list[int] = self._children[0].answer()["workers"]
        return found

    def kill(self) -> None:
        """Kills all trainers and their worker processes."""
        for child in self._children:
            child.kill()


def kill_worker(pid: int) -> None:
    """Kills a worker process with SIGKILL, and blocks until it no longer runs."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        raise SystemExit(f"the worker process {pid} ended before the fault: run the case again with more records") from None
    deadline = time.monotonic() + GONE_MAX_S
    while _runs(pid):
        if time.monotonic() > deadline:
            raise SystemExit(f"the killed worker process {pid} still runs after {GONE_MAX_S:.0f} s")
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Returns whether a process runs. A process that its parent has not reaped does not run."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
