"""Tests of Python code on workers: functions, datasets with indices, iterables, and their errors."""

from __future__ import annotations

import collections
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset, _code
from millstream._distribute import from_python
from millstream.service import distribute


class Squares:
    """A dataset with indices, like a torch dataset."""

    def __init__(self, count: int, broken: int | None = None) -> None:
        self.count = count
        self.broken = broken

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == self.broken:
            raise LookupError(f"no picture {index}")
        return {"x": np.full(3, index, np.float32), "y": index * index, "name": f"n{index}"}


class Loader:
    """A stand-in for a torch DataLoader, with its attributes."""

    class RandomSampler:
        """A sampler that draws a random order."""

    def __init__(self, dataset: Any, batch_size: int) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = True
        self.sampler = self.RandomSampler()
        self.batch_sampler = object()
        self.collate_fn = lambda samples: [sample["y"] for sample in samples]


# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def count_to(stop: int) -> Iterator[tuple[int, str]]:
    """Yields numbers with their texts. Workers call this function by its name."""
    for number in range(stop):
        yield number, str(number)


def test_packed_code_keeps_the_names_of_files() -> None:
    def outer() -> Any:
        return lambda x: x // 0

    restored = _code.unpacked(_code.packed(outer))
    assert restored.__code__.co_filename == __file__
    assert restored().__code__.co_filename == __file__


def test_a_python_function_runs_here_and_remotely(processes: ms.LocalService) -> None:
    def digits(x: Any) -> dict[str, Any]:
        return {"text": str(x), "digits": np.array([int(digit) for digit in f"{int(x):03}"])}

    dataset = Dataset.range(20).map_python(digits, num_parallel_calls=2).map(lambda row: (row["text"], row["digits"] + 1))
    expected = [(str(x), [int(digit) + 1 for digit in f"{x:03}"]) for x in range(20)]
    assert [(text, found.tolist()) for text, found in dataset] == expected
    distributed = dataset.apply(distribute("distributed_epoch", processes))
    assert sorted((text, found.tolist()) for text, found in distributed) == sorted(expected)


def test_parts_are_matched_by_name(processes: ms.LocalService) -> None:
    def turned(x: Any) -> dict[str, Any]:
        return {"a": x, "b": -x} if x % 2 else {"b": -x, "a": x}

    turning = Dataset.range(4).map_python(turned)
    expected = [{"a": x, "b": -x} for x in range(4)]
    assert list(turning) == expected
    served = turning.apply(distribute("distributed_epoch", processes))
    assert sorted(served, key=lambda element: int(element["a"])) == expected
    spec = {"a": ms.TensorSpec((), ms.int64), "b": ms.TensorSpec((), ms.int64)}
    iterated = ms.from_python(lambda: (turned(np.int64(x)) for x in range(4)), element_spec=spec)
    assert list(iterated) == expected


@pytest.mark.parametrize(
    ("first", "other", "says"),
    [
        ({"a": 1}, {"b": 1}, "expected a dict of a, found a dict of b"),
        ({"a": 1}, 1, "expected a dict of a, found 1"),
        ((1, 2), (1, 2, 3), r"expected a tuple of 2 items, found \(1, 2, 3\)"),
        (1, None, "expected a tensor, found None"),
        (None, 1, "expected None, found 1"),
        (ms.Ragged.from_rows([[1]]), [1], "expected a ragged tensor, found"),
    ],
)
def test_elements_that_are_nested_otherwise_are_refused(
    first: Any, other: Any, says: str, processes: ms.LocalService
) -> None:
    dataset = Dataset.range(2).map_python(lambda x: other if x else first)
    for where in (dataset, dataset.apply(distribute("parallel_epochs", processes))):
        with pytest.raises(ms.errors.UserFunctionError, match=says):
            list(where)


def test_functions_get_elements_as_they_are_nested() -> None:
    nested = Dataset.from_tensor_slices({"a": np.arange(2), "b": ["x", "y"], "c": np.eye(2)})
    seen = nested.map_python(lambda row: f"{row['a']}{row['b']}{row['c'].tolist()}")
    assert list(seen) == ["0x[1.0, 0.0]", "1y[0.0, 1.0]"]
    pairs = Dataset.zip((Dataset.range(2), Dataset.range(2))).map_python(lambda a, b: a + 10 * b)
    assert [int(x) for x in pairs] == [0, 11]


def test_every_index_is_read_once(processes: ms.LocalService) -> None:
    batches = ms.distribute(Squares(101), processes, batch_size=8, shuffle=True)
    assert batches.element_spec["x"] == ms.TensorSpec((None, 3), ms.float32)
    for _ in range(2):
        found = [(int(y), name) for batch in batches for y, name in zip(batch["y"], batch["name"], strict=True)]
        assert sorted(found) == sorted((x * x, f"n{x}") for x in range(101))
    single = ms.distribute(Squares(5), processes)
    assert sorted(int(element["y"]) for element in single) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("shuffle", [False, True])
def test_several_workers_make_as_many_batches(shuffle: bool, processes: ms.LocalService) -> None:
    for drop_last, sizes in ((False, [3] + [4] * 25), (True, [4] * 25)):
        batches = ms.distribute(Squares(103), processes, batch_size=4, shuffle=shuffle, drop_last=drop_last)
        for _ in range(2):
            found = [batch["y"].tolist() for batch in batches]
            assert sorted(map(len, found)) == sizes
            assert len({y for batch in found for y in batch}) == sum(sizes)


def test_a_data_loaders_arguments_are_kept() -> None:
    batches = list(from_python(Loader(Squares(10), batch_size=4)))
    assert [len(batch) for batch in batches] == [4, 4]
    assert {int(y) for batch in batches for y in batch} <= {x * x for x in range(10)}


def test_a_torch_data_loader_is_taken_over() -> None:
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(Squares(10), batch_size=4)
    batches = list(from_python(loader))
    assert [batch["y"].tolist() for batch in batches] == [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]


def test_every_worker_iterates_a_functions_result(processes: ms.LocalService) -> None:
    read = [(int(x), text) for x, text in ms.distribute(lambda: count_to(5), processes)]
    assert sorted(read) == sorted([(x, str(x)) for x in range(5)] * 2)
    (first, *_) = ms.distribute(lambda: count_to(5), processes, batch_size=4)
    assert first[0].tolist() == [0, 1, 2, 3] and list(first[1]) == ["0", "1", "2", "3"]


def test_a_function_that_workers_have_is_named(processes: ms.LocalService) -> None:
    text = ms.TensorSpec((), ms.string)
    assert "Linux" in set(ms.distribute("platform:uname", processes, element_spec=text))


def test_what_is_no_dataset_is_refused(processes: ms.LocalService) -> None:
    with pytest.raises(ms.errors.InvalidArgumentError, match="is not a dataset"):
        ms.distribute(object(), processes)
    with pytest.raises(ms.errors.InvalidArgumentError, match="yields nothing"):
        ms.distribute(lambda: iter(()), processes)


def test_an_exception_keeps_type_frames_and_worker(processes: ms.LocalService) -> None:
    with pytest.raises(ms.errors.UserFunctionError, match="no picture 7") as raised:
        list(ms.distribute(Squares(10, broken=7), processes))
    error = raised.value
    assert isinstance(error.__cause__, LookupError) and error.__cause__.args == ("no picture 7",)
    assert error.worker and "__getitem__" in error.remote_traceback and "; sample 7" in str(error)
    # The traceback does not contain frames of the package.
    assert "millstream/_worker.py" not in error.remote_traceback


def test_an_exceptions_cause_is_reported() -> None:
    def several() -> None:
        raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])

    def raises(x: Any) -> Any:
        try:
            several()
        except ExceptionGroup as error:
            raise ValueError("bad \udcff name") from error

    with pytest.raises(ms.errors.UserFunctionError, match=r"bad \\udcff name") as raised:
        list(Dataset.range(1).map_python(raises, element_spec=ms.TensorSpec((), ms.int64)))
    told = raised.value.remote_traceback
    for part in ("several (2 sub-exceptions)", "ValueError: one", "KeyError: 'two'", "in several", "direct cause", "in raises"):
        assert part in told
    assert "millstream/_worker.py" not in told and isinstance(raised.value.__cause__, ValueError)


class Several(Squares):
    """A dataset that fetches the samples of several indices at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def test_a_batchs_error_names_its_samples(processes: ms.LocalService) -> None:
    with pytest.raises(ms.errors.UserFunctionError, match=r"no picture 7; samples? (\d, )*7"):
        list(ms.distribute(Several(10, broken=7), processes, batch_size=3))

    class Ragged(Squares):
        """A dataset whose samples have different shapes, so they cannot be batched."""

        def __getitem__(self, index: int) -> Any:
            return np.zeros(1 + index // 2)

    spec = ms.TensorSpec((None, None), ms.float64)
    with pytest.raises(ms.errors.UserFunctionError, match="shapes.*; samples 0, 1, 2"):
        list(from_python(Ragged(3), batch_size=3, element_spec=spec))
    with pytest.raises(ms.errors.UserFunctionError, match=r"; samples 0, 1, .* 63, \.\.\."):
        list(from_python(Several(100, broken=70), batch_size=100, element_spec=spec))


def test_what_varies_has_to_be_said() -> None:
    varying = Dataset.range(1, 4).map_python(lambda x: np.zeros(int(x)))
    with pytest.raises(ms.errors.UserFunctionError, match="element_spec"):
        list(varying)
    said = Dataset.range(1, 4).map_python(lambda x: np.zeros(int(x)), element_spec=ms.TensorSpec([None], ms.float64))
    assert [len(element) for element in said] == [1, 2, 3]


def test_unpicklable_objects_are_refused_with_advice() -> None:
    unpicklable = threading.Lock()
    with pytest.raises(ms.errors.InvalidArgumentError, match="module:function"):
        Dataset.range(3).map_python(lambda x: unpicklable)
    with pytest.raises(ms.errors.InvalidArgumentError, match="captured data"):
        _code.packed(bytes, bytes(20 << 20))
    with pytest.warns(UserWarning, match="captured data"):
        _code.packed(bytes, bytes(2 << 20))


def test_another_version_of_python_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = _code.packed(len)
    monkeypatch.setattr(_code, "_this_python", lambda: {"python": "2.7", "implementation": "cpython"})
    with pytest.raises(RuntimeError, match=r"trainer runs cpython 3\.\d+, this worker cpython 2.7"):
        _code.unpacked(packed)
    with pytest.raises(RuntimeError, match="not what was sent"):
        _code.unpacked(packed + b"x")


def test_a_module_that_a_worker_lacks_is_named(processes: ms.LocalService) -> None:
    dataset = Dataset.range(3).map_python("no_such_module:f", element_spec=ms.TensorSpec((), ms.int64))
    with pytest.raises(ms.errors.MillstreamError, match="no_such_module"):
        list(dataset.apply(distribute("parallel_epochs", processes)))


def test_samplers_that_cannot_be_dealt_out_are_refused() -> None:
    loader = Loader(Squares(4), 2)
    loader.sampler = object()  # type: ignore[assignment]
    with pytest.raises(ms.errors.InvalidArgumentError, match="sampler object"):
        from_python(loader)


class Slow:
    """A dataset whose samples are slow, and contain the worker that computed them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index, "worker": _slowly()}


def _slowly() -> int:
    time.sleep(0.005)
    return os.getppid()


@pytest.mark.parametrize("form", ["distribute", "map_python"])
def test_full_shuffles_use_all_workers(form: str) -> None:
    count = 320
    with ms.local(workers=2, threads=1) as service:
        if form == "distribute":
            rows = ms.distribute(Slow(count), service, batch_size=4, shuffle=True).unbatch()
        else:
            indices = Dataset.range(count).split_size(4).shuffle(count)
            spec = {"index": ms.TensorSpec((), ms.int64), "worker": ms.TensorSpec((), ms.int64)}
            slow = indices.map_python(lambda index: {"index": index, "worker": _slowly()}, element_spec=spec)
            rows = slow.apply(distribute("distributed_epoch", service))
        # The first pass starts the processes of both workers.
        orders = []
        for _ in range(2):
            found = [(int(row["index"]), int(row["worker"])) for row in rows]
            orders.append([index for index, _ in found])
            assert sorted(orders[-1]) == list(range(count))
    shares = collections.Counter(worker for _, worker in found)
    assert len(shares) == 2 and min(shares.values()) >= 0.3 * count, shares
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])


def test_found_specs_allow_a_smaller_last_batch(processes: ms.LocalService) -> None:
    batches = Dataset.range(5).batch(2)
    doubled = batches.map_python(lambda x: {"x": 2 * x, "rows": np.stack([x, x], 1)}).map_python(lambda row: 2 * row["rows"])
    assert doubled.element_spec == ms.TensorSpec((None, 2), ms.int64)
    for dataset in (doubled, doubled.apply(distribute("distributed_epoch", processes))):
        assert sorted(int(x) for rows in dataset for x in rows[:, 0]) == [0, 2, 4, 6, 8]
    # The size is known where every batch is full, and where the result does not follow the rows.
    full = Dataset.range(5).batch(2, drop_remainder=True).map_python(lambda x: 2 * x)
    assert full.element_spec == ms.TensorSpec((2,), ms.int64)
    rows = Dataset.range(1, 4).map_python(lambda x: np.full(int(x), x), element_spec=ms.TensorSpec((None,), ms.int64))
    paired = Dataset.zip((rows, Dataset.range(3))).map_python(lambda row, x: (row + 1, np.zeros(4)))
    assert paired.element_spec == (ms.TensorSpec((None,), ms.int64), ms.TensorSpec((4,), ms.float64))
    assert Dataset.range(3).map_python(lambda x: np.zeros(3)).element_spec == ms.TensorSpec((3,), ms.float64)


def test_a_result_of_another_shape_names_element_spec(processes: ms.LocalService) -> None:
    batches = Dataset.range(5).batch(2)
    told = re.escape("pass element_spec={\"x\": ms.TensorSpec((None,), ms.int64)}")
    fixed = batches.map_python(lambda x: {"x": x}, element_spec={"x": ms.TensorSpec((2,), ms.int64)})
    flat = batches.flat_map_python(lambda x: [{"x": x}])
    for dataset in (fixed, flat):
        with pytest.raises(ms.errors.UserFunctionError, match=told):
            list(dataset)
        with pytest.raises(ms.errors.UserFunctionError, match=told):
            list(dataset.apply(distribute("distributed_epoch", processes)))
