"""Services on a Ray cluster, and datasets of Ray Data as sources and results.

``serve`` starts a dispatcher and workers as actors of Ray, replaces workers whose process or node dies, and ends them with the program.
``from_dataset`` and ``to_dataset`` convert between ``ray.data`` and Millstream. The module needs the extra ``millstream[ray]``.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ._millstream import key_path, role_key
from .errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    MillstreamError,
    NotFoundError,
    UnavailableError,
)

try:
    import ray
except ImportError as _error:
    raise FailedPreconditionError(
        f"millstream.ray needs the package ray, which {sys.executable} cannot import ({_error}): run pip install 'millstream[ray]' for this "
        "interpreter. Ray has wheels for fewer versions of Python than Millstream has"
    ) from _error

from ._ray_actors import Settings, actor, here
from ._ray_check import check_nodes
from ._ray_controller import END_S, GROUPS, HEAD, Controller, Terms
from ._ray_data import from_dataset, to_dataset
from ._ray_nodes import Health, Node, Probes, nodes
from ._ray_plan import Bounds

__all__ = ["RayService", "attach", "from_dataset", "serve", "to_dataset"]

#: The namespace of Ray in which detached services have their names.
_NAMESPACE = "millstream"
#: The variable with the key of a process.
_KEY = "MILLSTREAM_KEY"
#: The seconds for which a call of the controller may take longer than its own time limit.
_GRACE_S = 30.0


class RayService:
    """A service on Ray, which can be passed as the argument ``service``, also in tasks, in actors and in the workers of Ray Train.

    A copy that was sent to another process gives this process the key of the role ``submit``, unless ``MILLSTREAM_KEY`` is set there.
    """

    def __init__(self, target: str, controller: Any, key: str) -> None:
        self._target, self._controller, self._key = target, controller, key
        self._is_closed = False

    @property
    def target(self) -> str:
        """The address of the dispatcher, as ``millstream://host:port``.

        Raises:
            FailedPreconditionError: This object has closed the service.
        """
        if self._is_closed:
            raise FailedPreconditionError(f"the service at {self._target} was closed: start another one with ms.ray.serve")
        return self._target

    def workers(self) -> list[dict[str, Any]]:
        """Lists the workers.

        Returns:
            A dict for each worker: ``name``, ``state`` (``"starting"``, ``"serving"`` or ``"draining"``), ``address``, ``node`` (Ray's id) and
            ``node_address``.
        """
        found: list[dict[str, Any]] = _answer(self._controller.workers.remote())
        return found

    def wanted(self) -> int:
        """Returns the number of workers that the service runs or will run. The number follows the dispatcher's wanted number between min and max."""
        return int(_answer(self._controller.wanted.remote()))

    def wait(self, workers: int | None = None, timeout_s: float = 60.0) -> None:
        """Blocks until this many workers serve.

        Args:
            workers: The number of workers; by default all.
            timeout_s: The maximum seconds to wait.

        Raises:
            DeadlineExceededError: Fewer workers serve after this time. The message names the last failure.
            UnavailableError: Workers fail again and again. The message names the last failure.
        """
        _answer(self._controller.wait.remote(workers, timeout_s), timeout_s)

    def close(self) -> None:
        """Drains the workers, and ends the service. Does nothing if the service has ended."""
        self._is_closed = True
        try:
            _answer(self._controller.close.remote(), END_S)
        except (DeadlineExceededError, UnavailableError):
            # A controller that Ray restarts just now drains nothing, but its end ends all actors.
            pass
        finally:
            ray.kill(self._controller, no_restart=True)

    def __enter__(self) -> RayService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._target, self._controller, self._key)

    def __repr__(self) -> str:
        return f"<millstream.ray.RayService {self._target}>"


def serve(
    workers: int = 1,
    resources: Mapping[str, float] | None = None,
    min: int | None = None,
    max: int | None = None,
    *,
    near: str | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    tags: Sequence[str] = (),
    work_dir: str | None = None,
    liveness_s: float | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    name: str | None = None,
    timeout_s: float = 120.0,
) -> RayService:
    """Starts a service on the Ray cluster of this program, and waits until all workers serve.

    The dispatcher runs on the head node. The workers are spread over the nodes by the number of workers that fit there. A worker whose process or
    node dies is replaced. With ``min`` or ``max`` the number of workers follows the dispatcher's wanted number of workers, which keeps the readers
    busy; workers that are no longer needed are drained before they end. The service ends with the program, unless it has a ``name``.

    All processes use keys that are derived from the key of this program: a program that may use the Ray cluster may use the service.

    Args:
        workers: The number of workers at the start.
        resources: The resources of Ray that each worker takes; by default ``{"CPU": 1}``.
        min: The minimum number of workers; by default ``workers``. With 0, all workers end 5 minutes after the last reader, and start again
            with the next one.
        max: The maximum number of workers; by default ``workers``.
        near: A resource, such as ``"GPU"``. Workers then run only on nodes that have this resource. Trainers that use the resource find workers on
            their host, and read from them through shared memory.
        threads: The number of threads of each worker; by default the CPUs of ``resources``, at least one.
        memory_bytes: The maximum bytes of elements in each worker.
        tags: Labels of each worker.
        work_dir: The directory of the dispatcher's records on the head node. By default a new directory in Ray's session directory, which
            ``close`` removes.
        liveness_s: The dispatcher's liveness timeout: a worker whose host is silent for three times as long is dead. By default 10 seconds.
        runtime_env: Ray's environment of the dispatcher and the workers, for example with variables or packages of pip. Ray sends directories
            with modules of the program only for ``ray.init``.
        name: The name of a service that outlives this program; ``attach`` finds it. By default the service ends with the program.
        timeout_s: The maximum seconds until all workers serve.

    Returns:
        The service.

    Raises:
        InvalidArgumentError: An argument is invalid, or the numbers contradict each other.
        FailedPreconditionError: A node that can hold workers runs another version of Python or of Millstream.
        PermissionDeniedError: The key of this program is not a cluster key.
        UnavailableError: Workers fail again and again.
        DeadlineExceededError: Not all workers serve in time.
        AlreadyExistsError: A service has this name.
    """
    needs = {"CPU": 1.0} if resources is None else {str(key): float(amount) for key, amount in resources.items()}
    if any(amount < 0 for amount in needs.values()):
        raise InvalidArgumentError(f"resources={needs}: expected amounts of 0 or more")
    _connected()
    settings = Settings(
        key=role_key("worker"),
        threads=(int(needs.get("CPU", 0)) or 1) if threads is None else threads,
        memory_bytes=memory_bytes,
        tags=tuple(tags),
        release=here(),
    )
    terms = Terms(
        bounds=Bounds(workers, workers if min is None else min, workers if max is None else max),
        resources=needs,
        near=near,
        settings=settings,
        dispatcher_key=role_key("dispatcher"),
        submit_key=role_key("submit"),
        work_dir=work_dir,
        service_id=uuid.uuid4().hex,
        liveness_ms=None if liveness_s is None else int(liveness_s * 1000),
        runtime_env=runtime_env,
        start_timeout_s=timeout_s,
    )
    check_nodes(settings.release, _eligible(needs, near), runtime_env, timeout_s)
    controller = _controller(terms, name)
    try:
        target = _answer(controller.target.remote(timeout_s), timeout_s)
        service = RayService(target, controller, terms.submit_key)
        service.wait(timeout_s=timeout_s)
    except BaseException:
        ray.kill(controller, no_restart=True)
        raise
    return service


def attach(name: str) -> RayService:
    """Returns the service with this name, which another program has started on the same Ray cluster.

    Raises:
        NotFoundError: No service has this name.
    """
    _connected()
    try:
        controller = ray.get_actor(name, namespace=_NAMESPACE)
    except ValueError as error:
        raise NotFoundError(f"no service on this Ray cluster has the name {name!r}: start it with ms.ray.serve(name={name!r})") from error
    target, key = _answer(controller.contact.remote())
    return _received(target, controller, key)


def _controller(terms: Terms, name: str | None) -> Any:
    options: dict[str, Any] = {"num_cpus": 0, "resources": HEAD, "max_restarts": -1, "max_concurrency": 16}
    if terms.runtime_env is not None:
        options["runtime_env"] = dict(terms.runtime_env)
    if name is not None:
        options.update(name=name, namespace=_NAMESPACE, lifetime="detached")
    try:
        return actor(Controller, GROUPS, **options).remote(terms)
    except ValueError as error:
        if name is None or not _is_taken(name):
            raise InvalidArgumentError(f"Ray refuses the settings of the service: {error}") from error
        raise AlreadyExistsError(f"a service on this Ray cluster has the name {name!r}: choose another, or use ms.ray.attach({name!r})") from error


def _is_taken(name: str) -> bool:
    """Returns whether a service has this name."""
    try:
        ray.get_actor(name, namespace=_NAMESPACE)
    except ValueError:
        return False
    return True


def _eligible(needs: Mapping[str, float], near: str | None) -> list[Node]:
    """Returns the living nodes on which processes of the service may run."""
    can_run = [node for node in nodes() if node.offers(needs, near) or node.offers(HEAD, None)]
    health = Probes().of(can_run)
    return [node for node in can_run if health[node.name] is Health.ALIVE]


def _connected() -> None:
    """Connects this program to Ray if it is not connected.

    Raises:
        FailedPreconditionError: The Ray cluster runs another version of Python or of Ray.
    """
    if ray.is_initialized():
        return
    try:
        ray.init(log_to_driver=False)
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise
        raise FailedPreconditionError(
            f"the Ray cluster runs other versions than this program, which has Python {here().python} and Ray {ray.__version__}: start the program "
            f"with the cluster's versions, or the cluster with the program's versions. Ray reports: {error}"
        ) from error


def _answer(future: Any, timeout_s: float = 0.0) -> Any:
    """Returns the answer of the controller. An error of Millstream is raised as itself.

    Raises:
        DeadlineExceededError: The controller does not answer.
        UnavailableError: The controller has ended, or Ray restarts it.
    """
    try:
        return ray.get(future, timeout=timeout_s + _GRACE_S)
    except ray.exceptions.RayTaskError as error:
        if error.cause is None:
            raise
        raise error.cause from None
    except ray.exceptions.GetTimeoutError as error:
        raise DeadlineExceededError(f"the controller of the service on Ray did not answer within {timeout_s + _GRACE_S:.0f} s") from error
    except ray.exceptions.RayActorError as error:
        raise UnavailableError(
            f"the controller of the service on Ray does not run ({error}): it starts again if its process died; else start a service with serve"
        ) from error


def _received(target: str, controller: Any, key: str) -> RayService:
    if not _is_known(key):
        # A variable that is set stays: the user has chosen that key.
        os.environ.setdefault(_KEY, key)
    return RayService(target, controller, key)


def _is_known(key: str) -> bool:
    """Returns whether the key file of this user belongs to the service, so that the process needs no other key."""
    path = key_path()
    try:
        return path is not None and os.path.exists(path) and role_key("submit") == key
    except MillstreamError:
        return False
