"""Tests of a program that asks a Ray cluster of another version of Python."""

from __future__ import annotations

import os
import subprocess

import pytest
from ray_cluster import HEAD, PORT, Cluster

import millstream as ms
from millstream.errors import FailedPreconditionError

#: The interpreter of another version of Python, in an environment with the same version of Ray.
OTHER_PYTHON = os.environ.get("MILLSTREAM_OTHER_RAY", "")


@pytest.mark.skipif(not OTHER_PYTHON, reason="needs the interpreter of another version of Python, with Ray: MILLSTREAM_OTHER_RAY")
def test_a_cluster_of_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    show = "import sys; print('{}.{}'.format(*sys.version_info))"
    other = subprocess.run([OTHER_PYTHON, "-c", show], check=True, capture_output=True, text=True).stdout.strip()
    own = ms.ray.here().python
    assert other != own, "MILLSTREAM_OTHER_RAY names an interpreter of the same version"
    monkeypatch.setenv("RAY_ADDRESS", f"{HEAD}:{PORT}")
    with Cluster(OTHER_PYTHON, connects=False):
        for ask in (lambda: ms.ray.serve(1), lambda: ms.ray.attach("mill")):
            with pytest.raises(FailedPreconditionError, match=f"which has Python {own} and Ray") as refused:
                ask()
            assert f"Python: {other}" in str(refused.value)
            assert "start the program with the cluster's versions" in str(refused.value)
