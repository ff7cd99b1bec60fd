"""Tests of cluster resolvers: they find what TensorFlow's find, ask the servers that these ask, and end in time."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import shutil
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Space
from typing import Any

import pytest
from fake_http import Asked, serving

import millstream as ms
from millstream import compat, errors, resolvers
from millstream._resolvers import kube_config
from millstream._resolvers.accelerators import count_gpus
from millstream._resolvers.http import Request, ask, send
from millstream._resolvers.slurm import expand_hostlist, expand_tasks_per_node
from millstream.resolvers import (
    ClusterSpec,
    GCEClusterResolver,
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
    SimpleClusterResolver,
    SlurmClusterResolver,
    TFConfigClusterResolver,
    UnionResolver,
)

WORKERS = ClusterSpec({"worker": ["a:1", "b:1"]})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes every variable away that a resolver reads."""
    for name in os.environ:
        if name.startswith(("SLURM_", "KUBE", "GCE_", "GOOGLE_", "CLOUDSDK_")) or name in ("TF_CONFIG", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


# The cluster.


def test_a_cluster_is_that_of_tensorflow() -> None:
    spec = ClusterSpec({"worker": ["a:1", b"b:2"], "ps": {3: "c:1", 1: "d:2"}})
    assert repr(spec) == "ClusterSpec({'ps': {1: 'd:2', 3: 'c:1'}, 'worker': ['a:1', 'b:2']})"
    assert spec.as_dict() == {"worker": ["a:1", "b:2"], "ps": {1: "d:2", 3: "c:1"}}
    assert spec.jobs == ["worker", "ps"] and spec.num_tasks("ps") == 2 and spec.task_indices("ps") == [1, 3]
    assert spec.job_tasks("ps") == [None, "d:2", None, "c:1"] and spec.task_address("ps", 3) == "c:1"
    assert ClusterSpec(spec) == spec and spec != 3 and not ClusterSpec({}) and spec
    of_message = Space(job=[Space(name="worker", tasks={0: "a:1"})])
    assert ClusterSpec(of_message).as_dict() == {"worker": ["a:1"]} and ClusterSpec({"w": []}).as_dict() == {"w": {}}


def test_an_invalid_cluster_is_refused() -> None:
    for wrong in (3, {"worker": "a:1"}, {"worker": [1]}, {1: ["a"]}):
        with pytest.raises(TypeError):
            ClusterSpec(wrong)
    for call in (lambda: WORKERS.task_address("worker", 2), lambda: WORKERS.num_tasks("ps"), lambda: WORKERS.job_tasks("x")):
        with pytest.raises(ValueError, match="expected the"):
            call()


# Values and unions.


def test_a_simple_resolver_returns_what_was_given() -> None:
    resolver = SimpleClusterResolver(WORKERS, "m:1", "worker", 1, "google", {"GPU": 2}, "grpc")
    assert (resolver.task_type, resolver.task_id, resolver.environment, resolver.rpc_layer) == ("worker", 1, "google", "grpc")
    assert resolver.num_accelerators() == {"GPU": 2} and SimpleClusterResolver(WORKERS).num_accelerators() == {}
    assert resolver.master() == "grpc://m:1" and resolver.master("worker", 0, rpc_layer="mpi") == "mpi://a:1"
    resolver.task_type, resolver.task_id, resolver.rpc_layer = "ps", 3, None
    assert (resolver.task_type, resolver.task_id, resolver.master("worker", 1)) == ("ps", 3, "b:1")
    with pytest.raises(TypeError, match="ClusterSpec"):
        SimpleClusterResolver({"worker": []})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="master"):
        SimpleClusterResolver(WORKERS, master=3)  # type: ignore[arg-type]


def simple(cluster: dict[str, Any], **given: Any) -> SimpleClusterResolver:
    return SimpleClusterResolver(ClusterSpec(cluster), **given)


def test_a_union_joins_clusters() -> None:
    one = simple({"worker": ["a:1"]}, task_type="worker", task_id=3, master="m:1", num_accelerators={"GPU": 1}, rpc_layer="grpc")
    two = simple({"worker": ["b:1"], "ps": {7: "c:1"}}, task_type="ps", environment="google")
    union = UnionResolver(one, two)
    assert union.cluster_spec().as_dict() == {"worker": ["a:1", "b:1"], "ps": {7: "c:1"}}
    assert (union.task_type, union.task_id, union.environment, union.rpc_layer) == ("worker", 3, "", "grpc")
    assert union.num_accelerators() == {"GPU": 1} and union.master() == "grpc://m:1" and union.master("worker", 1) == "b:1"
    replaced = UnionResolver(one, two, task_type="ps", task_id=0, rpc_layer="mpi")
    assert (replaced.task_type, replaced.task_id, replaced.rpc_layer, replaced.master("ps", 7)) == ("ps", 0, "mpi", "mpi://c:1")
    replaced.task_type, replaced.task_id, replaced.rpc_layer = "x", 1, "y"
    assert (replaced.task_type, replaced.task_id, replaced.rpc_layer) == ("x", 1, "y")


def test_a_union_numbers_tasks_where_one_cluster_does() -> None:
    union = UnionResolver(simple({"worker": ["a:1", "b:1"]}), simple({"worker": {5: "c:1"}}))
    assert union.cluster_spec().as_dict() == {"worker": {0: "a:1", 1: "b:1", 5: "c:1"}}
    with pytest.raises(KeyError, match=r"\[1\]"):
        UnionResolver(simple({"worker": ["a:1", "b:1"]}), simple({"worker": {1: "c:1", 3: "d:1"}})).cluster_spec()
    with pytest.raises(ValueError, match="at least one"):
        UnionResolver()
    with pytest.raises(ValueError, match="sort"):
        UnionResolver(simple({}), sort=True)
    with pytest.raises(TypeError, match="cluster resolvers"):
        UnionResolver(WORKERS)  # type: ignore[arg-type]


# TF_CONFIG.


def set_tf_config(monkeypatch: pytest.MonkeyPatch, **config: Any) -> TFConfigClusterResolver:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    return TFConfigClusterResolver()


def test_tf_config_is_read_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    resolver = set_tf_config(monkeypatch, cluster=cluster, task={"type": "worker", "index": "1"}, rpc_layer="grpc")
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer, resolver.environment) == ("worker", 1, "grpc", None)
    assert resolver.master() == "grpc://b:1" and resolver.master("chief", 0, "") == "c:1"
    assert resolver.cluster_spec() == ClusterSpec(cluster)
    set_tf_config(monkeypatch, cluster=cluster, task={"type": "chief", "index": 0}, session_master="m:1")
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer, resolver.master()) == ("chief", 0, None, "m:1")
    given = TFConfigClusterResolver("ps", 7, "mpi", "google")
    assert (given.task_type, given.task_id, given.rpc_layer, given.environment) == ("ps", 7, "mpi", "google")
    given.task_type, given.task_id, given.rpc_layer = "worker", 0, "x"
    assert (given.task_type, given.task_id, given.rpc_layer) == ("worker", 0, "x")


def test_tf_config_of_one_task_has_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TFConfigClusterResolver().cluster_spec() == ClusterSpec({}) and TFConfigClusterResolver().master() == ""
    assert set_tf_config(monkeypatch, cluster={"worker": ["a:1"]}).master() == ""
    with pytest.raises(ValueError, match="task_type and task_id"):
        set_tf_config(monkeypatch, cluster={"worker": ["a:1", "b:1"]}).master()


def test_accelerators_of_other_tasks_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = set_tf_config(monkeypatch, cluster={"worker": ["a:1", "b:1"]}, task={"type": "worker", "index": 1})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    assert resolver.num_accelerators() == {"GPU": 2} == resolver.num_accelerators("worker", 1)
    assert resolver.num_accelerators("worker", 0) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"cluster": ["a"]}'])
def test_an_invalid_tf_config_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG"):
        TFConfigClusterResolver().cluster_spec()


# SLURM.


def set_slurm(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))


def test_slurm_divides_tasks_among_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_slurm(monkeypatch, PROCID=3, STEP_NUM_TASKS=5, STEP_NODELIST="t02n[13,41,43,44]", STEP_TASKS_PER_NODE="2,1(x3)")
    resolver = SlurmClusterResolver({"ps": 1, "worker": 4}, gpus_per_node=2, gpus_per_task=1)
    assert resolver.get_task_info() == (None, None) and resolver.master() == ""
    assert resolver.cluster_spec().as_dict() == {
        "ps": ["t02n13:8888"],
        "worker": ["t02n13:8889", "t02n41:8888", "t02n43:8888", "t02n44:8888"],
    }
    assert resolver.get_task_info() == ("worker", 2) and resolver.master() == "grpc://t02n43:8888"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0" and resolver.num_accelerators() == {"GPU": 1}
    monkeypatch.setenv("SLURM_PROCID", "1")
    SlurmClusterResolver({"ps": 1, "worker": 4}, gpus_per_node=2).cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_slurm_takes_tasks_from_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    set_slurm(monkeypatch, PROCID=0, STEP_NUM_TASKS=4, STEP_NODELIST="n[1-2]")
    fixed = SlurmClusterResolver(tasks_per_node=2, gpus_per_node=0, port_base=5, rpc_layer=None)
    assert fixed.cluster_spec().as_dict() == {"worker": ["n1:5", "n1:6", "n2:5", "n2:6"]}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ and fixed.master() == "n1:5"
    by_host = SlurmClusterResolver(tasks_per_node={"x": 1, "b": 3}, gpus_per_node=3, auto_set_gpu=False)
    assert by_host.cluster_spec().job_tasks("worker")[0] == "b:8888" and "CUDA_VISIBLE_DEVICES" not in os.environ


def test_slurm_steps_that_do_not_suit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="SLURM_PROCID not found"):
        SlurmClusterResolver()
    set_slurm(monkeypatch, PROCID=0, STEP_NUM_TASKS=2, STEP_NODELIST="n1", STEP_TASKS_PER_NODE="2")
    with pytest.raises(RuntimeError, match="more GPUs per node"):
        SlurmClusterResolver(gpus_per_node=1, gpus_per_task=1)
    with pytest.raises(RuntimeError, match="Requested 3 tasks but only 2"):
        SlurmClusterResolver({"worker": 3}, gpus_per_node=2)
    for name, value in (("PROCID", "9"), ("PROCID", "x")):
        monkeypatch.setenv(f"SLURM_{name}", value)
        with pytest.raises((RuntimeError, ValueError), match="SLURM_PROCID"):
            SlurmClusterResolver(gpus_per_node=2)


def test_slurm_expressions_are_expanded() -> None:
    assert expand_hostlist("n1,m5,o[3-4,6,07-09]") == ["n1", "m5", "o3", "o4", "o6", "o07", "o08", "o09"]
    assert expand_hostlist("r[1-2]n[8-9]-x") == ["r1n8-x", "r1n9-x", "r2n8-x", "r2n9-x"]
    assert expand_tasks_per_node("3(x2),2,1") == [3, 3, 2, 1]
    for wrong in ("n[1-", "n]1[", "n[a]", "n[1-2-3]", "a,,b", "n[1-99999999]"):
        with pytest.raises(ValueError, match="hosts|brackets"):
            expand_hostlist(wrong)
    for wrong in ("", "3(y2)", "x", "1(x99999999)"):
        with pytest.raises(ValueError, match="numbers of tasks"):
            expand_tasks_per_node(wrong)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_gpus_are_counted_without_touching_them(tmp_path: Path) -> None:
    assert [count_gpus({"CUDA_VISIBLE_DEVICES": named}) for named in ("0,1", "", "-1", "GPU-1")] == [2, 0, 0, 1]
    listing = program(tmp_path / "listing", "print('GPU 0: H100\\n  MIG 1g\\nGPU 1: H100')")
    assert count_gpus({}, listing) == 2 and count_gpus({}, str(tmp_path / "none")) == 0
    with pytest.raises(errors.UnavailableError, match="no driver"):
        count_gpus({}, program(tmp_path / "failing", "import sys; sys.exit('no driver')"))
    with pytest.raises(errors.DeadlineExceededError, match="CUDA_VISIBLE_DEVICES"):
        count_gpus({}, program(tmp_path / "hanging", "import threading; threading.Event().wait()"), timeout_s=0.3)


# HTTP.


def test_an_answer_has_a_deadline() -> None:
    ended = threading.Event()

    def slowly(_: Asked) -> tuple[int, Iterator[bytes]]:
        def parts() -> Iterator[bytes]:
            while not ended.wait(0.01):
                yield b" "

        return 200, parts()

    with serving(slowly) as server, pytest.raises(errors.DeadlineExceededError, match=r"within 0\.3 s"):
        try:
            send(Request(server.url, timeout_s=0.3))
        finally:
            ended.set()


def test_a_silent_server_has_a_deadline() -> None:
    ended = threading.Event()

    def silent(_: Asked) -> tuple[int, bytes]:
        ended.wait()
        return 200, b""

    with serving(silent) as server, pytest.raises(errors.DeadlineExceededError):
        try:
            send(Request(server.url, timeout_s=0.2))
        finally:
            ended.set()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.PermissionDeniedError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (302, errors.FailedPreconditionError),
        (400, errors.FailedPreconditionError),
        (429, errors.UnavailableError),
        (500, errors.UnavailableError),
    ],
)
def test_a_refusal_says_why(status: int, kind: type[Exception]) -> None:
    with serving(lambda _: (status, {"message": "no such thing"})) as server, pytest.raises(kind, match=f"{status}.*no such thing"):
        ask(send, Request(f"{server.url}/x?secret=1"))


def test_what_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: (200, b"<html>")) as server, pytest.raises(errors.UnavailableError, match="expected JSON, found '<html>'"):
        ask(send, Request(server.url))
    with pytest.raises(errors.UnavailableError, match="cannot be reached"):
        send(Request(server.url))
    with pytest.raises(ValueError, match="http://"):
        send(Request("ftp://127.0.0.1"))
    monkeypatch.setattr("millstream._resolvers.http._BYTES_MAX", 100)
    with serving(lambda _: (200, b"x" * 101)) as server, pytest.raises(errors.ResourceExhaustedError, match="100 bytes"):
        send(Request(server.url))


# Kubernetes.


def pod(name: str, host: str = "10.0.0.1", phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"phase": phase, "hostIP": host}}


def of_pods(pods: dict[str, list[dict[str, Any]]]) -> Callable[[Asked], tuple[int, Any]]:
    """Answers as the API server does, two pods at a time."""

    def answer(asked: Asked) -> tuple[int, Any]:
        first = int(asked.query.get("continue", 0))
        found = pods[asked.query["labelSelector"]]
        after = {"continue": str(first + 2)} if len(found) > first + 2 else {}
        return 200, {"items": found[first : first + 2], "metadata": after}

    return answer


def kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any) -> None:
    config = {
        "current-context": "own",
        "contexts": [{"name": "other"}, {"name": "own", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))


def off_cluster(*args: Any, **given: Any) -> KubernetesClusterResolver:
    return KubernetesClusterResolver(*args, executable_location=KubernetesExecutableLocation.OFF_CLUSTER, **given)


def test_kubernetes_lists_pods_of_every_label(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pods = {"app=a": [pod("c", "10.0.0.3"), pod("a", "10.0.0.1"), pod("b", "10.0.0.2")], "app=b": [pod("z", "10.0.0.9")], "app=p": []}
    with serving(of_pods(pods)) as server:
        kubeconfig(monkeypatch, tmp_path, server.url, {"token": "t0"})
        resolver = off_cluster({"worker": ["app=a", "app=b"], "ps": ["app=p"]}, 7, "mpi")
        assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7", "10.0.0.9:7"], "ps": {}}
        assert {asked.path for asked in server.asked} == {"/api/v1/pods"}
        assert all(asked.headers["Authorization"] == "Bearer t0" for asked in server.asked)
        assert (resolver.task_type, resolver.task_id, resolver.rpc_layer, resolver.master()) == (None, None, "mpi", "")
        resolver.task_type, resolver.task_id = "worker", 1
        assert resolver.master() == "mpi://10.0.0.2:7" and resolver.master("worker", 3, "grpc") == "grpc://10.0.0.9:7"


def test_a_pod_not_running_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(of_pods({"job-name=tensorflow": [pod("a"), pod("b", phase="Pending")]})) as server:
        kubeconfig(monkeypatch, tmp_path, server.url)
        with pytest.raises(RuntimeError, match='Pod "b" is not running; phase: "Pending"'):
            off_cluster().cluster_spec()


def test_a_pod_asks_with_its_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, _ = certificates(tmp_path)
    (tmp_path / "token").write_text("of the pod\n")
    (tmp_path / "ca.crt").write_text(certificate.read_text())
    monkeypatch.setattr(kube_config.from_pod, "__defaults__", (str(tmp_path),))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    with pytest.raises(errors.FailedPreconditionError, match="KUBERNETES_SERVICE_PORT.*OFF_CLUSTER"):
        KubernetesClusterResolver().cluster_spec()
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    came: list[Request] = []

    def transport(request: Request) -> resolvers.Response:
        came.append(request)
        return resolvers.Response(200, json.dumps({"items": [pod("a")]}).encode())

    resolver = KubernetesClusterResolver(timeout_s=3, transport=transport)
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470"]}
    (request,) = came
    assert request.url.startswith("https://[fd00::1]:443/api/v1/pods?labelSelector=job-name%3Dtensorflow")
    assert request.headers["Authorization"] == "Bearer of the pod" and request.timeout_s == 3 and request.tls is not None
    monkeypatch.setattr(kube_config.from_pod, "__defaults__", (str(tmp_path / "none"),))
    with pytest.raises(errors.FailedPreconditionError, match="service account"):
        KubernetesClusterResolver().cluster_spec()


def certificates(folder: Path) -> tuple[Path, Path]:
    """Makes a certificate for 127.0.0.1 and its key, with the program that every system has."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "the tests of TLS need the program openssl"
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *named], check=True, capture_output=True)
    return certificate, key


def test_a_cluster_is_known_by_its_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, key = certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    encoded = {name: base64.b64encode(path.read_bytes()).decode() for name, path in (("certificate", certificate), ("key", key))}
    user = {"client-certificate-data": encoded["certificate"], "client-key": "key.pem", "username": "me", "password": "x"}
    with serving(of_pods({"job-name=tensorflow": [pod("a")]}), tls) as server:
        kubeconfig(monkeypatch, tmp_path, server.url, user, **{"certificate-authority-data": encoded["certificate"]})
        assert off_cluster().cluster_spec().num_tasks("worker") == 1
        assert server.asked[0].headers["Authorization"] == f"Basic {base64.b64encode(b'me:x').decode()}"
        kubeconfig(monkeypatch, tmp_path, server.url, user, **{"insecure-skip-tls-verify": True})
        assert off_cluster().cluster_spec().num_tasks("worker") == 1
        kubeconfig(monkeypatch, tmp_path, server.url, user)
        with pytest.raises(errors.UnavailableError, match="certificate verify failed"):
            off_cluster().cluster_spec()


def test_a_program_makes_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "import json, os; print(json.dumps({'status': {'token': os.environ['A'] + json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind']}}))"
    program(tmp_path / "login", text)
    called = {"command": "./login", "apiVersion": "client.authentication.k8s.io/v1", "env": [{"name": "A", "value": "of "}]}
    with serving(of_pods({"job-name=tensorflow": [pod("a")]})) as server:
        kubeconfig(monkeypatch, tmp_path, server.url, {"exec": called})
        off_cluster().cluster_spec()
        assert server.asked[0].headers["Authorization"] == "Bearer of ExecCredential"
        for failing, kind, said in (
            ("import sys; sys.exit('not logged in')", errors.PermissionDeniedError, "not logged in"),
            ("print('no json')", errors.FailedPreconditionError, "install it"),
        ):
            program(tmp_path / "login", failing)
            kubeconfig(monkeypatch, tmp_path, server.url, {"exec": {**called, "installHint": "install it"}})
            with pytest.raises(kind, match=said):
                off_cluster().cluster_spec()
        program(tmp_path / "login", "import threading; threading.Event().wait()")
        with pytest.raises(errors.DeadlineExceededError, match="made no credentials within"):
            kube_config.from_files(timeout_s=0.3)


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        (None, errors.NotFoundError, "KUBECONFIG"),
        ("{}", errors.FailedPreconditionError, "current-context"),
        ("[]", errors.FailedPreconditionError, "kubeconfig file"),
        ('{"current-context": "x"}', errors.FailedPreconditionError, "contexts of the name 'x'"),
    ],
)
def test_a_kubeconfig_that_says_nothing_is_named(
    config: str | None, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    if config is not None:
        path.write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(kind, match=said):
        off_cluster().cluster_spec()


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ({"proxy-url": "http://p"}, {}, "proxy-url"),
        ({"tls-server-name": "x"}, {}, "tls-server-name"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider"),
    ],
)
def test_ways_of_kubeconfig_that_are_missing_are_named(
    cluster: dict[str, Any], user: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubeconfig(monkeypatch, tmp_path, "https://127.0.0.1:1", user, **cluster)
    with pytest.raises(errors.UnimplementedError, match=said):
        off_cluster().cluster_spec()


def test_yaml_is_read_where_its_reader_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(of_pods({"job-name=tensorflow": [pod("a")]})) as server:
        kubeconfig(monkeypatch, tmp_path, server.url)
        written = json.loads((tmp_path / "config").read_text())
        (tmp_path / "config").write_text("apiVersion: v1\n")
        reader = Space(safe_load=lambda text: written if text.startswith("apiVersion") else None, YAMLError=ValueError)
        monkeypatch.setitem(sys.modules, "yaml", reader)
        assert off_cluster().cluster_spec().num_tasks("worker") == 1
        monkeypatch.setitem(sys.modules, "yaml", None)
        with pytest.raises(errors.UnimplementedError, match="pip install pyyaml"):
            off_cluster().cluster_spec()


def test_a_kubernetes_client_is_used_if_passed() -> None:
    listed: list[str] = []

    def pods(label_selector: str) -> Any:
        listed.append(label_selector)
        return Space(items=[Space(metadata=Space(name=name), status=Space(phase="Running", host_ip=f"10.0.0.{name}")) for name in "31"])

    resolver = KubernetesClusterResolver({"worker": ["x=1"]}, override_client=Space(list_pod_for_all_namespaces=pods))
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470", "10.0.0.3:8470"]} and listed == ["x=1"]
    with pytest.raises(ValueError, match="KubernetesExecutableLocation"):
        KubernetesClusterResolver(executable_location="here")  # type: ignore[arg-type]


# GCE.

MACHINES = {"one": "10.0.0.2", "two": "10.0.0.1", "three": "10.0.0.3"}


def of_machines(asked: Asked) -> tuple[int, Any]:
    """Answers as the compute service does, one machine at a time, and as the server of metadata does."""
    if asked.path.endswith("/token"):
        return 200, {"access_token": "t1"}
    name = asked.path.rpartition("/")[2]
    if name != "listInstances":
        return 200, {"name": name, "networkInterfaces": [{"networkIP": MACHINES[name]}]}
    place = int(asked.query.get("pageToken", 0))
    after = {"nextPageToken": str(place + 1)} if place + 1 < len(MACHINES) else {}
    return 200, {"items": [{"instance": f"https://x/zones/z/instances/{list(MACHINES)[place]}"}], **after}


def test_gce_asks_for_running_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(of_machines) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        resolver = GCEClusterResolver("p", "z", "g", 8470, task_id=1, endpoint=server.url)
        assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470", "10.0.0.2:8470", "10.0.0.3:8470"]}
        assert resolver.master() == "grpc://10.0.0.2:8470" and resolver.master(task_id=2, rpc_layer="mpi") == "mpi://10.0.0.3:8470"
        token, listed, *others = server.asked[:7]
        assert token.headers["Metadata-Flavor"] == "Google"
        assert (listed.method, listed.path) == ("POST", "/compute/v1/projects/p/zones/z/instanceGroups/g/listInstances")
        assert json.loads(listed.body) == {"instanceState": "RUNNING"} and listed.query["orderBy"] == "name"
        assert all(asked.headers["Authorization"] == "Bearer t1" for asked in others)
        assert "/compute/v1/projects/p/zones/z/instances/one" in {asked.path for asked in others}


def test_gce_has_one_job() -> None:
    resolver = GCEClusterResolver("p", "z", "g", 1, "ps", 3, None)
    resolver.task_id, resolver.rpc_layer = 4, "grpc"
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == ("ps", 4, "grpc")
    with pytest.raises(RuntimeError, match="constructor"):
        resolver.task_type = "worker"


def test_google_credentials_come_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "gcloud"
    folder.mkdir(parents=True)
    path = folder / "application_default_credentials.json"
    with serving(of_machines) as server:
        resolver = GCEClusterResolver("p", "z", "g", 1, endpoint=server.url)
        login = {"client_id": "i", "client_secret": "s", "refresh_token": "r"}
        path.write_text(json.dumps({"type": "authorized_user", "token_uri": f"{server.url}/token", **login}))
        resolver.cluster_spec()
        assert server.asked[0].body == b"client_id=i&client_secret=s&refresh_token=r&grant_type=refresh_token"
        for text, kind, said in (
            ('{"type": "authorized_user"}', errors.FailedPreconditionError, "client_id"),
            ('{"type": "service_account"}', errors.UnimplementedError, "google-auth"),
            ("{", errors.FailedPreconditionError, "credentials"),
        ):
            other = tmp_path / "key.json"
            other.write_text(text)
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(other))
            with pytest.raises(kind, match=said):
                resolver.cluster_spec()


def test_missing_google_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: (404, b"")) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        with pytest.raises(errors.FailedPreconditionError, match="gcloud auth"):
            GCEClusterResolver("p", "z", "g", 1).cluster_spec()


@dataclasses.dataclass
class Credentials:
    """Credentials of google-auth that are valid."""

    token: str = "of google-auth"
    valid: bool = True

    def refresh(self, request: Any) -> None:
        raise AssertionError("valid credentials are not refreshed")


@pytest.mark.parametrize(
    ("credentials", "token"),
    [
        (None, None),
        ("plain", "plain"),
        (lambda: "of a function", "of a function"),
        (Credentials(), "of google-auth"),
        (Space(get_access_token=lambda: Space(access_token="of oauth2client")), "of oauth2client"),
    ],
)
def test_gce_shows_the_credentials_that_are_passed(credentials: Any, token: str | None) -> None:
    with serving(of_machines) as server:
        GCEClusterResolver("p", "z", "g", 1, credentials=credentials, endpoint=server.url).cluster_spec()
        assert server.asked[0].headers.get("Authorization") == (None if token is None else f"Bearer {token}")
    with pytest.raises(TypeError, match="credentials"):
        GCEClusterResolver("p", "z", "g", 1, credentials=3, endpoint=server.url).cluster_spec()


def test_a_google_client_is_used_if_passed() -> None:
    pages = [{"items": [{"instance": "x/one"}]}, {}, {"items": [{"instance": "x/two"}]}]
    asked: list[dict[str, Any]] = []

    def listed(**given: Any) -> Any:
        asked.append(given)
        return Space(execute=lambda: pages[0])

    groups = Space(
        listInstances=listed,
        listInstances_next=lambda previous_request, previous_response: next(
            (Space(execute=lambda page=page: page) for page in pages[pages.index(previous_response) + 1 :]), None
        ),
    )
    machines = Space(get=lambda project, zone, instance: Space(execute=lambda: {"networkInterfaces": [{"networkIP": MACHINES[instance]}]}))
    service = Space(instanceGroups=lambda: groups, instances=lambda: machines)
    resolver = GCEClusterResolver("p", "z", "g", 1, service=service)
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:1", "10.0.0.2:1"]}
    assert asked == [{"project": "p", "zone": "z", "instanceGroup": "g", "body": {"instanceState": "RUNNING"}, "orderBy": "name"}]


# The place among the trainers.

CLUSTER = {"chief": ["c:1"], "worker": ["a:1", "b:1"], "ps": ["p:1"]}


@pytest.mark.parametrize(
    ("cluster", "task", "expected"),
    [
        (CLUSTER, ("chief", 0), (3, 0)),
        (CLUSTER, ("worker", 1), (3, 2)),
        ({"worker": {2: "a:1", 7: "b:1"}}, ("worker", 7), (2, 1)),
        (CLUSTER, ("evaluator", 0), (1, 0)),
        ({**CLUSTER, "evaluator": ["e:1", "f:1"]}, ("evaluator", 1), (2, 1)),
        ({}, (None, None), (1, 0)),
    ],
)
def test_a_context_is_the_place_among_trainers(cluster: dict[str, Any], task: tuple[Any, Any], expected: tuple[int, int]) -> None:
    resolver = simple(cluster, task_type=task[0], task_id=task[1], num_accelerators={"GPU": 4})
    assert ms.InputContext.from_resolver(resolver) == ms.InputContext(*expected, 4 * expected[0])
    assert ms.InputContext.from_resolver(resolver, 1).num_replicas_in_sync == expected[0]


@pytest.mark.parametrize("task", [("ps", 0), ("worker", 2), ("worker", None), (None, 0)])
def test_a_process_without_a_share_has_no_context(task: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ms.InputContext.from_resolver(simple(CLUSTER, task_type=task[0], task_id=task[1]))


def test_trainers_of_a_cluster_share_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for index in range(2):
        resolver = set_tf_config(monkeypatch, cluster={"worker": ["a:1", "b:1"]}, task={"type": "worker", "index": index})
        context = ms.InputContext.from_resolver(resolver, replicas=1)
        dataset = ms.Dataset.range(10).shard(context.num_input_pipelines, context.input_pipeline_id)
        seen.append([int(x) for x in dataset])
    assert seen == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_compat_has_the_names_of_tensorflow() -> None:
    namespace = compat.distribute.cluster_resolver
    assert namespace.UnionResolver is UnionResolver and namespace.KubernetesExecutableLocation is KubernetesExecutableLocation
    with pytest.raises(errors.UnimplementedError, match="TPU"):
        namespace.TPUClusterResolver("t")
