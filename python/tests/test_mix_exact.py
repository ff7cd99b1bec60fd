"""Tests of mixtures of exactly-once components: killed workers, resumes, and other numbers of trainers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset, Mixture
from millstream.errors import InvalidArgumentError
from mixtures import ALL, NEVER, STOPS, mixture, taken, wire

Start = Callable[..., str]

class Slow:
    """Computes an element in a few milliseconds, so that a worker is killed in the middle of a split."""

    def __call__(self, x: Any) -> Any:
        time.sleep(0.003)
        return x


def exact(target: Any, stop: str = ALL, slow: bool = False, **arguments: Any) -> Mixture:
    """Returns a mixture of two exactly-once components: even numbers, and multiples of 10 000."""

    def numbers(count: int, factor: int) -> Dataset:
        source = Dataset.range(count).split_size(25).shuffle(10)
        if slow:
            source = source.map_python(Slow(), element_spec=ms.TensorSpec((), ms.int64))
        return source.filter(lambda x: x % 2 == 0).map(lambda x: x * factor).batch(3)

    components = {"small": numbers(400, 1), "large": numbers(150, 10_000)}
    return ms.mix(components, [3, 1], stop=stop, service=target, visitation="exactly_once", output="numpy", seed=3, **arguments)


WANTED = sorted([*range(0, 400, 2), *(x * 10_000 for x in range(0, 150, 2))])


def lists(batches: Iterator[Any], count: int | None = None) -> list[list[int]]:
    return [batch.tolist() for batch in itertools.islice(batches, count)]


def test_exact_components_survive_a_killed_worker() -> None:
    with ms.local(workers=3) as service:
        undisturbed = lists(iter(exact(service, slow=True)))
        assert sorted(x for batch in undisturbed for x in batch) == WANTED
        batches = iter(exact(service, slow=True))
        found = lists(batches, 15)
        os.kill(service.pids[1], signal.SIGKILL)
        assert found + lists(batches) == undisturbed


@pytest.mark.parametrize("count", [0, 1, 9, 40, 90])
@pytest.mark.parametrize("stop", STOPS)
def test_exact_components_resume_in_the_middle(cluster: Start, count: int, stop: str) -> None:
    target = cluster(2)
    made = exact(target, stop)
    batches = iter(made)
    whole = lists(batches, 110)
    first = exact(target, stop)
    found = lists(iter(first), count)
    if stop == NEVER:
        first.close()
    state = wire(first.state_dict())
    second = exact(cluster(1), stop)
    second.load_state_dict(state)
    assert second.state_dict() == state and len(json.dumps(state)) < 1024
    found += lists(iter(second), 10 if stop == NEVER else None)
    second.close()
    assert found + lists(iter(second), len(whole) - len(found)) == whole


@pytest.mark.parametrize("later", [1, 2, 4])
def test_exact_mixtures_continue_with_other_trainers(cluster: Start, later: int) -> None:
    target = cluster(2)
    states, found = [], []
    for rank in range(3):
        part = exact(target, dp_rank=rank, dp_size=3)
        part.set_mixture([1, 1], at_step=9)
        found += lists(iter(part), 13)
        states.append(part.state_dict())
    joined = wire(ms.joined_states(states, later))
    assert joined["step"] == 13
    names = set()
    for rank in range(later):
        part = exact(target, dp_rank=rank, dp_size=later)
        part.load_state_dict(joined)
        names.add(part.component(9))
        found += lists(iter(part), 4)
        # A second change of the process, in the middle of the rest.
        rest = exact(target, dp_rank=rank, dp_size=later)
        rest.load_state_dict(part.state_dict())
        found += lists(iter(rest))
    assert sorted(x for batch in found for x in batch) == WANTED and len(names) == 1


def counted(target: Any, stop: str, **arguments: Any) -> Mixture:
    """Returns a mixture of exactly-once components of known length, which end at the same step on all trainers."""
    components = {name: Dataset.range(first, first + count).shuffle(20).batch(5) for name, first, count in (("a", 0, 300), ("b", 1000, 200))}
    return ms.mix(
        components, [3, 1], stop=stop, service=target, visitation="exactly_once", last_batch="DROP", output="numpy", seed=3, with_names=True, **arguments
    )


@pytest.mark.parametrize("stop", STOPS)
def test_components_of_known_length_keep_trainers_together(cluster: Start, stop: str) -> None:
    target = cluster(2)
    parts = [counted(target, stop, dp_rank=rank, dp_size=2) for rank in range(2)]
    for count in (7, 40, 80):
        runs = [[(name, batch.tolist()) for name, batch in itertools.islice(part, count)] for part in parts]
        assert [name for name, _ in runs[0]] == [name for name, _ in runs[1]]
        assert all(mine != other for (_, mine), (_, other) in zip(*runs, strict=True))
        assert parts[0].state_dict() == parts[1].state_dict()
    assert stop == NEVER or len(parts[0]) == len(parts[1])


def test_one_state_continues_on_any_trainers(cluster: Start) -> None:
    target = cluster(2)
    state, found, names = counted(target, ALL).state_dict(), [], []
    for size, count in ((2, 8), (3, 7), (1, 5), (2, 4), (1, None)):
        parts = [counted(target, ALL, dp_rank=rank, dp_size=size) for rank in range(size)]
        for part in parts:
            part.load_state_dict(state)
        runs = [[(name, batch.tolist()) for name, batch in itertools.islice(part, count)] for part in parts]
        found += [x for run in runs for _, batch in run for x in batch]
        names += [name for name, _ in runs[0]]
        state = wire(ms.joined_states([part.state_dict() for part in parts], 5))
    assert sorted(found) == [*range(300), *range(1000, 1200)]
    lone = counted(target, ALL)
    assert names[:24] == [lone.component(step) for step in range(24)]


def test_states_that_cannot_be_joined_are_refused(cluster: Start) -> None:
    target = cluster(1)
    states = []
    for rank in range(2):
        part = exact(target, dp_rank=rank, dp_size=2)
        lists(iter(part), 5)
        states.append(part.state_dict())
    changed = exact(target, dp_rank=1, dp_size=2)
    changed.set_mixture([1, 1], at_step=9)
    plain = [mixture({"a": 40, "b": 40}) for _ in range(2)]
    taken(iter(plain[0]), 3)
    endless = [exact(target, NEVER, dp_rank=rank, dp_size=2) for rank in range(2)]
    lists(iter(endless[0]), 3)
    lists(iter(endless[1]), 200)
    uneven = [counted(target, ALL, dp_rank=rank, dp_size=2) for rank in range(2)]
    next(iter(uneven[0]))
    for parts, reason in [
        ([one.state_dict() for one in uneven], "component '[ab]' has different states.*last_batch='DROP'"),
        ([one.state_dict() for one in endless], "in epoch 0 on some trainers and in epoch [1-9]"),
        ([states[0], changed.state_dict()], "found the weights"),
        ([states[0], states[0]], "component 'large'"),
        ([one.state_dict() for one in plain], "component '[ab]' has different states"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            ms.joined_states(parts, 1)
