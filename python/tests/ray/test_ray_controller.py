"""Tests of the controller of a service as a plain object of this process, without a cluster."""

from __future__ import annotations

import threading

import pytest

from millstream import _ray_actors, _ray_controller
from millstream._ray_controller import Controller, Terms
from millstream._ray_plan import Bounds

#: The seconds after which a test gives up.
WATCHDOG_S = 60


@pytest.fixture
def terms() -> Terms:
    settings = _ray_actors.Settings("secret-w", 1, None, (), _ray_actors.here())
    return Terms(Bounds(1, 1, 1), {}, None, settings, "secret-d", "secret-s", None, "id", None, None, 1.0)


def test_close_returns_after_the_end(monkeypatch: pytest.MonkeyPatch, terms: Terms) -> None:
    looks, is_closing, has_closed, early = threading.Event(), threading.Event(), threading.Event(), list[bool]()

    def look(controller: Controller) -> None:
        """Waits for Ray while the service is closed."""
        looks.set()
        is_closing.wait(WATCHDOG_S)
        has_closed.wait(0.3)

    def end(controller: Controller) -> None:
        """Takes as long as workers and a dispatcher may take to end."""
        early.append(has_closed.wait(0.3))

    for constant in ("_ANSWER_S", "_DRAIN_S"):
        monkeypatch.setattr(_ray_controller, constant, 0.1)
    monkeypatch.setattr(Controller, "_look", look)
    monkeypatch.setattr(Controller, "_end", end)
    controller = Controller(terms)
    assert looks.wait(WATCHDOG_S)
    is_closing.set()
    controller.close()
    has_closed.set()
    # The end must not find that the call has returned before.
    assert controller._has_ended.wait(WATCHDOG_S) and early == [False]
