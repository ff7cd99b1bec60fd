"""The resolver of the machines of a Google Compute Engine instance group.

Owns the questions for machines and the addresses made of the answers. Refuses to need ``googleapiclient``, whose service is used if passed.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import NotFoundError
from .base import ClusterResolver
from .google_token import default_token, token_of
from .http import Request, Transport, ask, send
from .spec import ClusterSpec

__all__ = ["GCEClusterResolver"]

_ENDPOINT = "https://compute.googleapis.com"
_RUNNING = {"instanceState": "RUNNING"}
#: Answers of one question, so that a broken server does not hold the caller for ever.
_PAGES_MAX = 1000


class GCEClusterResolver(ClusterResolver):
    """Resolves the running machines of an instance group of Google Compute Engine.

    Every ``cluster_spec`` asks the service. The machines form one job, in the order of their addresses as text.

    Args:
        project: The project.
        zone: The zone of the group.
        instance_group: The name of the group.
        port: The port of every task.
        task_type: The job that the machines form.
        task_id: The index of this machine, which the service does not know.
        rpc_layer: The protocol in front of addresses.
        credentials: ``"default"`` for the application's default credentials, ``None`` for none, a function that returns a token, or
            credentials of ``google-auth`` or ``oauth2client``.
        service: A service of ``googleapiclient.discovery.build``, which is asked instead.
        timeout_s: The seconds that each request may take.
        transport: What sends requests, instead of Python's own HTTP.
        endpoint: The address of the service.

    Example:
        >>> answers = {"listInstances": b'{"items": [{"instance": "zones/z/instances/one"}]}', "one": b'{"networkInterfaces": [{"networkIP": "10.0.0.1"}]}'}
        >>> def transport(request):
        ...     return ms.resolvers.Response(200, answers[request.url.partition("?")[0].rpartition("/")[2]])
        >>> ms.resolvers.GCEClusterResolver("project", "zone", "group", 8470, credentials=None, transport=transport).cluster_spec()
        ClusterSpec({'worker': ['10.0.0.1:8470']})
    """

    def __init__(
        self,
        project: str,
        zone: str,
        instance_group: str,
        port: int,
        task_type: str = "worker",
        task_id: int = 0,
        rpc_layer: str | None = "grpc",
        credentials: Any = "default",
        service: Any = None,
        *,
        timeout_s: float = 10.0,
        transport: Transport = send,
        endpoint: str = _ENDPOINT,
    ) -> None:
        self._project = project
        self._zone = zone
        self._group = instance_group
        self._port = port
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._credentials = credentials
        self._service = service
        self._timeout_s = timeout_s
        self._transport = transport
        self._endpoint = endpoint.rstrip("/")

    @property
    def task_type(self) -> str | None:
        """The job that the machines form."""
        return self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        raise RuntimeError("task_type of a GCEClusterResolver cannot be set again: pass task_type to the constructor")

    def cluster_spec(self) -> ClusterSpec:
        """Asks the service for the machines of the group.

        Returns:
            The addresses of the machines.

        Raises:
            MillstreamError: The service cannot be reached or refuses, or there are no credentials.
        """
        hosts = self._of_client() if self._service is not None else self._of_server()
        return ClusterSpec({str(self._task_type): sorted(f"{host}:{self._port}" for host in hosts)})

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Finds the address of a task.

        Args:
            task_type: The job of the task; this machine's own by default.
            task_id: The index of the task; this machine's own by default.
            rpc_layer: The protocol in front of the address.

        Returns:
            The address; empty if a job or an index is missing.
        """
        return self._own_master(task_type, task_id, rpc_layer)

    def _of_client(self) -> Iterator[str]:
        groups, machines = self._service.instanceGroups(), self._service.instances()
        request = groups.listInstances(
            project=self._project, zone=self._zone, instanceGroup=self._group, body=_RUNNING, orderBy="name"
        )
        while request is not None:
            answer = request.execute()
            for item in answer.get("items", []):
                name = item["instance"].rpartition("/")[2]
                yield _host(machines.get(project=self._project, zone=self._zone, instance=name).execute())
            request = groups.listInstances_next(previous_request=request, previous_response=answer)

    def _of_server(self) -> Iterator[str]:
        is_default = isinstance(self._credentials, str) and self._credentials == "default"
        token = default_token(self._transport, self._timeout_s) if is_default else token_of(self._credentials)
        headers = {"Accept": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        place = "/".join(urllib.parse.quote(part, safe="") for part in ("projects", self._project, "zones", self._zone))
        root = f"{self._endpoint}/compute/v1/{place}"
        query = {"orderBy": "name"}
        posted = {**headers, "Content-Type": "application/json"}
        for _ in range(_PAGES_MAX):
            url = f"{root}/instanceGroups/{urllib.parse.quote(self._group, safe='')}/listInstances?{urllib.parse.urlencode(query)}"
            body = json.dumps(_RUNNING).encode()
            page = ask(self._transport, Request(url, "POST", posted, body, self._timeout_s))
            for item in page.get("items") or []:
                name = urllib.parse.quote(item["instance"].rpartition("/")[2], safe="")
                url = f"{root}/instances/{name}"
                yield _host(ask(self._transport, Request(url, headers=headers, timeout_s=self._timeout_s)))
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]
        raise RuntimeError(f"expected at most {_PAGES_MAX} pages of machines in the group {self._group!r}, found more")


def _host(machine: Mapping[str, Any]) -> str:
    interfaces = machine.get("networkInterfaces") or []
    if not interfaces:
        raise NotFoundError(f"expected a network interface of the machine {machine.get('name')!r}, found none")
    return str(interfaces[0]["networkIP"])
