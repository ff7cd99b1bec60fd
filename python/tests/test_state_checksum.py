"""Tests that states which lost entries after they were saved are refused, and that all other states are accepted."""

from __future__ import annotations

import itertools
import json
import pickle
from typing import Any

import pytest

import millstream as ms
from millstream._state_checksum import check_complete, with_checksum
from millstream.errors import InvalidArgumentError


def divided() -> ms.DataLoader:
    numbers = ms.Dataset.range(120).split_size(40).batch(4)
    return ms.DataLoader(numbers, visitation="exactly_once", seed=3, output="numpy")


def mixture() -> ms.Mixture:
    return ms.mix({"one": divided(), "other": divided()}, seed=5)


def without(state: dict[str, Any], name: str) -> dict[str, Any]:
    return {entry: value for entry, value in state.items() if entry != name}


def test_a_state_that_lost_entries_is_refused() -> None:
    one = divided()
    list(itertools.islice(one, 3))
    state = one.state_dict()
    assert state["had"] == {"0": 3}
    for lossy in (state | {"had": {}}, without(state, "had"), state | {"had": {"0": 2}}):
        with pytest.raises(InvalidArgumentError, match=r"missing or changed entries .* ms.torch.LoaderState"):
            divided().load_state_dict(lossy)
        with pytest.raises(InvalidArgumentError, match="missing or changed entries"):
            divided().load_state_dict(lossy, strict=False)
        with pytest.raises(InvalidArgumentError, match="missing or changed entries"):
            ms.joined_states([lossy], 2)


def test_a_mixture_that_lost_entries_is_refused() -> None:
    mixed = mixture()
    list(itertools.islice(mixed, 7))
    state = mixed.state_dict()
    parts = state["components"]
    for lossy in (state | {"step": 6}, state | {"components": parts | {"one": parts["one"] | {"had": {}}}}):
        with pytest.raises(InvalidArgumentError, match="missing or changed entries"):
            mixture().load_state_dict(lossy)


def test_states_without_checksums_or_empty_dicts_load() -> None:
    one = divided()
    taken = [batch.tolist() for batch in itertools.islice(one, 10)]
    state = one.state_dict()
    assert state["had"] == {}
    for same in (without(state, "checksum"), without(state, "had"), state | {"checksum": None}):
        resumed = divided()
        resumed.load_state_dict(same)
        assert taken + [batch.tolist() for batch in resumed] == [batch.tolist() for batch in divided()]


def test_round_trips_keep_the_checksum() -> None:
    # Numbers as keys sort in another order than their texts.
    own = {10: (1, 2.5), 9: None, True: {"deep": [{}, {"x": float("inf")}]}}
    state = with_checksum({"step": 1, "iterable": {"dataset": own}})
    check_complete(json.loads(json.dumps(state)))
    check_complete(pickle.loads(pickle.dumps(state)))
    check_complete(with_checksum({"iterable": {"unknown": object()}}))
    with pytest.raises(InvalidArgumentError):
        check_complete(json.loads(json.dumps(state).replace("2.5", "2.6")))
