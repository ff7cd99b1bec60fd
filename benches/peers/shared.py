"""Shared code of the comparisons: an environment with the peers, a built package, child processes that measure rounds, and spreads."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HOME = TARGET / "peers"


def environment(packages: list) -> pathlib.Path:
    """Returns the interpreter in ``MILLSTREAM_PEERS_PYTHON``, or the one of a new environment with the peers."""
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
    """Restarts the program in the given interpreter, unless it runs there already."""
    if pathlib.Path(sys.executable).absolute() != python.absolute():
        os.execv(python, [python, program, *sys.argv[1:]])


def packaged(profile: str, is_built: bool = False) -> pathlib.Path:
    """Returns a folder with the Python package and its extension in a profile of cargo. Builds the extension, unless ``is_built``."""
    if not is_built:
        command = ["cargo", "build", "--profile", profile, "--locked", "--package", "millstream-python", "--lib"]
        subprocess.run(command, cwd=ROOT, check=True)
    package = HOME / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "python/millstream", package / "millstream", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(TARGET / profile / "lib_millstream.so", package / "millstream/_millstream.abi3.so")
    return package


class Child:
    """A child process that answers each line of its standard input with one JSON object."""

    def __init__(self, command: list, **environ: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen(command, env={**os.environ, **environ}, **pipes)

    def asked(self, question: str) -> dict:
        """Sends a line to the process, and returns its answer."""
        self.process.stdin.write(f"{question}\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(answer)

    def end(self) -> None:
        """Ends the process, and waits for its end."""
        self.process.stdin.close()
        self.process.wait()


def spread(numbers: list, digits: int = 2) -> str:
    """Returns the median with the lowest and the highest number, as text."""
    low, high = min(numbers), max(numbers)
    return f"{statistics.median(numbers):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
