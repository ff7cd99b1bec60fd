"""The versions of a service's processes, and the check that a process runs its own version."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import millstream as ms

#: The variable with the folder of the package that a trainer must import.
PACKAGE = "CHAOS_PACKAGE"


@dataclass(frozen=True)
class Version:
    """A build of Millstream."""

    name: str
    #: The path of the command ``millstream``.
    command: str
    #: The folder that contains the Python package.
    package: str


def check_package() -> None:
    """Raises an error if this process has imported the package of another version than it should."""
    found, expected = Path(ms.__file__).resolve().parents[1], Path(os.environ[PACKAGE]).resolve()
    assert found == expected, f"expected the package in {expected}, found {found}"
