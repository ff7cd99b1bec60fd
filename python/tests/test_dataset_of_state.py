"""Tests that a state of an exactly-once loader is refused by a loader over another dataset."""

from collections.abc import Callable
from typing import Any

import pytest

import millstream as ms
from millstream.errors import InvalidArgumentError

SPEC = ms.TensorSpec([], "int64")


def numbers() -> ms.Dataset:
    return ms.Dataset.range(1000)


def loader(dataset: ms.Dataset, service: Any, **options: Any) -> ms.DataLoader:
    return ms.DataLoader(dataset, service=service, visitation="exactly_once", seed=3, output="numpy", **options)


def state_after(dataset: ms.Dataset, service: Any, steps: int, **options: Any) -> dict[str, Any]:
    reading = loader(dataset, service, **options)
    batches = iter(reading)
    for _ in range(steps):
        next(batches)
    return reading.state_dict()


Change = Callable[[ms.Dataset], ms.Dataset]

REFUSED: dict[str, tuple[Change, Change]] = {
    "shuffle": (lambda x: x.shuffle(100).batch(8), lambda x: x.shuffle(1000).batch(8)),
    "predicate": (lambda x: x.filter(lambda n: n % 2 == 0).batch(8), lambda x: x.filter(lambda n: n % 2 == 1).batch(8)),
    "splits": (
        lambda x: x.split_size(20).filter(lambda n: n >= 0).batch(8),
        lambda x: x.split_size(40).filter(lambda n: n >= 0).batch(8),
    ),
}

ACCEPTED: dict[str, tuple[Change, Change]] = {
    "expression": (lambda x: x.map(lambda n: n + 1).batch(8), lambda x: x.map(lambda n: n + 2).batch(8)),
    "code": (
        lambda x: x.map_python(lambda n: n + 1, element_spec=SPEC).batch(8),
        lambda x: x.map_python(lambda n: n + 2, element_spec=SPEC).batch(8),
    ),
    "prefetch": (lambda x: x.batch(8), lambda x: x.batch(8).prefetch(4)),
    "threads": (lambda x: x.map(lambda n: n + 1, num_parallel_calls=1).batch(8), lambda x: x.map(lambda n: n + 1, num_parallel_calls=4).batch(8)),
}


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_state_of_another_dataset_is_refused(change: str, in_order: bool) -> None:
    saved, loaded = REFUSED[change]
    with ms.local(workers=1, inline=True) as service:
        state = state_after(saved(numbers()), service, 5, in_order=in_order)
        other = loader(loaded(numbers()), service, in_order=in_order)
        with pytest.raises(InvalidArgumentError, match="another source, or with other operations"):
            other.load_state_dict(state)
        same = loader(saved(numbers()), service, in_order=in_order)
        same.load_state_dict(state)
        assert len(list(same)) > 0


@pytest.mark.parametrize("change", ACCEPTED)
def test_changes_of_single_elements_are_accepted(change: str) -> None:
    saved, loaded = ACCEPTED[change]
    with ms.local(workers=1, inline=True) as service:
        state = state_after(saved(numbers()), service, 5)
        other = loader(loaded(numbers()), service)
        other.load_state_dict(state)
        assert len(list(other)) > 0


def test_other_data_of_the_same_length_is_refused() -> None:
    with ms.local(workers=1, inline=True) as service:
        state = state_after(ms.Dataset.from_tensor_slices(list(range(100))).batch(4), service, 5)
        other = loader(ms.Dataset.from_tensor_slices(list(range(1, 101))).batch(4), service)
        with pytest.raises(InvalidArgumentError, match="another source"):
            other.load_state_dict(state)


def test_the_next_epoch_may_have_another_dataset() -> None:
    with ms.local(workers=1, inline=True) as service:
        reading = loader(numbers().shuffle(100).batch(8), service)
        begun, batches = reading.state_dict(), list(reading)
        for state in (begun, reading.state_dict()):
            other = loader(numbers().shuffle(1000).batch(8), service)
            other.load_state_dict(state)
            assert len(list(other)) == len(batches)


def test_lists_of_moved_files_are_accepted() -> None:
    with ms.local(workers=1, inline=True) as service:
        one, other = (ms.Dataset.from_tensor_slices([f"/{folder}/{name}" for name in range(6)]).batch(2) for folder in ("data", "moved"))
        moved = loader(other, service)
        moved.load_state_dict(state_after(one, service, 2))
        assert len(list(moved)) == 1


def test_a_state_without_its_dataset_is_accepted() -> None:
    """The advice of the error, and states of earlier versions."""
    with ms.local(workers=1, inline=True) as service:
        state = state_after(numbers().shuffle(100).batch(8), service, 5)
        del state["dataset"], state["checksum"]
        other = loader(numbers().shuffle(1000).batch(8), service)
        other.load_state_dict(state)
        assert len(list(other)) == 120


def test_states_of_different_datasets_are_not_joined() -> None:
    with ms.local(workers=1, inline=True) as service:
        datasets = numbers().filter(lambda n: n % 2 == 0), numbers().filter(lambda n: n % 2 == 1)
        states = [state_after(dataset.batch(8), service, 5, dp_rank=rank, dp_size=2) for rank, dataset in enumerate(datasets)]
        with pytest.raises(InvalidArgumentError, match="different epochs, seeds, datasets or versions"):
            ms.joined_states(states, 3)
