"""The accelerators of this machine that this process may use.

Owns the count of GPUs. Refuses to initialise a device: a program that imports a framework later finds the devices untouched.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from ..errors import DeadlineExceededError, UnavailableError

__all__ = ["count_gpus"]

#: The seconds that the driver's program may take.
_TIMEOUT_S = 30.0


def count_gpus(environ: Mapping[str, str] | None = None, program: str = "nvidia-smi", timeout_s: float = _TIMEOUT_S) -> int:
    """Counts the NVIDIA GPUs that this process may use: those that ``CUDA_VISIBLE_DEVICES`` names, else all that the driver lists.

    Raises:
        DeadlineExceededError: The driver's program does not answer.
        UnavailableError: The driver's program fails.
    """
    named = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return len([device for device in named.split(",") if device.strip() not in ("", "-1")])
    command = [program, "--list-gpus"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    except FileNotFoundError:
        # A machine without the driver has no GPU that a program could use.
        return 0
    except subprocess.TimeoutExpired as error:
        raise DeadlineExceededError(f"{program} listed no GPUs within {timeout_s:g} s: set CUDA_VISIBLE_DEVICES") from error
    except subprocess.CalledProcessError as error:
        said = f"{error.stdout}{error.stderr}".strip()
        raise UnavailableError(f"{program} cannot list GPUs ({said}): set CUDA_VISIBLE_DEVICES") from error
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
