"""Tests of a service on Ray: placement, restarts, scaling, and the use in tasks and actors."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray_cluster import HEAD, PORT, SLOT, Cluster, eventually

import millstream as ms
from millstream._connection import connect
from millstream.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)

#: The number of nodes besides the head node.
NODES = 2
#: The resources of a worker, which the head node does not have.
NEEDS = {"CPU": 1, SLOT: 0.5}
#: The names of the processes of a service.
ACTORS = ("ray::Controller", "ray::DispatcherActor", "ray::WorkerActor")


@pytest.fixture
def service(ray_nodes: Cluster) -> Iterator[ms.ray.RayService]:
    with ms.ray.serve(2, NEEDS) as running:
        yield running


def numbers(service: Any, count: int, step_s: float = 0.0) -> list[int]:
    """Reads an exactly-once epoch of numbers, whose work takes ``step_s`` seconds for each number."""

    def worked(x: Any) -> Any:
        time.sleep(step_s)
        return x

    dataset = ms.Dataset.range(count).split_size(4).map_python(worked, element_spec=ms.TensorSpec((), ms.int64))
    exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", dp_rank=0, dp_size=1)
    return [int(x) for x in dataset.apply(exactly)]


def numbers_read_slowly(service: Any, count: int, step_s: float, pause_s: float) -> list[int]:
    """Reads an exactly-once epoch of numbers. The reader pauses before each number of the second half.

    Each number is an array of 1 MiB, because small elements would wait in buffers, and no worker would look idle.
    """

    def worked(x: Any) -> Any:
        time.sleep(step_s)
        return np.full(1 << 17, int(x))

    dataset = ms.Dataset.range(count).split_size(4).map_python(worked, element_spec=ms.TensorSpec((1 << 17,), ms.int64))
    exactly = ms.service.distribute("distributed_epoch", service, visitation="exactly_once", dp_rank=0, dp_size=1)
    read = []
    for array in dataset.apply(exactly):
        read.append(int(array[-1]))
        if len(read) > count // 2:
            time.sleep(pause_s)
    return read


def test_workers_are_spread_and_serve(service: ms.ray.RayService) -> None:
    workers = service.workers()
    assert [worker["state"] for worker in workers] == ["serving", "serving"]
    assert len({worker["node"] for worker in workers}) == 2
    assert HEAD not in {worker["node_address"] for worker in workers}
    assert service.target.startswith(f"millstream://{HEAD}:")
    assert numbers(service, 100) == list(range(100))
    assert service.wanted() == 2


def test_a_handle_works_in_tasks_and_actors(service: ms.ray.RayService) -> None:
    @ray.remote(num_cpus=0.1)
    def task(handle: ms.ray.RayService) -> list[int]:
        loader = ms.DataLoader(list(range(64)), batch_size=8, service=handle, output="numpy")
        return [int(x) for batch in loader for x in batch]

    @ray.remote(num_cpus=0.1)
    class Trainer:
        def read(self, handle: ms.ray.RayService) -> tuple[list[int], str]:
            return numbers(handle, 20), os.environ["MILLSTREAM_KEY"]

    before = os.environ.get("MILLSTREAM_KEY")
    assert ray.get(task.remote(service), timeout=60) == list(range(64))
    read, key = ray.get(Trainer.remote().read.remote(service), timeout=60)
    assert read == list(range(20))
    assert "submit" in key
    assert os.environ.get("MILLSTREAM_KEY") == before


def test_a_killed_worker_is_replaced(service: ms.ray.RayService) -> None:
    before = {worker["name"] for worker in service.workers()}

    os.kill(pids("ray::WorkerActor")[0], signal.SIGKILL)
    eventually("a worker is gone", 10, lambda: {worker["name"] for worker in service.workers()} != before)
    service.wait(timeout_s=30)
    assert numbers(service, 50) == list(range(50))


def test_a_killed_dispatcher_continues(service: ms.ray.RayService) -> None:
    rows = numbers_in_background(service)
    (pid,) = pids("ray::DispatcherActor")
    os.kill(pid, signal.SIGKILL)
    assert ray.get(rows, timeout=120) == list(range(400))
    assert len(service.workers()) == 2


def test_a_killed_controller_continues(service: ms.ray.RayService) -> None:
    before = {worker["name"] for worker in service.workers()}
    rows = numbers_in_background(service)
    (pid,) = pids("ray::Controller")
    os.kill(pid, signal.SIGKILL)

    def has_new_workers() -> bool:
        try:
            service.wait(2, timeout_s=1)
            return before.isdisjoint(worker["name"] for worker in service.workers())
        except (UnavailableError, DeadlineExceededError, ray.exceptions.RayActorError):
            return False

    eventually("the new controller runs two workers", 120, has_new_workers)
    assert ray.get(rows, timeout=120) == list(range(400))
    assert [worker["state"] for worker in service.workers()] == ["serving", "serving"]


def test_the_end_of_the_program_ends_the_service(ray_nodes: Cluster) -> None:
    program = f"""
import millstream as ms, ray
ray.init(address="{HEAD}:{PORT}", log_to_driver=False, _node_ip_address="{HEAD}")
service = ms.ray.serve(1, {NEEDS})
print(len(service.workers()))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "1\n", ended.stderr
    eventually("all actors have ended", 30, lambda: not any(pids(name) for name in ACTORS))


def test_the_environment_reaches_the_workers(ray_nodes: Cluster) -> None:
    with ms.ray.serve(1, NEEDS, runtime_env={"env_vars": {"MILL_TEST": "7"}}) as service:
        read = ms.Dataset.range(1).map_python(lambda x: int(os.environ["MILL_TEST"]), element_spec=ms.TensorSpec((), ms.int64))
        assert [int(x) for x in read.apply(ms.service.distribute("distributed_epoch", service))] == [7]


def test_records_are_removed_or_kept(ray_nodes: Cluster, tmp_path: Path) -> None:
    session = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    # The service of a program that ended without a close leaves its records.
    before = set(session.glob("millstream-*"))
    with ms.ray.serve(1, NEEDS):
        (records,) = set(session.glob("millstream-*")) - before
        assert records.stat().st_mode & 0o777 == 0o700
        assert list(records.iterdir())
    assert not records.exists()
    with ms.ray.serve(1, NEEDS, work_dir=str(tmp_path / "records")) as service:
        target = service.target
        assert set(session.glob("millstream-*")) == before
    assert list(tmp_path.joinpath("records").iterdir())
    with ms.ray.serve(1, NEEDS, work_dir=str(tmp_path / "records")) as service:
        assert service.target == target
        assert numbers(service, 20) == list(range(20))


@pytest.mark.parametrize("name", [None, "busy"])
def test_a_service_closes_while_programs_wait(ray_nodes: Cluster, name: str | None) -> None:
    session = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    before = set(session.glob("millstream-*"))
    service = ms.ray.serve(1, NEEDS, name=name)
    (records,) = set(session.glob("millstream-*")) - before
    closing = service if name is None else ms.ray.attach(name)
    # More programs wait for workers than the controller has threads.
    waits = [service._controller.wait.remote(99, 300.0) for _ in range(40)]
    closing.close()
    # Only a service that has ended itself removes its records.
    assert not records.exists()
    for wait in waits:
        with pytest.raises((UnavailableError, ray.exceptions.RayError)):
            ray.get(wait, timeout=60)


def test_a_shutdown_ends_the_service(ray_nodes: Cluster) -> None:
    service = ms.ray.serve(1, NEEDS)
    connect(service.target.partition("://")[2]).shutdown()
    eventually("all actors have ended", 60, lambda: not any(pids(name) for name in ACTORS))
    service.close()


def numbers_in_background(service: ms.ray.RayService) -> Any:
    @ray.remote(num_cpus=0)
    def read(handle: ms.ray.RayService) -> list[int]:
        return numbers(handle, 400, 0.01)

    future = read.remote(service)
    time.sleep(2)
    return future


def pids(name: str) -> list[int]:
    """Returns the processes of all nodes whose command line begins with ``name``."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and folder.joinpath("cmdline").read_text().startswith(name):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_the_number_follows_the_readers(ray_nodes: Cluster) -> None:
    # The dispatcher keeps surplus workers for longer than the watchdog of all tests permits.
    faulthandler.dump_traceback_later(1200, exit=True)
    count = 6000
    with ms.ray.serve(1, NEEDS, min=0, max=3) as service:

        @ray.remote(num_cpus=0)
        def train(handle: ms.ray.RayService) -> list[int]:
            return numbers_read_slowly(handle, count, step_s=0.02, pause_s=0.05)

        trained = train.remote(service)
        eventually("more workers", 60, lambda: service.wanted() == 3)
        service.wait(3, timeout_s=60)
        # The trainer becomes slow, and one worker suffices. The others are drained while the trainer reads.
        eventually("fewer workers", 240, lambda: len(service.workers()) == 1)
        assert not ray.wait([trained], timeout=0)[0], "the trainer ended before the workers were drained"
        assert ray.get(trained, timeout=300) == list(range(count))
        # The dispatcher keeps the last worker for 300 s after the last reader.
        eventually("no workers", 360, lambda: not service.workers())
        assert numbers(service, 100) == list(range(100))
        assert service.wanted() >= 1


def test_near_selects_nodes_with_a_resource(ray_nodes: Cluster) -> None:
    address = ray_nodes.add(cpus=2, gpu_like=1)
    try:
        with ms.ray.serve(2, {"CPU": 1}, near="gpu_like") as service:
            assert {worker["node_address"] for worker in service.workers()} == {address}

            @ray.remote(num_cpus=0, resources={"gpu_like": 0.1})
            def transports(handle: ms.ray.RayService) -> set[str]:
                dataset = ms.Dataset.from_tensors(np.zeros(4096)).repeat(30)
                elements = iter(dataset.apply(ms.service.distribute("parallel_epochs", handle, target_workers="HOST")))
                assert len(list(elements)) == 60
                return set(elements.stats()["transports"].values())

            assert ray.get(transports.remote(service), timeout=60) == {"shm"}
    finally:
        ray_nodes.kill(address)


def test_a_named_service_is_found(ray_nodes: Cluster) -> None:
    with pytest.raises(NotFoundError, match="has the name 'mill'"):
        ms.ray.attach("mill")
    with ms.ray.serve(1, NEEDS, name="mill") as service:
        assert ms.ray.attach("mill").target == service.target
        with pytest.raises(AlreadyExistsError, match="'mill'"):
            ms.ray.serve(1, NEEDS, name="mill")
    with pytest.raises(FailedPreconditionError, match="was closed: start another one"):
        next(iter(ms.DataLoader([1, 2], service=service, output="numpy")))


def test_a_service_without_room_names_the_reason(ray_nodes: Cluster) -> None:
    with pytest.raises((DeadlineExceededError, UnavailableError), match=r"0 of 1 workers serve\. No node .*'CPU': 99\.0.*none of \d nodes"):
        ms.ray.serve(1, {"CPU": 99}, timeout_s=5)
    with pytest.raises(InvalidArgumentError, match="expected amounts of 0 or more"):
        ms.ray.serve(1, {"CPU": -1})


def test_resources_that_ray_refuses_are_named(ray_nodes: Cluster) -> None:
    # Ray accepts memory only by another option, and raises an error before it creates an actor.
    with pytest.raises(UnavailableError, match="memory"):
        ms.ray.serve(2, {"CPU": 1, "memory": 1000.0}, timeout_s=60)


def test_other_versions_are_refused(ray_nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ms.ray.here()
    assert found.python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setattr(ms.ray, "here", lambda: dataclasses.replace(found, python="2.7"))
    with pytest.raises(FailedPreconditionError, match=r"the Ray node 127.* runs millstream .* with Python 3.*, but .* with Python 2.7: install"):
        ms.ray.serve(1, NEEDS)


def test_invalid_environments_are_refused(ray_nodes: Cluster) -> None:
    with pytest.raises(InvalidArgumentError, match="runtime_env.*/no/such/folder"):
        ms.ray.serve(1, NEEDS, runtime_env={"working_dir": "/no/such/folder"})
    with pytest.raises(InvalidArgumentError, match="Ray refuses the settings of the service"):
        ms.ray.serve(1, NEEDS, name="")
