"""Tests of elements as Python objects: their types, their memory, and its lifetime."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import Dataset

#: The number of items in an array that is delivered as a view instead of a copy.
LARGE = 4096


def arrive(value: Any, service: Any) -> Any:
    """Returns the element after delivery by a service, or by a dataset in this process."""
    dataset = Dataset.from_tensors(value)
    if service is not None:
        dataset = dataset.apply(ms.service.distribute("parallel_epochs", service))
    return next(iter(dataset))


@pytest.fixture(params=["here", "this process", "other processes"])
def service(request: pytest.FixtureRequest) -> Any:
    """Yields each kind of source: this process without a service, a service in this process, and a service in other processes."""
    if request.param == "here":
        return None
    if request.param == "this process":
        return request.getfixturevalue("cluster")(1)
    target = request.getfixturevalue("processes").target
    return target


@pytest.mark.parametrize(
    "dtype",
    ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"],
)
def test_arrays_of_every_type_arrive_as_they_are(dtype: str, service: Any) -> None:
    value = np.arange(LARGE).reshape(2, -1).astype(dtype)
    arrived = arrive(value, service)
    assert arrived.dtype == value.dtype and np.array_equal(arrived, value)
    assert arrived.flags.aligned and arrived.flags.writeable and arrived.flags.c_contiguous
    assert arrived.ctypes.data % 64 == 0
    arrived[0, 0] = 1


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (5, 1, 2)])
def test_empty_and_small_arrays_keep_their_shapes(shape: tuple[int, ...]) -> None:
    arrived = arrive(np.ones(shape, np.float32), None)
    assert arrived.shape == shape and arrived.dtype == np.float32 and arrived.flags.writeable


def test_scalars_are_numpys_and_text_is_text() -> None:
    element = arrive({"i": 3, "f": 0.5, "b": True, "s": "späť", "y": b"\xff\x00"}, None)
    assert element == {"i": 3, "f": 0.5, "b": True, "s": "späť", "y": b"\xff\x00"}
    kinds = [type(element[name]) for name in ("i", "f", "b", "s", "y")]
    assert kinds == [np.int32, np.float32, np.bool_, str, bytes]


def test_arrays_of_text_are_arrays_of_objects(service: Any) -> None:
    words = np.array([["a", "bc"], ["", "ď"]], object)
    arrived = arrive(words, service)
    assert arrived.dtype == object and arrived.tolist() == words.tolist()


def test_structures_nest_as_they_were_given(service: Any) -> None:
    value = {"a": (np.arange(3), {"b": np.ones(2)}), "c": np.int64(1)}
    arrived = arrive(value, service)
    assert list(arrived) == ["a", "c"] and isinstance(arrived["a"], tuple)
    assert arrived["a"][0].tolist() == [0, 1, 2] and arrived["a"][1]["b"].tolist() == [1.0, 1.0]


def test_ragged_and_sparse_tensors_survive(service: Any) -> None:
    ragged = ms.Ragged.from_rows([[1], [], [2, 3]])
    arrived = arrive(ragged, service)
    assert isinstance(arrived, ms.Ragged) and arrived.to_list() == [[1], [], [2, 3]]
    assert arrived.to_dense().tolist() == [[1, 0], [0, 0], [2, 3]] and arrived[2].tolist() == [2, 3]
    sparse = ms.Sparse([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    arrived = arrive(sparse, service)
    assert arrived.to_dense().tolist() == [[0, 5], [0, 0], [6, 0]]


def test_ragged_batches_are_rows_of_different_lengths() -> None:
    lengths = Dataset.from_tensor_slices(["a", "a b c", "a b"]).map(lambda text: text.split())
    batches = [batch.to_list() for batch in lengths.ragged_batch(2)]
    assert batches == [[["a"], ["a", "b", "c"]], [["a", "b"]]]


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    value = np.arange(LARGE).astype(ml_dtypes.bfloat16)
    arrived = arrive(value, None)
    assert arrived.dtype == ml_dtypes.bfloat16 and np.array_equal(arrived, value)
    cast = next(iter(Dataset.from_tensors(np.float32([1.5])).map(lambda x: x.cast(ms.bfloat16))))
    assert cast.dtype == ml_dtypes.bfloat16 and cast.tolist() == [1.5]


def test_without_ml_dtypes_the_bits_of_bfloat16_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    from millstream import _dtypes

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    _dtypes.numpy_dtype.cache_clear()
    try:
        bits = next(iter(Dataset.from_tensors(np.float32([1.5])).map(lambda x: x.cast(ms.bfloat16))))
    finally:
        _dtypes.numpy_dtype.cache_clear()
    assert bits.dtype == np.uint16 and bits.tolist() == [0x3FC0]


def test_an_array_lives_while_referenced(service: Any) -> None:
    dataset = Dataset.range(64).map(lambda x: ms.ops.reshape(x, [1]) + np.zeros(LARGE, np.int64))
    if service is not None:
        dataset = dataset.apply(ms.service.distribute("parallel_epochs", service))
    elements = iter(dataset)
    kept = [next(elements) for _ in range(64 if service is None else 64)]
    parts = [array[7:9] for array in kept]
    expected = [int(array[0]) for array in kept]
    del kept, elements
    gc.collect()
    assert [part.tolist() for part in parts] == [[number] * 2 for number in expected]


def test_no_array_shares_memory_with_another(service: Any) -> None:
    value = {"x": np.zeros(LARGE), "y": np.zeros(LARGE)}
    dataset = Dataset.from_tensors(value).repeat(8)
    if service is not None:
        dataset = dataset.apply(ms.service.distribute("parallel_epochs", service))
    seen = []
    for number, element in enumerate(dataset):
        element["x"][:] = number
        element["y"][:] = -number
        seen.append(element)
    # Each worker yields eight elements.
    assert seen and len(seen) % 8 == 0
    assert all((element["x"] == number).all() for number, element in enumerate(seen))
    assert all((element["y"] == -number).all() for number, element in enumerate(seen))


def test_shared_arrays_cannot_be_written(cluster: Any) -> None:
    target = cluster(1)
    dataset = Dataset.from_tensors(np.zeros(LARGE)).repeat()
    cache = [ms.service.CrossTrainerCache(name) for name in ("one", "two")]
    distributed = [
        dataset.apply(ms.service.distribute("parallel_epochs", target, "shared", cross_trainer_cache=each))
        for each in cache
    ]
    for each in distributed:
        assert not next(iter(each)).flags.writeable


class Exported:
    """A wrapper of a DLPack capsule with the methods of the DLPack protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Taker:
    """A function that converts a capsule to an array, for capsules with or without a DLPack version."""

    def __init__(self, is_versioned: bool) -> None:
        self.is_versioned = is_versioned
        self.capsules: list[Any] = []

    def __call__(self, capsule: Any) -> Any:
        self.capsules.append(capsule)
        return np.from_dlpack(Exported(capsule))


@pytest.mark.parametrize("items", [0, 3, LARGE])
@pytest.mark.parametrize("is_versioned", [False, True])
def test_dlpack_hands_the_same_memory_over(is_versioned: bool, items: int) -> None:
    if is_versioned and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("this numpy knows no versions of DLPack")
    graph = Dataset.from_tensors(np.arange(2 * items, dtype=np.float32).reshape(2, items))._graph
    taker = Taker(is_versioned)
    taken = next(graph.run(0, 1, 1, taker))
    # Arrays of capsules without a version are read-only.
    assert taken.shape == (2, items) and taken.flags.writeable == is_versioned
    assert taken.ravel().tolist() == list(range(2 * items))
    assert ("versioned" in str(taker.capsules[0])) == is_versioned
    # A capsule that no library consumes is released, too.
    assert "dltensor" in str(next(graph.run(0, 1, 1, lambda capsule: capsule)))


def test_torch_tensors_are_made_of_the_same_memory() -> None:
    torch = pytest.importorskip("torch")
    value = {"x": np.arange(LARGE, dtype=np.float32), "s": "text", "n": np.int64(3)}
    element = next(iter(Dataset.from_tensors(value).with_output("torch")))
    assert isinstance(element["x"], torch.Tensor) and element["s"] == "text" and int(element["n"]) == 3
    assert element["x"].tolist() == value["x"].tolist()
    element["x"] += 1
    bf16 = next(iter(Dataset.from_tensors(np.float32([1.5])).map(lambda x: x.cast(ms.bfloat16)).with_output("torch")))
    assert bf16.dtype == torch.bfloat16 and float(bf16[0]) == 1.5


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(ValueError, match="numpy, torch, jax"):
        Dataset.range(1).with_output("tensorflow")
