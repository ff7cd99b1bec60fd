"""The search for the service of this process: in variables, on Ray, in a job of Slurm, on Kubernetes and on Google Compute Engine.

Reads the environment and the file of a job of Slurm, and asks the name service and the metadata of the machine. Connects to no dispatcher.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from ._resolvers import machine_metadata
from .errors import MillstreamError, NotFoundError

__all__ = ["ResolvedService", "resolve"]

#: The variables with the address of a service, the first of which counts.
_VARIABLES = ("MILLSTREAM_SERVICE", "MILLSTREAM_DISPATCHER")
#: The port of a dispatcher, as in the manifests and as the default of the command.
_PORT = 5050
#: The file with the address of the service of a job of Slurm, in a directory of the job that ``deploy/slurm/millstream.sbatch`` makes.
_SLURM_FILE = ".millstream-{job}-*/service"
#: The maximum number of characters of that file.
_ADDRESS_CHARS_MAX = 1000
#: The form of an address, with or without the scheme.
_ADDRESS = r"(millstream://)?[^\s/]+:[0-9]+"
#: The maximum number of dispatchers of one service on Kubernetes.
_DISPATCHERS_MAX = 9
#: The attribute of a machine on Google Compute Engine, or of its project, with the address of a service.
_ATTRIBUTE = "millstream-service"


@dataclasses.dataclass(frozen=True, repr=False)
class ResolvedService:
    """The address of a service, and the place where it was found. Can be passed as the argument ``service``.

    Attributes:
        target: The address, as ``millstream://host:port``.
        found_in: The place where the address was found.
    """

    target: str
    found_in: str

    def __repr__(self) -> str:
        return f"<millstream.service.ResolvedService {self.target}, from {self.found_in}>"


def resolve(name: str = "millstream", *, dispatcher: str = "millstream-dispatcher") -> ResolvedService:
    """Returns the service of this process, wherever the process runs.

    The first of these places that names a service counts:

    1. The variable ``MILLSTREAM_SERVICE`` or ``MILLSTREAM_DISPATCHER``, with ``host:port`` or ``millstream://host:port``.
    2. The service with this ``name`` on the Ray cluster of this process, if the process has called ``ray.init``.
    3. The job of Slurm, if ``deploy/slurm/millstream.sbatch`` runs it: the file with the address of its service.
    4. The headless Service of the dispatcher on Kubernetes, if its name has an address. If it has several pods, the address lists all of them.
    5. The attribute ``millstream-service`` of this machine on Google Compute Engine, or of its project, with the address as in a variable.

    Args:
        name: The name of the service on Ray.
        dispatcher: The name of the dispatcher's Service on Kubernetes.

    Returns:
        The address, with the place where it was found.

    Raises:
        NotFoundError: No place names a service. The message lists the places.

    Example:
        >>> import os
        >>> os.environ["MILLSTREAM_SERVICE"] = "head:5050"
        >>> ms.service.resolve()
        <millstream.service.ResolvedService millstream://head:5050, from the variable MILLSTREAM_SERVICE>
        >>> del os.environ["MILLSTREAM_SERVICE"]
    """
    searches: tuple[Callable[[], ResolvedService | str], ...] = (
        _from_variables,
        lambda: _from_ray(name),
        _from_slurm,
        lambda: _from_kubernetes(dispatcher),
        _from_google,
    )
    missing: list[str] = []
    for search in searches:
        found = search()
        if isinstance(found, ResolvedService):
            return found
        missing.append(found)
    raise NotFoundError(f"expected a service in one of five places, found none: {'; '.join(missing)}. Set MILLSTREAM_SERVICE=millstream://host:port")


def _from_variables() -> ResolvedService | str:
    for variable in _VARIABLES:
        address = os.environ.get(variable, "").strip()
        if address:
            return ResolvedService(_target(address), f"the variable {variable}")
    return f"{' and '.join(_VARIABLES)} are not set"


def _target(address: str) -> str:
    return address if "://" in address else f"millstream://{address}"


def _from_ray(name: str) -> ResolvedService | str:
    # A process that uses Ray has imported Ray. The import takes seconds, and is not for others.
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return "this process is not connected to Ray"
    from . import ray as on_ray

    try:
        return ResolvedService(on_ray.attach(name).target, f"the service {name} on Ray")
    except NotFoundError:
        return f"Ray has no service with the name {name}"


def _from_slurm() -> ResolvedService | str:
    """Returns the service that the script of the job has started. Most jobs of Slurm have none, so the variables of a job alone name no service."""
    # The second component of a heterogeneous job has a number of its own; the script has the number of the first.
    job = os.environ.get("SLURM_HET_JOB_ID") or os.environ.get("SLURM_JOB_ID", "")
    if not job:
        return "SLURM_JOB_ID is not set"
    if not re.fullmatch(r"[0-9]+", job):
        return f"SLURM_JOB_ID is {job!r}, expected a number"
    directory = os.environ.get("MILLSTREAM_STATE") or os.environ.get("SLURM_SUBMIT_DIR", "")
    if not directory:
        return "MILLSTREAM_STATE and SLURM_SUBMIT_DIR are not set"
    for path in sorted(Path(directory).glob(_SLURM_FILE.format(job=job))):
        try:
            # Other users may write to the directory, but not as this user.
            if path.stat().st_uid == os.getuid() and (target := _address_in(path)):
                return ResolvedService(target, f"the files of Slurm job {job}")
        except OSError:
            # The job ends, and removes its files.
            continue
    return f"millstream.sbatch has started no service in Slurm job {job}: {directory} has no {_SLURM_FILE.format(job=job)} of this user with an address"


def _address_in(path: Path) -> str | None:
    with path.open() as file:
        address = file.read(_ADDRESS_CHARS_MAX).strip()
    return address if "://" in address and re.fullmatch(_ADDRESS, address) else None


def _from_kubernetes(dispatcher: str) -> ResolvedService | str:
    if not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "this process is not in a pod of Kubernetes"
    try:
        socket.getaddrinfo(dispatcher, _PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        return f"the name {dispatcher} of Kubernetes has no address ({error})"
    # The name of the Service leads to any of its pods, and a standby serves nobody. The pods of a StatefulSet are numbered.
    pods = [f"{dispatcher.partition('.')[0]}-{number}.{dispatcher}" for number in range(_DISPATCHERS_MAX)]
    several = list(itertools.takewhile(_has_address, pods[1:]))
    addresses = [pods[0], *several] if several else [dispatcher]
    return ResolvedService(f"millstream://{','.join(f'{name}:{_PORT}' for name in addresses)}", "the Services of Kubernetes")


def _has_address(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, _PORT, type=socket.SOCK_DGRAM))
    except OSError:
        return False


def _from_google() -> ResolvedService | str:
    if not machine_metadata.is_on_google():
        return "this machine is not on Google Compute Engine"
    try:
        address = machine_metadata.attribute(_ATTRIBUTE)
    except MillstreamError as error:
        return str(error)
    if not re.fullmatch(_ADDRESS, address):
        return f"the attribute {_ATTRIBUTE} on Google Compute Engine is {address[:100]!r}, expected host:port"
    return ResolvedService(_target(address), f"the attribute {_ATTRIBUTE} on Google Compute Engine")
