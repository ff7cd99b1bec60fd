"""The actors of a service on Ray: the dispatcher and the workers. Each actor is a process of its own.

The actors know neither each other nor the plan of the service: the controller in ``_ray_controller`` starts and ends them.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from . import _millstream
from ._connection import Connection, connect
from .errors import FailedPreconditionError, UnavailableError
from .service import DispatcherConfig, DispatchServer, WorkerConfig, WorkerServer

__all__ = ["DispatcherActor", "Release", "Settings", "WorkerActor", "actor", "here"]

#: The variable with the key of a process.
_KEY = "MILLSTREAM_KEY"
#: The seconds within which the dispatcher must answer the actor of its own process.
_ANSWER_S = 5.0
#: The file in the work directory with the dispatcher's port, which stays the same after a restart.
_PORT_FILE = "ray-port"
#: The seconds for which a restarted dispatcher waits for its port and its work directory, which the former process may still hold.
_TAKE_OVER_S = 20.0

_log = logging.getLogger("millstream.ray")


@dataclasses.dataclass(frozen=True)
class Release:
    """The versions that all processes of a service must share."""

    millstream: str
    python: str

    def check(self, where: str, found: Release) -> None:
        """Raises an error if other versions were found.

        Raises:
            FailedPreconditionError: A version differs.
        """
        if found != self:
            raise FailedPreconditionError(
                f"{where} runs millstream {found.millstream} with Python {found.python}, but the program runs millstream {self.millstream} with "
                f"Python {self.python}: install the same versions on all nodes of Ray, for example with runtime_env"
            )


def here() -> Release:
    """Returns the versions of this process."""
    return Release(_millstream.version(), "{}.{}".format(*sys.version_info))


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a worker.

    Attributes:
        key: The key of the role ``worker``.
        threads: The number of threads that compute elements.
        memory_bytes: The maximum bytes of elements in the worker.
        tags: Further labels of the worker.
    """

    key: str = dataclasses.field(repr=False)
    threads: int | None
    memory_bytes: int | None
    tags: tuple[str, ...]
    release: Release


class DispatcherActor:
    """The dispatcher. A restarted actor continues at the same address with its records.

    Args:
        key: The key of the role ``dispatcher``.
        submit_key: The key of the role ``submit``.
        work_dir: The directory of the records. By default a new directory below Ray's, which the shutdown removes.
        service_id: The name of the default directory.
        liveness_ms: The liveness timeout.
        release: The versions of the program.
    """

    def __init__(
        self, key: str, submit_key: str, work_dir: str | None, service_id: str, liveness_ms: int | None, release: Release
    ) -> None:
        release.check(_node(), here())
        os.environ[_KEY] = key
        self._started_s = time.monotonic()
        folder = Path(work_dir or os.path.join(_session_dir(), f"millstream-{service_id}"))
        self._temporary = folder if work_dir is None else None
        # The records hold keys that sign tickets.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        port_file = folder / _PORT_FILE
        host = ray.util.get_node_ip_address()
        config = DispatcherConfig(
            port=_recorded_port(port_file),
            host=host,
            work_dir=str(folder),
            fault_tolerant_mode=True,
            liveness_ms=liveness_ms,
        )
        self._server = _taken_over(config)
        # The dispatcher has read its key. This process asks the dispatcher with a key for clients.
        os.environ[_KEY] = submit_key
        address = self._server.target.partition("://")[2]
        _record_port(port_file, address.rpartition(":")[2])
        self._address = address
        self._connection: Connection | None = None

    def target(self) -> str:
        """Returns the address, as ``millstream://host:port``."""
        return self._server.target

    def report(self) -> tuple[float, dict[str, str], int | None] | None:
        """Returns the age of this process in seconds, the addresses of the living workers by name, and the wanted number of workers.

        Returns ``None`` if a user has shut the service down. Ends this process if the dispatcher has failed.
        """
        if self._was_shut_down():
            return None
        workers, wanted = self._connected().workers_and_wanted()
        addresses = {_name(worker["tags"]): worker["address"] for worker in workers}
        return time.monotonic() - self._started_s, addresses, wanted

    def shutdown(self) -> None:
        """Ends the service, tells its readers, and removes the records unless the user has named their directory."""
        if not self._was_shut_down():
            self._connected().shutdown()
            self._server.join()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _was_shut_down(self) -> bool:
        """Returns whether the dispatcher has ended without an error. Ends this process if the dispatcher has failed."""
        if not self._server._has_ended():
            return False
        try:
            self._server.join()
        except Exception:
            _log.exception("the dispatcher failed")
            # Ray restarts an actor whose process dies, but knows nothing of a server within the process.
            os._exit(1)
        return True

    def _connected(self) -> Connection:
        """Returns the connection to the dispatcher, which all reports share."""
        if self._connection is None or not self._connection.is_usable():
            # Longer waits would fill all threads of the actor, because the controller asks again after this time.
            self._connection = connect(self._address, timeout_s=_ANSWER_S, dispatcher_timeout_s=_ANSWER_S)
        return self._connection


class WorkerActor:
    """A worker, which serves as soon as the actor is constructed."""

    def __init__(self, name: str, target: str, settings: Settings) -> None:
        settings.release.check(_node(), here())
        # Ray starts a process for each actor, so the variable affects no other code.
        os.environ[_KEY] = settings.key
        # The workers run the code of the program, so the code may see all environment variables and modules of this process.
        os.environ.setdefault("MILLSTREAM_PYTHON_ENV", "*")
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        config = WorkerConfig(
            target,
            host=ray.util.get_node_ip_address(),
            tags=[_TAG + name, *settings.tags],
            threads=settings.threads,
            memory_bytes=settings.memory_bytes,
        )
        self._server = WorkerServer(config)

    def serve(self) -> None:
        """Blocks until the worker has ended."""
        self._server.join()

    def drain(self) -> None:
        """Starts the graceful shutdown of the worker."""
        self._server.drain()


#: The prefix of the tag that names a worker.
_TAG = "ray:"


def _name(tags: list[str]) -> str:
    """Returns the name of a worker from its tags. A worker that does not run on Ray has the name ''."""
    return next((tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)), "")


def _session_dir() -> str:
    """Returns the directory of the running Ray cluster on this node."""
    return str(ray._private.worker.global_worker.node.get_session_dir_path())


def _node() -> str:
    return f"the Ray node {ray.util.get_node_ip_address()}"


def _recorded_port(file: Path) -> int:
    """Returns the port of the former process; 0, which means any port, if the file does not exist or names no port."""
    try:
        port = int(file.read_text())
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        _log.warning("%s is ignored, and the dispatcher takes another port: %s", file, error)
        return 0
    return port if 0 < port < 2**16 else 0


def _record_port(file: Path, port: str) -> None:
    """Replaces the file as a whole, so that a process that dies meanwhile leaves the former file."""
    part = file.with_name(file.name + ".part")
    part.write_text(port)
    part.replace(file)


def _taken_over(config: DispatcherConfig) -> DispatchServer:
    """Starts a dispatcher. Waits for the port and the work directory of a former process that has not ended yet."""
    deadline = time.monotonic() + _TAKE_OVER_S
    while True:
        try:
            return DispatchServer(config)
        except Exception as error:
            if time.monotonic() > deadline or not config.port:
                raise UnavailableError(f"{_node()}: the dispatcher cannot start: {error}") from error
            time.sleep(0.2)


def actor(cls: type, groups: Mapping[str, int] | None = None, **options: Any) -> Any:
    """Returns the actor class of a class, with options of Ray.

    Args:
        cls: The class.
        groups: The numbers of threads that run the methods of a group alone, by the name of the group.
        options: The options of Ray.
    """
    # Ray takes groups only here.
    remote = ray.remote(cls) if groups is None else ray.remote(concurrency_groups=dict(groups))(cls)
    return remote.options(**options)
