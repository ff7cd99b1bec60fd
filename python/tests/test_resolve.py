"""Tests of ``ms.service.resolve``: each place is searched in its order, and an error names all of them."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_http import Asked, serving

import millstream as ms
from millstream import _resolve
from millstream._resolvers import machine_metadata
from millstream.errors import NotFoundError
from millstream.service import ResolvedService, resolve


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away every variable and module that names a place."""
    for name in os.environ:
        if name.startswith(("SLURM_", "KUBERNETES_", "GCE_METADATA_", "MILLSTREAM_SERVICE", "MILLSTREAM_DISPATCHER", "MILLSTREAM_STATE")):
            monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    # The tests may run on a machine of Google's.
    monkeypatch.setattr(machine_metadata, "_PRODUCT_FILE", Path("/does/not/exist"))


def names(monkeypatch: pytest.MonkeyPatch, *known: str) -> None:
    """Makes the name service know these names only."""

    def look_up(name: str, port: int, **_: Any) -> list[Any]:
        if name not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_variables_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("MILLSTREAM_DISPATCHER", "a:5050,b:5050")
    assert resolve().target == "millstream://a:5050,b:5050"
    monkeypatch.setenv("MILLSTREAM_SERVICE", "grpc://c:1")
    assert repr(resolve()) == "<millstream.service.ResolvedService grpc://c:1, from the variable MILLSTREAM_SERVICE>"


def slurm(monkeypatch: pytest.MonkeyPatch, directory: Path, job: str = "123456") -> Path:
    """Makes this process a part of a job of Slurm. Returns the file with the address of its service, which does not exist yet."""
    for name, value in {"JOB_ID": job, "JOB_NODELIST": "gpu[07-08]", "SUBMIT_DIR": str(directory)}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    state = directory / f".millstream-{job}-abcdef"
    state.mkdir()
    return state / "service"


def test_a_job_of_slurm_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slurm(monkeypatch, tmp_path).write_text("millstream://gpu07:23456\n")
    assert resolve() == ResolvedService("millstream://gpu07:23456", "the files of Slurm job 123456")
    # The second component of a heterogeneous job has a number of its own.
    monkeypatch.setenv("SLURM_HET_JOB_ID", "123456")
    monkeypatch.setenv("SLURM_JOB_ID", "123457")
    monkeypatch.setenv("MILLSTREAM_STATE", str(tmp_path))
    monkeypatch.setenv("SLURM_SUBMIT_DIR", "/nowhere")
    assert resolve().target == "millstream://gpu07:23456"


def test_other_jobs_of_slurm_name_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names(monkeypatch, "millstream-dispatcher")
    file = slurm(monkeypatch, tmp_path)
    with pytest.raises(NotFoundError, match="has started no service in Slurm job 123456"):
        resolve()
    for text in ("", "grpc://gpu07:1", "millstream://gpu07:port", "millstream://gpu07:1 and more"):
        file.write_text(text)
        with pytest.raises(NotFoundError, match="has started no service"):
            resolve()
    # The next place counts.
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert resolve().target == "millstream://millstream-dispatcher:5050"


def test_files_of_other_users_name_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slurm(monkeypatch, tmp_path).write_text("millstream://gpu07:23456")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(NotFoundError, match="of this user"):
        resolve()


def test_a_pod_finds_the_headless_service(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, "millstream-dispatcher", "other")
    with pytest.raises(NotFoundError, match="not in a pod"):
        resolve()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert resolve() == ResolvedService("millstream://millstream-dispatcher:5050", "the Services of Kubernetes")
    assert resolve(dispatcher="other").target == "millstream://other:5050"


def test_all_dispatchers_on_kubernetes_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    # The first pod starts again, and has no address.
    names(monkeypatch, "many.training", "many-1.many.training", "many-2.many.training")
    found = resolve(dispatcher="many.training")
    assert found.target == "millstream://many-0.many.training:5050,many-1.many.training:5050,many-2.many.training:5050"


@pytest.mark.parametrize("owner", ["instance", "project"])
def test_an_attribute_on_google_is_found(monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        assert asked.headers["Metadata-Flavor"] == "Google"
        is_there = asked.path == f"/computeMetadata/v1/{owner}/attributes/millstream-service"
        return (200, b"10.0.0.2:5050,10.0.0.3:5050\n") if is_there else (404, b"")

    with serving(answer) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        found = resolve()
    assert found.target == "millstream://10.0.0.2:5050,10.0.0.3:5050"
    assert found.found_in == "the attribute millstream-service on Google Compute Engine"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b"", "neither the machine nor its project on Google Compute Engine has the attribute"),
        (503, b"", "with the status 503"),
        (200, b"<html>", "is '<html>', expected host:port"),
    ],
)
def test_other_answers_of_google_name_no_service(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, reason: str) -> None:
    with serving(lambda _: (status, body)) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        with pytest.raises(NotFoundError, match=reason):
            resolve()


def test_a_silent_google_names_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(NotFoundError, match="the server of metadata did not answer http://127.0.0.1:"):
            resolve()


def test_a_named_service_on_ray_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def attach(name: str) -> Any:
        if name != "mine":
            raise NotFoundError(name)
        return SimpleNamespace(target="millstream://ray:5")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "millstream.ray", SimpleNamespace(attach=attach))
    monkeypatch.setattr(ms, "ray", sys.modules["millstream.ray"], raising=False)
    assert resolve("mine") == ResolvedService("millstream://ray:5", "the service mine on Ray")
    with pytest.raises(NotFoundError, match="Ray has no service with the name millstream"):
        resolve()


def test_an_error_names_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("SLURM_JOB_ID", "x")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    with pytest.raises(NotFoundError) as raised:
        resolve()
    message = str(raised.value)
    places = ("not connected to Ray", "SLURM_JOB_ID is 'x'", "millstream-dispatcher of Kubernetes", "not on Google Compute Engine")
    for part in ("MILLSTREAM_SERVICE and MILLSTREAM_DISPATCHER", *places, "Set "):
        assert part in message, message


def test_a_resolved_service_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    with ms.local(workers=1, inline=True) as service:
        monkeypatch.setenv("MILLSTREAM_SERVICE", service.target)
        numbers = ms.Dataset.range(5).apply(ms.service.distribute("distributed_epoch", resolve()))
        assert sorted(int(x) for x in numbers) == list(range(5))


def test_the_script_of_slurm_writes_the_file() -> None:
    script = (Path(__file__).parents[2] / "deploy/slurm/millstream.sbatch").read_text()
    pattern = _resolve._SLURM_FILE.format(job="$SLURM_JOB_ID").removesuffix("*/service")
    assert "directory=${MILLSTREAM_STATE:-$SLURM_SUBMIT_DIR}\n" in script
    assert f'state=$(mktemp -d "$directory/{pattern}XXXXXX")' in script
    assert 'echo "$MILLSTREAM_SERVICE" >"$state/service.part"\nmv "$state/service.part" "$state/service"' in script
