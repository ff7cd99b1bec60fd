"""Tests of the script for Slurm with commands that stand for Slurm and Millstream. ``deploy/slurm/check`` runs it on a real cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy/slurm/millstream.sbatch"
#: The seconds after which a test gives up: ten times the expected time.
WATCHDOG_S = 60

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: Starts its command without the options.
SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
#: Writes keys that are no keys, and serves until `shutdown`. ``$AT`` names the key after which ``$THEN`` happens.
MILLSTREAM = """#!/usr/bin/env bash
case $1 in
    key)
        echo secret >"${!#}"
        [[ ${!#} != */$AT.key ]] || eval "$THEN"
        ;;
    dispatcher | worker)
        echo $$ >>"$HOME/served"
        exec sleep 60
        ;;
    status) printf 'millstream_dispatcher_workers{state="alive"} 1\\n' ;;
    shutdown) kill $(cat "$HOME/served") ;;
esac
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Returns the directory for the files of jobs."""
    found = tmp_path / "jobs"
    found.mkdir()
    return found


@pytest.fixture
def run(tmp_path: Path, jobs: Path) -> Run:
    """Returns a function that runs the script as job 7, with these variables and a command of trainers."""
    for name, text in {"srun": SRUN, "millstream": MILLSTREAM, "squeue": "#!/bin/sh\n", "scancel": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(*trainer: str, **variables: str) -> subprocess.CompletedProcess[str]:
        slurm = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(jobs), "SLURMD_NODENAME": "n1", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_CPUS_PER_NODE": "1"}
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(tmp_path), "AT": "", "THEN": "", **slurm, **variables}
        return subprocess.run(["bash", str(SCRIPT), *trainer], env=environment, capture_output=True, text=True, timeout=WATCHDOG_S)

    return run


@pytest.mark.parametrize("key", ["cluster", "dispatcher", "submit"])
def test_an_early_signal_leaves_no_keys(run: Run, jobs: Path, key: str) -> None:
    ended = run("true", AT=key, THEN="kill -TERM $PPID")
    assert ended.returncode == 143, ended.stderr
    assert list(jobs.iterdir()) == []


def test_a_failed_key_leaves_no_keys(run: Run, jobs: Path) -> None:
    assert run("true", AT="worker", THEN="exit 3").returncode == 3
    assert list(jobs.iterdir()) == []


def test_variables_of_the_user_have_no_effect(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    # The signal comes while the script looks for the files of an earlier run, before it has files of its own.
    (tmp_path / "rm").write_text("#!/usr/bin/env bash\n[[ ${!#} != *-* ]] || kill -TERM $PPID\nexec /bin/rm \"$@\"\n")
    (tmp_path / "rm").chmod(0o755)
    with subprocess.Popen(["sleep", str(WATCHDOG_S)]) as process:
        try:
            ended = run("true", SLURM_RESTART_COUNT="1", state=str(kept), trainer=str(process.pid))
            assert ended.returncode == 143 and process.poll() is None and kept.exists()
        finally:
            process.kill()


@pytest.mark.parametrize("restarts", ["0", "1"])
def test_a_requeued_job_has_one_service(run: Run, jobs: Path, restarts: str) -> None:
    for name in ("7-earlier", "77-other", "8-other"):
        (jobs / f".millstream-{name}").mkdir()
        (jobs / f".millstream-{name}/service").write_text("millstream://dead:1\n")
    ended = run("sh", "-c", 'cat "$SLURM_SUBMIT_DIR"/.millstream-7-*/service', SLURM_RESTART_COUNT=restarts)
    assert ended.returncode == 0, ended.stderr
    host = os.uname().nodename
    found = ended.stdout.splitlines()
    assert found[0] == f"serving at millstream://{host}:20007 with 1 worker"
    # Only a job that was requeued has an earlier run: a job of another cluster may have the same number.
    assert f"millstream://{host}:20007" in found[1:] and ("millstream://dead:1" in found) == (restarts == "0")
    left = {path.name for path in jobs.iterdir()}
    assert left == {".millstream-77-other", ".millstream-8-other"} | ({".millstream-7-earlier"} if restarts == "0" else set())
