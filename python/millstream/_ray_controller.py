"""The controller of a service on Ray: an actor that starts, replaces, drains and ends the dispatcher and the workers.

The plan in ``_ray_plan`` decides. The controller looks at the service, carries out the plan's actions, and answers the program's questions.
Ray ends the actors of a controller when the controller ends, so nothing survives a service.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ._ray_actors import DispatcherActor, Settings, WorkerActor, actor, here
from ._ray_nodes import Health, Node, Placement, Probes, nodes
from ._ray_plan import Actions, Bounds, Observation, Plan, State
from .errors import DeadlineExceededError, MillstreamError, UnavailableError

__all__ = ["END_S", "GROUPS", "HEAD", "Controller", "Terms"]

#: The resource that only the head node of a Ray cluster has.
HEAD = {"node:__internal_head__": 0.001}
#: Seconds between two looks at the service.
_LOOK_S = 0.5
#: The seconds within which the dispatcher must answer a look.
_ANSWER_S = 5.0
#: The seconds that a drained worker has to end after its drain deadline, which is 25 seconds.
_DRAIN_S = 35.0
#: The seconds within which a service ends: a look, the drain with its last question, and the dispatcher end.
END_S = 3 * _ANSWER_S + _DRAIN_S + _ANSWER_S + 2 * _ANSWER_S
#: The threads of ``close``, which must begin although other calls of programs wait in all other threads.
GROUPS = {"close": 1}
#: The seconds after which Ray has subtracted the resources of a new actor from those of its node.
_SETTLE_S = 2.0
#: The seconds for which a node on which a worker did not start in time is the last choice.
_AVOID_S = 300.0
#: The number of consecutive failed starts after which the service reports the error to its users.
_FAILED_STARTS_MAX = 3

_log = logging.getLogger("millstream.ray")


@dataclasses.dataclass(frozen=True)
class Terms:
    """The settings of a service.

    Attributes:
        bounds: The numbers of workers.
        resources: The resources of Ray that each worker takes.
        near: A resource that the nodes of the workers must have, or ``None``.
        settings: The settings of each worker.
        dispatcher_key: The key of the role ``dispatcher``.
        submit_key: The key of the role ``submit``, for programs that attach to the service.
        work_dir: The directory of the dispatcher's records, on the head node. By default a directory below Ray's.
        service_id: The unique name of the service, which names the default directory.
        liveness_ms: The dispatcher's liveness timeout.
        runtime_env: Ray's environment of the dispatcher and the workers.
        start_timeout_s: The seconds that a worker may take to start.
    """

    bounds: Bounds
    resources: Mapping[str, float]
    near: str | None
    settings: Settings
    dispatcher_key: str = dataclasses.field(repr=False)
    submit_key: str = dataclasses.field(repr=False)
    work_dir: str | None
    service_id: str
    liveness_ms: int | None
    runtime_env: Mapping[str, Any] | None
    start_timeout_s: float


@dataclasses.dataclass
class _Running:
    """A worker actor."""

    handle: Any
    node: Node
    #: The future of ``serve``, which ends with the worker.
    serving: Any
    #: The time of the start.
    started_s: float
    #: Whether the worker was asked to shut down.
    is_draining: bool = False


class Controller:
    """The actor that runs a service. Its thread looks at the service twice a second."""

    def __init__(self, terms: Terms) -> None:
        terms.settings.release.check("the head node of Ray", here())
        # Ray keeps the standard error of each actor in a log file of its own.
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._terms = terms
        # A restarted controller has other names: the dispatcher may still list the workers of the former controller.
        self._plan = Plan(terms.bounds, terms.start_timeout_s, _DRAIN_S, f"worker-{secrets.token_hex(3)}")
        self._running: dict[str, _Running] = {}
        #: The times until which nodes are the last choice, by node.
        self._avoided: dict[str, float] = {}
        self._probes = Probes()
        self._lock = threading.Lock()
        self._target: str | None = None
        self._problem: str | None = None
        self._is_closing = threading.Event()
        self._has_ended = threading.Event()
        self._dispatcher: Any = None
        self._dispatcher_failures = 0
        self._was_shut_down = False
        self._thread = threading.Thread(target=self._run, name="millstream-controller", daemon=True)
        self._thread.start()

    def target(self, timeout_s: float) -> str:
        """Blocks until the dispatcher serves, and returns its address.

        Raises:
            DeadlineExceededError: The dispatcher did not serve in time.
        """
        self._until(timeout_s, "the dispatcher did not start", lambda: self._target is not None)
        assert self._target is not None
        return self._target

    def contact(self) -> tuple[str, str]:
        """Returns the dispatcher's address, and the key of the programs that attach to the service."""
        return self.target(_ANSWER_S), self._terms.submit_key

    def wait(self, workers: int | None, timeout_s: float) -> None:
        """Blocks until this many workers serve, by default the target number.

        Raises:
            DeadlineExceededError: Fewer workers serve after the time.
        """

        def is_complete() -> bool:
            return self._serving() >= (self._plan.scale.target if workers is None else workers)

        wanted = "all workers" if workers is None else f"{workers} workers"
        self._until(timeout_s, f"the service did not reach {wanted}", is_complete)

    def workers(self) -> list[dict[str, Any]]:
        """Returns the workers, as dicts of name, state, address, Ray's node and the node's address."""
        with self._lock:
            described = []
            for name, running in self._running.items():
                member = self._plan.members.get(name)
                state = State.DRAINING if member is None else member.state
                address = None if member is None else member.address
                described.append(
                    {"name": name, "state": state.value, "address": address, "node": running.node.name, "node_address": running.node.address}
                )
            return described

    def wanted(self) -> int:
        """Returns the number of workers that the service runs or will run."""
        return self._plan.scale.target

    @ray.method(concurrency_group="close")  # type: ignore[untyped-decorator]
    def close(self) -> None:
        """Drains all workers, ends the service, and returns when all actors but this one have ended."""
        self._is_closing.set()
        # Each step of the end has a time limit, so the thread ends by itself.
        while not self._has_ended.wait(_LOOK_S) and self._thread.is_alive():
            pass

    def _serving(self) -> int:
        with self._lock:
            return sum(member.state is State.SERVING for member in self._plan.members.values())

    def _until(self, timeout_s: float, failure: str, is_reached: Any) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_reached():
            failures = max(self._plan.failed_starts, self._dispatcher_failures)
            if self._problem is not None and failures >= _FAILED_STARTS_MAX or self._has_ended.is_set():
                raise UnavailableError(f"{failure}: {self._problem or 'the service was closed'}")
            if time.monotonic() > deadline:
                raise DeadlineExceededError(f"{failure} within {timeout_s:.0f} s: {self._problem or self._places()}")
            time.sleep(0.05)

    def _places(self) -> str:
        """Describes why workers may be missing."""
        needs, found = self._terms.resources, nodes()
        offering = [node for node in found if node.offers(needs, self._terms.near)]
        free = sum(node.room(needs) >= 1.0 for node in offering)
        near = "" if self._terms.near is None else f" and the resource {self._terms.near}"
        serving = f"{self._serving()} of {self._plan.scale.target} workers serve"
        if free:
            return f"{serving}, and {free} of {len(found)} nodes of Ray have room for a worker with {dict(needs)}{near}"
        if offering:
            cause = f"processes of Ray use {len(offering)} of {len(found)} nodes that are large enough"
        else:
            cause = f"none of {len(found)} nodes of Ray is large enough"
        return f"{serving}. No node has room for a worker with {dict(needs)}{near}: {cause}. Ask for fewer workers or resources, or add nodes"

    def _run(self) -> None:
        while not self._is_closing.is_set():
            began_s = time.monotonic()
            try:
                self._look()
            except Exception as error:  # The service must outlive every failure of a look.
                self._problem = _in_one_line(error)
                _log.exception("a look at the service failed")
            self._is_closing.wait(max(0.0, _LOOK_S - (time.monotonic() - began_s)))
        try:
            self._end()
        finally:
            self._has_ended.set()
        if self._was_shut_down:
            # No program may be there to end this actor. Calls that wait receive their errors first.
            time.sleep(_LOOK_S)
            ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    def _look(self) -> None:
        self._probes = Probes()
        found = self._observed()
        if self._target is None or self._was_shut_down:
            # Workers cannot start before the dispatcher has served for the first time.
            return
        now_s = time.monotonic()
        with self._lock:
            starting = {name for name, member in self._plan.members.items() if member.state is State.STARTING}
            actions = self._plan.step(now_s, found)
            self._avoid_nodes_of(starting.intersection(actions.end).difference(found.failed), now_s)
            if all(member.state is State.SERVING for member in self._plan.members.values()):
                self._problem = None
        self._carry_out(actions)

    def _observed(self) -> Observation:
        age_s, addresses, wanted = 0.0, None, None
        try:
            if self._dispatcher is None:
                self._dispatcher = self._new_dispatcher()
            if self._target is None:
                self._target = ray.get(self._dispatcher.target.remote(), timeout=_ANSWER_S)
                _log.info("dispatcher serving at %s", self._target)
            report = ray.get(self._dispatcher.report.remote(), timeout=_ANSWER_S)
            if report is None:
                self._shut_down()
                return Observation()
            age_s, addresses, wanted = report
            if self._dispatcher_failures:
                self._dispatcher_failures, self._problem = 0, None
        except ray.exceptions.ActorDiedError as error:
            # Ray restarts a dispatcher that dies, but not a dispatcher that cannot start.
            self._problem, self._dispatcher = _in_one_line(error), None
            self._dispatcher_failures += 1
            self._is_closing.wait(min(_LOOK_S * 2**self._dispatcher_failures, _ANSWER_S))
        except ray.exceptions.RayError as error:
            # The dispatcher starts again, or is slow. The failure of a worker says more.
            self._problem = self._problem or f"the dispatcher: {_in_one_line(error)}"
        failed, drained = self._ended_workers(addresses)
        return Observation(addresses, age_s, wanted, failed, drained)

    def _avoid_nodes_of(self, ended: Iterable[str], now_s: float) -> None:
        """Makes the nodes of workers that did not start in time the last choice for a while."""
        self._avoided = {node: until_s for node, until_s in self._avoided.items() if until_s > now_s}
        for name in ended:
            running = self._running.get(name)
            if running is not None and now_s - running.started_s >= self._terms.start_timeout_s - _SETTLE_S:
                self._problem = f"{name} on {running.node.address}: did not start within {self._terms.start_timeout_s:.0f} s"
                self._avoided[running.node.name] = now_s + _AVOID_S

    def _shut_down(self) -> None:
        """Ends the service, because a user has shut its dispatcher down."""
        _log.info("the service was shut down")
        self._problem = "the service was shut down"
        self._was_shut_down = True
        self._is_closing.set()

    def _new_dispatcher(self) -> Any:
        terms = self._terms
        options = {"num_cpus": 0, "resources": HEAD, "max_restarts": -1, "max_concurrency": 4, **self._environment()}
        return actor(DispatcherActor, **options).remote(
            terms.dispatcher_key, terms.submit_key, terms.work_dir, terms.service_id, terms.liveness_ms, terms.settings.release
        )

    def _environment(self) -> dict[str, Any]:
        """Returns the option with Ray's environment of the actors."""
        return {} if self._terms.runtime_env is None else {"runtime_env": dict(self._terms.runtime_env)}

    def _ended_workers(self, addresses: Mapping[str, str] | None) -> tuple[list[str], list[str]]:
        """Returns the workers that have failed, and those whose drain has ended. Checks the nodes of workers that the dispatcher does not list."""
        failed: list[str] = []
        drained: list[str] = []
        if not self._running:
            return failed, drained
        futures = [running.serving for running in self._running.values()]
        ready = set(ray.wait(futures, num_returns=len(futures), timeout=0, fetch_local=False)[0])
        unlisted = [
            running.node
            for name, running in self._running.items()
            if addresses is not None and name not in addresses and running.serving not in ready
        ]
        health = self._probes.of(unlisted)
        for name, running in self._running.items():
            if running.serving in ready:
                try:
                    ray.get(running.serving, timeout=_ANSWER_S)
                    (drained if running.is_draining else failed).append(name)
                except Exception as error:
                    self._problem = f"{name} on {running.node.address}: {_in_one_line(error)}"
                    failed.append(name)
            elif addresses is not None and name not in addresses and health[running.node.name] is Health.ENDED:
                self._problem = f"{name}: the Ray node {running.node.address} is dead"
                failed.append(name)
        return failed, drained

    def _carry_out(self, actions: Actions) -> None:
        for name in actions.end:
            self._kill(name)
        for name in actions.drain:
            running = self._running.get(name)
            if running is not None:
                _log.info("draining %s on %s", name, running.node.address)
                running.is_draining = True
                running.handle.drain.remote()
        if actions.start:
            self._start_all(actions.start)

    def _start_all(self, names: Sequence[str]) -> None:
        placement: Placement | None = None
        for at, name in enumerate(names):
            try:
                placement = placement or self._placement()
                node = placement.next()
                if node is None:
                    self._problem = self._places()
                    for unplaced in names[at:]:
                        self._failed_to_start(unplaced, is_permanent=not placement.is_large_enough)
                    return
                self._start(name, node)
            except Exception as error:  # The other workers must start, although Ray refuses this one.
                self._problem = f"{name}: {_in_one_line(error)}"
                _log.exception("the start of %s failed", name)
                self._failed_to_start(name, is_permanent=True)

    def _placement(self) -> Placement:
        settled_s = time.monotonic() - _SETTLE_S
        used = collections.Counter(running.node.name for running in self._running.values())
        unsettled = collections.Counter(running.node.name for running in self._running.values() if running.started_s > settled_s)
        return Placement(nodes(), used, unsettled, self._avoided, self._terms.resources, self._terms.near, self._probes)

    def _start(self, name: str, node: Node) -> None:
        terms = self._terms
        resources = dict(terms.resources)
        options: dict[str, Any] = {
            "num_cpus": resources.pop("CPU", 0),
            "num_gpus": resources.pop("GPU", 0),
            "resources": resources,
            "max_restarts": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node.name, soft=False),
            "max_concurrency": 2,
            **self._environment(),
        }
        handle = actor(WorkerActor, **options).remote(name, self._target, terms.settings)
        with self._lock:
            self._running[name] = _Running(handle, node, handle.serve.remote(), time.monotonic())
        _log.info("starting %s on %s", name, node.address)

    def _failed_to_start(self, name: str, *, is_permanent: bool) -> None:
        """Tells the plan that a worker has no process, so that the plan tries again later."""
        with self._lock:
            self._plan.failed_to_start(time.monotonic(), name, is_permanent=is_permanent)

    def _kill(self, name: str) -> None:
        with self._lock:
            running = self._running.pop(name, None)
        if running is not None:
            _log.info("ending %s on %s", name, running.node.address)
            with contextlib.suppress(Exception):
                ray.kill(running.handle, no_restart=True)

    def _end(self) -> None:
        """Drains and ends the workers, and then the dispatcher."""
        with self._lock:
            actions = self._plan.drain_all(time.monotonic())
        self._carry_out(actions)
        deadline = time.monotonic() + _DRAIN_S
        while self._running and time.monotonic() < deadline:
            for name in [name for names in self._ended_workers(None) for name in names]:
                self._kill(name)
            time.sleep(0.05)
        for name in list(self._running):
            self._kill(name)
        with contextlib.suppress(Exception):
            ray.get(self._dispatcher.shutdown.remote(), timeout=2 * _ANSWER_S)
        with contextlib.suppress(Exception):
            ray.kill(self._dispatcher, no_restart=True)


def _in_one_line(error: BaseException) -> str:
    """Returns the cause of an error of Ray in one line."""
    cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) and error.cause is not None else error
    if isinstance(cause, MillstreamError):
        return str(cause)
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {(lines or [''])[-1][:500]}"
