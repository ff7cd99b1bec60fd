"""Tests of generators: the trainer calls the generator itself, and workers call a copy."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, errors

NUMBER = ms.TensorSpec((), ms.int64)


def counting() -> tuple[Callable[[], Iterator[int]], list[int]]:
    """Returns a generator that yields how often it was called, and its count."""
    count = [0]

    def generator() -> Iterator[int]:
        count[0] += 1
        yield count[0]

    return generator, count


def numbers(dataset: Dataset) -> list[int]:
    return [int(x) for x in dataset]


def generated(generator: Callable[..., Any], *args: Any) -> Dataset:
    return Dataset.from_generator(generator, args=args, output_signature=NUMBER)


def test_a_generator_keeps_its_state() -> None:
    generator, count = counting()
    dataset = generated(generator)
    assert [numbers(dataset) for _ in range(3)] == [[1], [2], [3]] and count == [3]
    assert numbers(dataset.repeat(2).map(lambda x: x + 1)) == [5, 6] and count == [5]


@pytest.mark.parametrize(
    "derived",
    [
        lambda dataset: Dataset.zip(Dataset.range(1), dataset).map(lambda _, x: x),
        lambda dataset: Dataset.range(1).concatenate(dataset).skip(1),
        lambda dataset: Dataset.range(1).flat_map(lambda _: dataset),
        lambda dataset: Dataset.range(1).interleave(lambda _: dataset),
        lambda dataset: Dataset.sample_from_datasets([dataset]),
        lambda dataset: Dataset.choose_from_datasets([dataset], Dataset.from_tensors(np.int64(0))),
        lambda dataset: dataset.with_options(ms.Options()).batch(1).unbatch(),
        lambda dataset: dataset.window(1).flat_map(lambda window: window),
        lambda dataset: dataset.with_output("numpy").prefetch(1),
    ],
)
def test_derived_datasets_call_the_generator_itself(derived: Callable[[Dataset], Dataset]) -> None:
    generator, count = counting()
    dataset = derived(generated(generator))
    gc.collect()
    assert numbers(dataset) == [1] and numbers(dataset) == [2] and count == [2]


def test_a_generator_may_hold_what_cannot_be_copied() -> None:
    lock = threading.Lock()

    def locked(start: Any) -> Iterator[int]:
        with lock:
            yield from range(start, 3)

    assert numbers(generated(locked, 1)) == [1, 2]


def test_a_generator_may_hold_much_data() -> None:
    data = np.zeros(20 << 20, np.uint8)
    assert numbers(generated(lambda: iter([len(data)]))) == [20 << 20]


def test_services_refuse_what_cannot_be_copied(cluster: Callable[..., str]) -> None:
    target, lock = cluster(), threading.Lock()

    def locked() -> Iterator[int]:
        with lock:
            yield 1

    distributed = ms.service.distribute("parallel_epochs", target)
    for dataset in (generated(locked), Dataset.range(1).flat_map(lambda _: generated(locked))):
        with pytest.raises(errors.InvalidArgumentError, match=r"locked.*cannot be sent to workers.*lock"):
            dataset.apply(distributed)
        with pytest.raises(errors.InvalidArgumentError, match="cannot be sent"):
            pickle.dumps(dataset)
    data = np.zeros(20 << 20, np.uint8)
    with pytest.raises(errors.InvalidArgumentError, match="captured data"):
        generated(lambda: iter([len(data)])).apply(distributed)


def test_sending_large_code_warns(cluster: Callable[..., str], recwarn: pytest.WarningsRecorder) -> None:
    data = np.zeros(2 << 20, np.uint8)
    dataset = generated(lambda: iter([len(data)]))
    assert numbers(dataset) == [2 << 20] and not recwarn.list
    with pytest.warns(UserWarning, match="captured data"):
        dataset.apply(ms.service.distribute("parallel_epochs", cluster()))


def test_workers_call_a_copy(processes: ms.LocalService) -> None:
    generator, count = counting()
    dataset = generated(generator).apply(ms.service.distribute("parallel_epochs", processes))
    assert set(numbers(dataset)) == {1} and count == [0]


def test_pickled_datasets_call_a_copy() -> None:
    generator, count = counting()
    dataset = generated(generator)
    copy = pickle.loads(pickle.dumps(dataset))
    assert [numbers(copy), numbers(copy), numbers(dataset)] == [[1], [1], [1]] and count == [1]


def test_generators_of_equal_code_stay_apart() -> None:
    (one, count), (other, others) = counting(), counting()
    pairs = Dataset.zip(generated(one).repeat(3), generated(other))
    assert [(int(x), int(y)) for x, y in pairs] == [(1, 1)]
    assert numbers(generated(one)) == [count[0]] and others == [1]


def test_equal_generators_have_equal_definitions() -> None:
    def made() -> bytes:
        return generated(lambda: iter([1]))._graph.to_bytes()

    assert made() == made()


def test_equal_generators_share_a_job(cluster: Callable[..., str]) -> None:
    shared = ms.service.distribute("parallel_epochs", cluster(), job_name="shared")

    def made() -> Dataset:
        return generated(lambda: iter(range(4))).apply(shared)

    datasets = [made(), made()]
    assert sorted(x for dataset in datasets for x in numbers(dataset)) == [0, 1, 2, 3]


def test_a_snapshot_of_a_generator_is_found_again(tmp_path: Path) -> None:
    for _ in range(3):
        assert numbers(generated(lambda: iter(range(3))).snapshot(str(tmp_path))) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


class Data:
    """What a generator holds."""


def test_a_generator_lives_as_long_as_its_datasets() -> None:
    def made() -> tuple[Dataset, weakref.ref[Data]]:
        data = Data()

        def generator() -> Iterator[int]:
            assert isinstance(data, Data)
            yield 1

        return generated(generator).batch(1), weakref.ref(data)

    dataset, left = made()
    gc.collect()
    assert [x.tolist() for x in dataset] == [[1]] and left() is not None
    del dataset
    gc.collect()
    assert left() is None
