"""The server of a Kubernetes cluster, and what this process shows to be allowed to ask it.

Owns the formats of a pod's service account and of kubeconfig files. Refuses to know what is asked.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DeadlineExceededError, FailedPreconditionError, NotFoundError, PermissionDeniedError, UnimplementedError

__all__ = ["Access", "from_files", "from_pod"]

#: Where the system puts the account of a pod.
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_EXEC_INFO = "KUBERNETES_EXEC_INFO"


@dataclasses.dataclass(frozen=True)
class Access:
    """The server, and how to ask it.

    Attributes:
        server: The address of the server.
        headers: The headers of every request.
        tls: The settings of TLS; ``None`` for a server without TLS.
    """

    server: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | None


def from_pod(account: str = _ACCOUNT) -> Access:
    """Returns the access that every pod of a cluster has.

    Args:
        account: The directory of the service account.

    Raises:
        FailedPreconditionError: This process does not run in a pod, or the pod has no account.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    try:
        token = Path(account, "token").read_text().strip()
        authority = Path(account, "ca.crt").read_text()
    except OSError as error:
        raise FailedPreconditionError(
            f"expected the service account of a pod in {account}: {error}. Outside of the cluster pass "
            "executable_location=KubernetesExecutableLocation.OFF_CLUSTER"
        ) from error
    if not host or not port:
        raise FailedPreconditionError(
            "expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in the environment, as every pod has them. Outside of the cluster "
            "pass executable_location=KubernetesExecutableLocation.OFF_CLUSTER"
        )
    shown = f"[{host}]" if ":" in host else host
    return Access(f"https://{shown}:{port}", {"Authorization": f"Bearer {token}"}, ssl.create_default_context(cadata=authority))


def from_files(paths: Sequence[str] | None = None, timeout_s: float = 30.0) -> Access:
    """Returns the access that kubeconfig files describe.

    Args:
        paths: The files; by default those of ``KUBECONFIG``, else ``~/.kube/config``. The first file that states something wins.
        timeout_s: The seconds that a program of the files may take to make credentials.

    Raises:
        NotFoundError: There is no file.
        FailedPreconditionError: The files do not state a current context, or contradict themselves.
        UnimplementedError: The files are not JSON, and no reader of YAML is installed; or they name a way that is not implemented.
    """
    if paths is None:
        named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        paths = [path for path in named.split(os.pathsep) if path]
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        raise NotFoundError(f"expected a kubeconfig file, found none of {list(paths)}: set KUBECONFIG")
    configs = [(path, _loaded(path)) for path in there]
    name = next((config["current-context"] for _, config in configs if config.get("current-context")), None)
    if name is None:
        raise FailedPreconditionError(f"expected current-context in {there}: run `kubectl config use-context`")
    context, _ = _entry(configs, "contexts", "context", name)
    cluster, cluster_folder = _entry(configs, "clusters", "cluster", context.get("cluster"))
    user, user_folder = _entry(configs, "users", "user", context["user"]) if context.get("user") else ({}, "")
    if cluster.get("proxy-url"):
        raise UnimplementedError("proxy-url of a kubeconfig file is not implemented: pass override_client")
    return _access(cluster, cluster_folder, _credentials(user, user_folder, cluster, timeout_s), user_folder)


def _loaded(path: str) -> Mapping[str, Any]:
    text = Path(path).read_text()
    try:
        config = json.loads(text)
    except ValueError:
        config = _of_yaml(path, text)
    if not isinstance(config, dict):
        raise FailedPreconditionError(f"expected a kubeconfig file in {path}, found {text[:100]!r}")
    return config


def _of_yaml(path: str, text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UnimplementedError(
            f"{path} is YAML, which needs PyYAML: `pip install pyyaml`, or write it as JSON with `kubectl config view --raw -o json`"
        ) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FailedPreconditionError(f"expected a kubeconfig file in {path}: {error}") from error


def _entry(configs: list[tuple[str, Mapping[str, Any]]], kind: str, part: str, name: Any) -> tuple[Mapping[str, Any], str]:
    """Returns an entry by its name, and the folder that its paths start from."""
    for path, config in configs:
        for entry in config.get(kind) or []:
            if entry.get("name") == name:
                return entry.get(part) or {}, os.path.dirname(os.path.abspath(path))
    raise FailedPreconditionError(f"expected {kind} of the name {name!r} in {[path for path, _ in configs]}")


def _credentials(user: Mapping[str, Any], folder: str, cluster: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
    """Returns the credentials of a user. If the user names a program, the program prints them."""
    if "auth-provider" in user:
        raise UnimplementedError("auth-provider of a kubeconfig file is not implemented: use exec, or pass override_client")
    plugin = user.get("exec")
    if not plugin:
        return user
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    if plugin.get("provideClusterInfo"):
        info["spec"]["cluster"] = {key: value for key, value in cluster.items() if key != "insecure-skip-tls-verify"}
    added = {item["name"]: item["value"] for item in plugin.get("env") or []}
    # A name with a slash is a path, which starts at the file that names it.
    program = os.path.join(folder, plugin["command"]) if "/" in plugin["command"] else plugin["command"]
    try:
        made = subprocess.run(
            [program, *(plugin.get("args") or [])],
            env={**os.environ, **added, _EXEC_INFO: json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=True,
        )
        status = json.loads(made.stdout)["status"]
    except subprocess.TimeoutExpired as error:
        raise DeadlineExceededError(f"{program} of the kubeconfig file made no credentials within {timeout_s:g} s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()[-300:]
        raise PermissionDeniedError(f"{program} of the kubeconfig file made no credentials: {said}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = plugin.get("installHint") or "check the file"
        raise FailedPreconditionError(f"{program} of the kubeconfig file made no credentials ({error}): {hint}") from error
    return {
        "token": status.get("token"),
        "client-certificate-data": _encoded(status.get("clientCertificateData")),
        "client-key-data": _encoded(status.get("clientKeyData")),
    }


def _encoded(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()


def _access(cluster: Mapping[str, Any], cluster_folder: str, user: Mapping[str, Any], user_folder: str) -> Access:
    server = cluster.get("server")
    if not server:
        raise FailedPreconditionError("expected the server of the cluster in the kubeconfig file, found none")
    headers = {}
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = Path(user_folder, user["tokenFile"]).read_text().strip()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    if not server.startswith("https://"):
        return Access(server, headers, None)
    if cluster.get("tls-server-name"):
        raise UnimplementedError("tls-server-name of a kubeconfig file is not implemented: pass override_client")
    authority = _data(cluster, "certificate-authority", cluster_folder)
    tls = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _data(user, "client-certificate", user_folder), _data(user, "client-key", user_folder)
    if certificate is not None and key is not None:
        with _file(certificate) as certificate_path, _file(key) as key_path:
            tls.load_cert_chain(certificate_path, key_path)
    return Access(server, headers, tls)


def _data(section: Mapping[str, Any], name: str, folder: str) -> bytes | None:
    """Returns bytes that a section holds, or names a file of."""
    if section.get(f"{name}-data"):
        return base64.b64decode(section[f"{name}-data"])
    return Path(folder, section[name]).read_bytes() if section.get(name) else None


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    # Python loads certificates only from files. The file is readable by this user alone, and is removed at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
