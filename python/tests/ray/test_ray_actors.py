"""Tests of the actors of a service, as plain objects of this process."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from millstream import _ray_actors, _ray_check
from millstream._millstream import role_key
from millstream._ray_actors import DispatcherActor
from millstream._ray_controller import Terms
from millstream._ray_plan import Bounds
from millstream.errors import FailedPreconditionError
from millstream.service import DispatchServer


@pytest.fixture
def dispatcher() -> Iterator[DispatcherActor]:
    """Yields the actor of a dispatcher that runs in this process."""
    with DispatchServer() as server:
        actor = DispatcherActor.__new__(DispatcherActor)
        actor._server, actor._address = server, server.target.partition("://")[2]
        actor._started_s, actor._connection, actor._temporary = 0.0, None, None
        yield actor


def test_reports_share_one_connection(dispatcher: DispatcherActor, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def connect(address: str, **options: Any) -> Any:
        opened.append(_connect(address, **options))
        return opened[-1]

    _connect = _ray_actors.connect
    monkeypatch.setattr(_ray_actors, "connect", connect)
    for _ in range(3):
        assert dispatcher.report()[1:] == ({}, None)
    assert len(opened) == 1


def test_a_shutdown_is_reported(dispatcher: DispatcherActor, tmp_path: Path) -> None:
    dispatcher._temporary = tmp_path / "records"
    dispatcher._temporary.mkdir()
    dispatcher._connected().shutdown()
    dispatcher._server.join()
    assert dispatcher.report() is None
    dispatcher.shutdown()
    assert not dispatcher._temporary.exists()


def test_a_failed_dispatcher_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def exit(status: int) -> None:
        raise SystemExit(status)

    def join() -> None:
        raise OSError("the store is full")

    monkeypatch.setattr(os, "_exit", exit)
    actor = DispatcherActor.__new__(DispatcherActor)
    actor._server = types.SimpleNamespace(_has_ended=lambda: True, join=join)  # type: ignore[assignment]
    with pytest.raises(SystemExit):
        actor.report()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], DispatcherActor]:
    """Returns a function that starts the actor of a dispatcher with records in a directory of the test."""
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setattr(_ray_actors, "_TAKE_OVER_S", 5.0)
    keys = role_key("dispatcher"), role_key("submit")
    # The actor changes the variable.
    monkeypatch.setenv("MILLSTREAM_KEY", keys[1])
    return lambda: DispatcherActor(*keys, str(tmp_path), "id", None, _ray_actors.here())


@pytest.mark.parametrize("text", [b"", b"x", b"99999", b"-1", b"\xff"])
def test_an_unreadable_port_is_ignored(started: Callable[[], DispatcherActor], tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "ray-port"
    file.write_bytes(text)
    actor = started()
    try:
        assert actor.target().endswith(f":{file.read_text()}")
    finally:
        actor.shutdown()


def test_a_restarted_dispatcher_keeps_its_port(started: Callable[[], DispatcherActor], tmp_path: Path) -> None:
    first = started()
    first._server.stop()
    again = started()
    try:
        assert again.target() == first.target()
    finally:
        again.shutdown()


def test_a_dying_dispatcher_leaves_the_port(monkeypatch: pytest.MonkeyPatch, started: Callable[[], DispatcherActor], tmp_path: Path) -> None:
    first = started()
    first._server.stop()
    write_text = Path.write_text

    def half(path: Path, text: str) -> int:
        write_text(path, text[:2])
        raise SystemExit("the process is killed")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(SystemExit):
        started()
    monkeypatch.undo()
    assert first.target().endswith(f":{tmp_path.joinpath('ray-port').read_text()}")


def test_keys_are_not_shown() -> None:
    settings = _ray_actors.Settings("secret-w", 1, None, (), _ray_actors.here())
    terms = Terms(Bounds(1, 1, 1), {}, None, settings, "secret-d", "secret-s", None, "id", None, None, 1.0)
    assert "secret" not in repr(terms)
    assert (terms.settings.key, terms.dispatcher_key, terms.submit_key) == ("secret-w", "secret-d", "secret-s")


def test_nodes_without_millstream_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(answer: object) -> None:
        raise ray.exceptions.RayTaskError("found", "", ImportError("no such extension")).as_instanceof_cause()

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(FailedPreconditionError, match="^node 7 cannot import millstream .no such extension.: install millstream"):
        _ray_check._check_answer(_ray_actors.here(), "node 7", None)
