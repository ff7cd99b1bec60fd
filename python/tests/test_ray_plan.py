"""Tests of the plan of a service on Ray, without Ray."""

from __future__ import annotations

import random

import pytest

from millstream import _ray_plan as plans
from millstream._ray_plan import Bounds, Observation, Plan, Scale, State
from millstream.errors import InvalidArgumentError


def serving(plan: Plan, *missing: str) -> dict[str, str]:
    """Returns the dispatcher's list, as if all workers but ``missing`` were registered."""
    return {name: f"{name}:1" for name in plan.members if name not in missing}


def steady(workers: int, least: int | None = None, most: int | None = None) -> Plan:
    """Returns a plan whose workers serve."""
    plan = Plan(Bounds(workers, workers if least is None else least, most or workers), 60.0, 30.0, "worker")
    assert len(plan.step(0.0, Observation({})).start) == workers
    assert plan.step(1.0, Observation(serving(plan), 100.0)) == plans.Actions()
    assert {member.state for member in plan.members.values()} == {State.SERVING}
    return plan


@pytest.mark.parametrize(("workers", "least", "most"), [(0, 0, 1), (1, -1, 1), (2, 3, 4), (5, 1, 4), (1, 1, plans.WORKERS_MAX + 1)])
def test_bounds_are_checked(workers: int, least: int, most: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"min={least}, workers={workers}, max={most}: expected"):
        Bounds(workers, least, most)


def test_a_missing_worker_is_replaced() -> None:
    plan = steady(3)
    missing = Observation(serving(plan, "worker-1"), 100.0)
    assert plan.step(1.5, missing) == plans.Actions()
    assert plan.step(2.1, missing) == plans.Actions(start=("worker-3",), end=("worker-1",))


def test_a_failed_worker_is_replaced_at_once() -> None:
    plan = steady(2)
    found = plan.step(1.1, Observation(serving(plan), 100.0, failed={"worker-0"}))
    assert found == plans.Actions(start=("worker-2",), end=("worker-0",))


def test_an_unreachable_dispatcher_ends_no_worker() -> None:
    plan = steady(2)
    assert plan.step(50.0, Observation(None)) == plans.Actions()
    assert plan.step(51.0, Observation({}, dispatcher_age_s=1.0)) == plans.Actions()
    assert plan.step(59.9, Observation(serving(plan), dispatcher_age_s=9.9)) == plans.Actions()
    lost = Observation({}, dispatcher_age_s=11.0)
    assert plan.step(61.0, lost) == plans.Actions(start=("worker-2", "worker-3"), end=("worker-0", "worker-1"))


def test_failed_starts_are_delayed() -> None:
    plan = Plan(Bounds(1, 1, 1), 60.0, 30.0, "worker")
    now_s, starts = 0.0, []
    while now_s < 120.0:
        found = plan.step(now_s, Observation({}, 100.0, failed=list(plan.members)))
        starts += [now_s] if found.start else []
        now_s += 0.5
    gaps = [late - early for early, late in zip(starts, starts[1:], strict=False)]
    assert gaps[:5] == [1.0, 1.5, 2.5, 4.5, 8.5]
    assert max(gaps) <= plans.RETRY_MAX_S + 0.5
    assert plan.failed_starts in (len(starts) - 1, len(starts))


def test_a_stuck_start_is_replaced() -> None:
    plan = Plan(Bounds(1, 1, 1), 60.0, 30.0, "worker")
    plan.step(0.0, Observation({}))
    assert plan.step(60.0, Observation({}, 60.0)) == plans.Actions()
    assert plan.step(60.5, Observation({}, 60.5)).end == ("worker-0",)
    assert plan.step(61.5, Observation({}, 61.5)).start == ("worker-1",)


def test_workers_of_a_former_plan_are_ignored() -> None:
    former = steady(2)
    plan = Plan(Bounds(2, 2, 2), 60.0, 30.0, "other")
    listed = Observation(serving(former), 100.0)
    assert plan.step(0.0, listed).start == ("other-0", "other-1")
    assert plan.step(1.0, listed) == plans.Actions()
    assert {member.state for member in plan.members.values()} == {State.STARTING}


def test_a_failed_creation_decides_nothing_else() -> None:
    plan = steady(3, least=1, most=3)
    now_s = 60.0
    start = plan.step(now_s, Observation(serving(plan), 100.0, wanted=3, failed={"worker-0"})).start
    assert start == ("worker-3",)
    plan.failed_to_start(now_s + 20, "worker-3")
    assert plan.failed_starts == 1
    assert {member.state for member in plan.members.values()} == {State.SERVING}
    assert plan.step(now_s + 20.4, Observation(serving(plan), 100.0, wanted=3)).start == ()
    assert plan.step(now_s + 20.5, Observation(serving(plan), 100.0, wanted=3)).start == ("worker-4",)


def test_a_full_cluster_is_no_failed_start() -> None:
    plan = Plan(Bounds(1, 1, 1), 60.0, 30.0, "worker")
    for tick in range(20):
        for name in plan.step(tick, Observation({}, 100.0)).start:
            plan.failed_to_start(tick, name, is_permanent=False)
    assert plan.failed_starts == 0
    assert plan.step(20.0, Observation({}, 100.0)).start == ("worker-20",)


def test_a_drain_ends_or_is_ended() -> None:
    plan = steady(4, least=1, most=4)
    now_s = 1.5
    drained = plan.step(now_s, Observation(serving(plan), 100.0, wanted=2)).drain
    assert drained == ("worker-2", "worker-3")
    done = Observation(serving(plan), 100.0, wanted=2, drained={"worker-2"})
    assert plan.step(now_s + 1, done).end == ("worker-2",)
    assert plan.step(now_s + 31, Observation(serving(plan), 100.0, wanted=2)).end == ("worker-3",)


def test_the_target_stays_within_the_bounds() -> None:
    scale = Scale(Bounds(4, 2, 8))
    assert [scale.follow(wanted) for wanted in (None, 5, None, 50, 0)] == [4, 5, 5, 8, 2]


def test_all_workers_end_and_come_back() -> None:
    plan = steady(2, 0, 4)
    drained = plan.step(2.0, Observation(serving(plan), 100.0, wanted=0)).drain
    assert sorted(drained) == ["worker-0", "worker-1"]
    plan.step(3.0, Observation({}, 100.0, wanted=0, drained=set(drained)))
    assert not plan.members
    assert plan.step(4.0, Observation({}, 100.0, wanted=1)).start == ("worker-2",)


def test_equal_bounds_fix_the_target() -> None:
    scale = Scale(Bounds(3, 3, 3))
    assert [scale.follow(wanted) for wanted in (100, 0, None)] == [3, 3, 3]


def test_random_failures_return_to_the_target() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        plan = Plan(Bounds(chance.randint(1, 9), 1, 9), 60.0, 30.0, "worker")
        alive: dict[str, str] = {}
        for tick in range(400):
            is_calm = tick > 250
            now_s = tick * 0.5
            for name in list(alive):
                if not is_calm and chance.random() < 0.05:
                    del alive[name]
            failed = [] if is_calm else [name for name in plan.members if chance.random() < 0.02]
            is_silent = not is_calm and chance.random() < 0.1
            found = Observation(None if is_silent else dict(alive), 100.0, chance.randint(1, 12), failed, list(plan.members)[:1])
            actions = plan.step(now_s, found)
            for name in (*actions.end, *failed):
                alive.pop(name, None)
            alive.update({name: f"{name}:1" for name in actions.start if is_calm or chance.random() < 0.8})
            assert set(actions.start) <= set(plan.members), seed
            assert not set(actions.end) & set(plan.members), seed
        staying = [member for member in plan.members.values() if member.state is not State.DRAINING]
        assert len(staying) == plan.scale.target, f"seed {seed}"
        assert 1 <= plan.scale.target <= 9
