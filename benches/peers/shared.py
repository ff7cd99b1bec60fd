"""What the comparisons here have in common: an environment with the peers, children that make a round when asked, and spreads."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HOME = TARGET / "peers"


def environment(packages: list) -> pathlib.Path:
    """The interpreter that has the peers: of ``MILLSTREAM_PEERS_PYTHON``, or of an environment that is made here once."""
    given = os.environ.get("MILLSTREAM_PEERS_PYTHON")
    if given:
        return pathlib.Path(given)
    python = HOME / "venv" / "bin" / "python"
    for package in packages:
        done = HOME / "venv" / f"installed-{package}"
        if not done.exists():
            if not python.exists():
                subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
            done.touch()
    return python


def run_within(python: pathlib.Path, program: str) -> None:
    """Goes on in that interpreter, unless it is this one."""
    if pathlib.Path(sys.executable).absolute() != python.absolute():
        os.execv(python, [python, program, *sys.argv[1:]])


class Child:
    """A process that answers each line of its standard input with one object."""

    def __init__(self, command: list, **environ: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen(command, env={**os.environ, **environ}, **pipes)

    def asked(self, question: str) -> dict:
        """Its answer."""
        self.process.stdin.write(f"{question}\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        """Has it end, and waits."""
        self.process.stdin.close()
        self.process.wait()


def spread(numbers: list, digits: int = 2) -> str:
    """The median, lowest to highest."""
    low, high = min(numbers), max(numbers)
    return f"{statistics.median(numbers):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
