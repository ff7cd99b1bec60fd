"""Tests of plans: each epoch has every sample once, all trainers have the same number of steps, and the seed and the epoch set the order."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from millstream._plan import IndexPlan, ListedPlan, permuted
from millstream._positions import RANGES_MAX, Delivered


def test_a_permutation_depends_on_epoch_and_seed() -> None:
    for count in (1, 2, 3, 7, 64, 100, 1000):
        found = permuted(np.arange(count), count, 1, 0)
        assert sorted(found.tolist()) == list(range(count))
        # Any part of the permutation can be computed alone.
        assert permuted(np.arange(count)[-3:], count, 1, 0).tolist() == found[-3:].tolist()
    orders = {tuple(permuted(np.arange(100), 100, seed, epoch).tolist()) for seed in range(4) for epoch in range(4)}
    assert len(orders) == 16


def test_a_permutation_leaves_no_pattern() -> None:
    found = permuted(np.arange(1 << 14), 1 << 14, 3, 5)
    steps = np.diff(found)
    # Hardly any shuffled number is next to its neighbour, and both halves are mixed.
    assert (np.abs(steps) == 1).sum() < 20
    assert abs((found[: 1 << 13] < 1 << 13).mean() - 0.5) < 0.05


@pytest.mark.parametrize("last_batch", ["PARTIAL", "FILL", "DROP"])
def test_trainers_read_samples_once_in_equal_steps(last_batch: str) -> None:
    for count, batch, size, shuffle in itertools.product((1, 5, 8, 16, 17, 23), (1, 4), (1, 2, 3), (False, True)):
        plans = [IndexPlan(count, batch, rank, size, shuffle, 7, last_batch) for rank in range(size)]
        assert len({plan.steps for plan in plans}) == 1
        seen = []
        for step in range(plans[0].steps):
            for plan in plans:
                rows = plan.rows(2, step)
                assert 1 <= len(rows) <= batch and (last_batch == "PARTIAL" or len(rows) == batch)
                seen += rows[: plan.valid(step)].tolist()
        whole = count if last_batch != "DROP" else plans[0].steps * batch * size
        assert len(seen) == len(set(seen)) == whole
        # The set of samples in a step does not depend on the number of trainers.
        one = IndexPlan(count, batch * size, 0, 1, shuffle, 7, last_batch)
        assert one.steps == plans[0].steps
        first = [set(plan.rows(2, 0)[: plan.valid(0)].tolist()) for plan in plans if plans[0].steps]
        assert set().union(*first) == set(one.rows(2, 0)[: one.valid(0)].tolist() if one.steps else [])


def test_listed_batches_are_as_they_were_listed() -> None:
    plan = ListedPlan([[3, 1], [2]])
    assert (plan.steps, plan.rows(0, 0).tolist(), plan.valid(1)) == (2, [3, 1], 1)


def test_delivered_steps_are_a_set_whatever_their_order() -> None:
    rng = random.Random(4)
    for _ in range(50):
        steps, delivered, model = rng.sample(range(40), 30), Delivered(), set()
        for step in steps:
            delivered.add(step)
            delivered.add(step)
            model.add(step)
            first = next(number for number in range(41) if number not in model)
            ahead = {number for start, stop in delivered.ahead for number in range(start, stop)}
            assert (len(delivered), delivered.first) == (len(model), first)
            assert ahead == {number for number in model if number > first}
            again = Delivered(([[0, first]] if first else []) + delivered.ahead)
            assert (again.first, again.ahead) == (delivered.first, delivered.ahead)


def test_what_is_remembered_is_bounded() -> None:
    delivered = Delivered()
    for step in range(1, 1000, 2):
        delivered.add(step)
    assert len(delivered.ahead) == RANGES_MAX
