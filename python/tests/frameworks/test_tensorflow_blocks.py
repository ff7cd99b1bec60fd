"""Tests of the blocks in which elements of a service are handed to TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import millstream as ms

tf = pytest.importorskip("tensorflow")


def int64(*shape: int | None) -> Any:
    """Returns the spec of integers."""
    return tf.TensorSpec(shape, tf.int64)


#: Elements as a service yields them, and the spec of each component.
ELEMENTS: dict[str, tuple[Callable[[int], tuple[Any, ...]], tuple[Any, ...]]] = {
    "numbers": (lambda i: (np.int64(i),), (int64(),)),
    "several components": (lambda i: (np.int64(i), np.full(3, i), b"%d" % i), (int64(), int64(3), tf.TensorSpec((), tf.string))),
    "sizes that vary": (lambda i: (np.full(i % 4, i),), (int64(None),)),
    "sizes and ranks that vary": (lambda i: (np.full((2,) * (i % 3), i),), (tf.TensorSpec(None, tf.int64),)),
    "nothing": (lambda i: (np.zeros((0, 2), np.int64),), (int64(0, 2),)),
    "texts": (lambda i: (np.array([b"a" * i, b"", b"\0b"], object),), (tf.TensorSpec([3], tf.string),)),
    "more bytes than a block has": (lambda i: (np.full((1 << 16) + i % 2, i),), (int64(None),)),
}


class _Elements(Iterator[Any]):
    """An iteration of a service in which some elements have arrived, and others arrive later."""

    def __init__(self, elements: list[tuple[Any, ...]], arrived: int, error: Exception | None = None) -> None:
        self._elements, self._arrived, self._error = iter(elements), arrived, error
        self._waiting = arrived
        self.is_closed = False

    def __next__(self) -> Any:
        raise AssertionError("TensorFlow must be able to cancel every wait")

    def within(self, _seconds: float, otherwise: Any) -> Any:
        # Every second wait ends without an element.
        self._waiting = self._arrived if self._waiting < 0 else -1
        return otherwise if self._waiting < 0 else self._next()

    def ready(self, otherwise: Any) -> Any:
        self._waiting -= 1
        return otherwise if self._waiting <= 0 else self._next()

    def _next(self) -> Any:
        found = next(self._elements, None)
        if found is None:
            raise self._error or StopIteration
        return found

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("arrived", [1, 7, 1000])
@pytest.mark.parametrize("name", ELEMENTS)
def test_blocks_keep_elements_and_order(name: str, arrived: int) -> None:
    from millstream._tf_elements import dataset_of

    make, spec = ELEMENTS[name]
    sent = [make(i) for i in range(40)]
    dataset = dataset_of(lambda: _Elements(sent, arrived), spec)
    assert dataset.element_spec == spec
    for _ in range(2):
        found = [tuple(part.numpy() for part in element) for element in dataset]
        assert len(found) == len(sent)
        for element, expected in zip(found, sent, strict=True):
            assert all(np.array_equal(part, other) and np.shape(part) == np.shape(other) for part, other in zip(element, expected, strict=True))


@pytest.mark.parametrize("arrived", [1, 1000])
@pytest.mark.parametrize("kind", ["UnavailableError", "DataLossError", "UserFunctionError", "OutOfRangeError", "CancelledError"])
def test_an_error_follows_the_elements_before_it(kind: str, arrived: int) -> None:
    from millstream._tf_elements import dataset_of
    from millstream._tf_failure import code_of

    error = getattr(ms.errors, kind)("a reason")
    opened: list[_Elements] = []

    def source() -> _Elements:
        opened.append(_Elements([(np.int64(i),) for i in range(5)], arrived, error))
        return opened[-1]

    seen = []
    with pytest.raises(tf.errors.OpError, match="a reason") as raised:
        for (x,) in dataset_of(source, (int64(),)).map(lambda x: (x,)).prefetch(1):
            seen.append(int(x))
    assert seen == list(range(5)) and raised.value.error_code == code_of(error)
    assert [elements.is_closed for elements in opened] == [True]


def test_few_outstanding_elements_travel_one_by_one() -> None:
    from millstream._tf_elements import _Passes

    def sizes(block: int) -> list[int]:
        passes = _Passes(lambda: _Elements([(np.int64(i),) for i in range(6)], 1000), (int64(),), block)
        return [len(parts[0]) for parts in passes(0) if len(parts[0])]

    assert sizes(1) == [1] * 6 and sizes(4) == [4, 2] and sum(sizes(256)) == 6


def test_without_tensorflows_c_interface_codes_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from millstream import _tf_elements

    monkeypatch.setattr(_tf_elements, "is_registered", lambda: False)
    error = ms.errors.UnavailableError("a reason")
    seen = []
    # TensorFlow finds the code by the classes of Python that an exception inherits.
    with pytest.raises(tf.errors.UnknownError, match="a reason"):
        for (x,) in _tf_elements.dataset_of(lambda: _Elements([(np.int64(1),)], 1000, error), (int64(),)):
            seen.append(int(x))
    assert seen == [1]
