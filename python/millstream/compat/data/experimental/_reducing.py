"""Reductions by key: ``group_by_reducer`` and ``Reducer`` of ``tf.data.experimental``.

Owns their translation: windows of equal keys, whose elements a scan combines. Refuses to know how windows are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ops
from ...._dataset import Dataset
from ...._spec import dressed
from ...._tensor import Tensor, applied, called, convert_to_tensor
from ....errors import UnimplementedError
from ...nest import map_structure
from ._transformations import Transformation
from ._zeros import zeros_of

__all__ = ["Reducer", "group_by_reducer"]

#: Elements of a window: the most that ``group_by_window`` holds.
_WINDOW = 1 << 24


class Reducer:
    """Functions that combine the elements of one key.

    Args:
        init_func: A function of a key that returns the first state.
        reduce_func: A function of a state and an element that returns the next state, of the same structure, dtypes and shapes.
        finalize_func: A function of the last state that returns the element to yield.

    Example:
        >>> total = tf.data.experimental.Reducer(lambda key: np.int64(0), lambda state, x: state + x, lambda state: state)
        >>> [int(x) for x in tf.data.Dataset.range(5).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, total))]
        [6, 4]
    """

    def __init__(self, init_func: Callable[[Any], Any], reduce_func: Callable[[Any, Any], Any], finalize_func: Callable[..., Any]) -> None:
        self._init_func, self._reduce_func, self._finalize_func = init_func, reduce_func, finalize_func

    @property
    def init_func(self) -> Callable[[Any], Any]:
        """The function of a key that returns the first state."""
        return self._init_func

    @property
    def reduce_func(self) -> Callable[[Any, Any], Any]:
        """The function of a state and an element that returns the next state."""
        return self._reduce_func

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """The function of the last state that returns the element to yield."""
        return self._finalize_func


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Combines the elements of each key, and yields one element for each key at the end, in the order of keys.

    All elements are held until the end of the dataset: at most 2^24 elements of a key.

    Args:
        key_func: A function of the element that returns its key, an ``int64`` scalar.
        reducer: The functions that combine elements.

    Returns:
        The transformation.

    Raises:
        UnimplementedError: A state has tensors whose shapes are not known. Raised by ``Dataset.apply``.

    Example:
        >>> count = tf.data.experimental.Reducer(lambda key: (key, 0), lambda state, x: (state[0], state[1] + 1), lambda key, n: (key, n))
        >>> words = tf.data.Dataset.from_tensor_slices([3, 5, 3, 3])
        >>> counts = words.apply(tf.data.experimental.group_by_reducer(lambda x: tf.cast(x, tf.int64), count))
        >>> [(int(key), int(n)) for key, n in counts]
        [(3, 3), (5, 1)]
    """
    if not isinstance(reducer, Reducer):
        raise TypeError(f"group_by_reducer: expected a Reducer, found {reducer!r}")

    def reduced(dataset: Dataset) -> Dataset:
        keyed = dataset.map(lambda *element: (_key(key_func, element), element if len(element) > 1 else element[0]))
        first = _first_state(keyed, reducer)

        def window(_: Any, rows: Dataset) -> Dataset:
            steps = rows.scan((np.False_, first), lambda state, row: _step(reducer, state, row))
            # One state for each element: the last is the result.
            return steps.batch(_WINDOW).map(lambda *states: _last(states if isinstance(first, tuple) else states[0]))

        states = keyed.group_by_window(lambda key, _: key, window, _WINDOW)
        return states.map(reducer.finalize_func)

    return reduced


def _key(key_func: Callable[..., Any], element: tuple[Any, ...]) -> Tensor:
    key = convert_to_tensor(key_func(*element))
    if key.dtype.code != "i64" or key.shape is None or len(key.shape):
        raise ValueError(f"group_by_reducer: expected keys that are int64 scalars, found {key.dtype!r} of shape {key.shape}: use tf.cast")
    return key


def _first_state(keyed: Dataset, reducer: Reducer) -> Any:
    """Returns a state of zeros of the structure and dtypes that the first state of a key has."""
    made = called(lambda key, _: reducer.init_func(key), keyed._graph)
    spec = dressed(applied(keyed._graph, made).spec)

    try:
        return zeros_of(spec)
    except ValueError as error:
        raise UnimplementedError(f"group_by_reducer: a state that init_func returns: {error}") from error


def _step(reducer: Reducer, state: Any, row: Any) -> Any:
    """Returns the next state, and yields it: the first element of a key begins with a state of its own."""
    (has_begun, carried), (key, element) = state, row
    begun = reducer.init_func(key)
    fresh = map_structure(lambda old, new: ops.where(has_begun, old, convert_to_tensor(new)), carried, tuple(begun) if isinstance(begun, list) else begun)
    after = reducer.reduce_func(fresh, element)
    after = tuple(after) if isinstance(after, list) else after
    return (has_begun | True, after), after


def _last(states: Any) -> Any:
    return map_structure(lambda tensor: tensor[-1], states)
