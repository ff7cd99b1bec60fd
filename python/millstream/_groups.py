"""Methods of datasets that combine several elements: windows, groups, buckets, classes, and scans with a state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _tensor
from ._arguments import seed_of, whole
from ._captures import Parts, calling, resolved
from ._scope import Scope
from ._spec import dtypes_of
from ._structure import constants
from ._tensor import Tensor, applied, called, symbolic
from ._tracing import tracing
from .errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._millstream import Graph

__all__ = ["GroupMethods", "Windows"]


class GroupMethods:
    """The methods of a dataset that combine several elements."""

    _graph: Graph

    def _then(self, graph: Graph) -> Dataset:
        raise NotImplementedError

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Windows:
        """Groups consecutive elements into windows. Each window is a dataset, and ``flat_map`` turns windows into elements.

        Args:
            size: The number of elements in a window.
            shift: The distance between the starts of two windows, in elements; ``size`` by default.
            stride: The distance between two elements of a window, in elements.
            drop_remainder: Whether to leave out windows with fewer elements.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The windows.

        Example:
            >>> windows = ms.Dataset.range(5).window(2, drop_remainder=True)
            >>> [batch.tolist() for batch in windows.flat_map(lambda window: window.batch(2))]
            [[0, 1], [2, 3]]
        """
        return Windows(self._graph, self._then, size, size if shift is None else shift, stride, drop_remainder)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Dataset], Dataset],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Collects elements by key into windows. A function turns each window into a dataset, whose elements are yielded.

        Args:
            key_func: A function of the element that returns its key, an ``int64`` scalar.
            reduce_func: A function of the key and the window that returns a dataset.
            window_size: The number of elements in a window.
            window_size_func: A function of the key that returns the number of elements in the key's windows.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            ValueError: Neither or both of ``window_size`` and ``window_size_func`` are passed.

        Example:
            >>> grouped = ms.Dataset.range(6).group_by_window(lambda x: x % 2, lambda key, rows: rows.batch(3), 3)
            >>> [batch.tolist() for batch in grouped]
            [[0, 2, 4], [1, 3, 5]]
        """
        from ._dataset import Dataset

        if (window_size is None) == (window_size_func is None):
            raise ValueError("expected either window_size or window_size_func: pass one of both")
        key = _tensor._Untraceable("the key of a window: add the key to the elements with map before group_by_window")

        def reduced(graph: Graph) -> Graph:
            with tracing():
                made = reduce_func(key, Dataset(graph))
            if not isinstance(made, Dataset):
                raise TypeError(f"reduce_func returned {made!r} for a window, which is not a dataset")
            return made._graph

        if window_size_func is not None:
            sizes = _number(window_size_func)
            return self._then(self._graph.group_by_window_sized(_number(key_func), sizes, reduced))
        return self._then(self._graph.group_by_window(_number(key_func), whole(window_size, "window_size"), reduced))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Batches elements of similar length.

        Bucket 0 contains the elements that are shorter than the first boundary. Bucket n contains the elements that are at least as long as
        boundary n - 1 and shorter than boundary n.

        Args:
            element_length_func: A function of the element that returns its length.
            bucket_boundaries: The boundaries, in ascending order.
            bucket_batch_sizes: The batch size of each bucket. The list has one entry more than ``bucket_boundaries``.
            padded_shapes: The padded shapes, as for ``padded_batch``.
            padding_values: The padding values, as for ``padded_batch``.
            pad_to_bucket_boundary: Whether to pad batches to the length of the bucket's upper boundary minus 1.
            no_padding: Whether to batch elements without padding.
            drop_remainder: Whether to leave out batches with fewer elements.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            ValueError: The boundaries are not in ascending order, or the number of batch sizes differs from the number of buckets.
            UnimplementedError: ``padded_shapes`` or ``padding_values`` is combined with an argument that excludes it.

        Example:
            >>> rows = ms.Dataset.range(1, 5).map_python(lambda x: np.full(int(x), x), element_spec=ms.TensorSpec((None,), ms.int64))
            >>> buckets = rows.bucket_by_sequence_length(lambda row: ms.ops.shape(row)[0], [3], [2, 2])
            >>> [batch.tolist() for batch in buckets]
            [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]
        """
        length = _number(element_length_func)
        boundaries, sizes = list(bucket_boundaries), list(bucket_batch_sizes)
        if len(sizes) != len(boundaries) + 1:
            raise ValueError(f"bucket_batch_sizes has {len(sizes)} sizes for {len(boundaries) + 1} buckets: pass one size for each bucket")
        if not boundaries and not pad_to_bucket_boundary:
            # Elements of any length are in the only bucket.
            only = self._then(self._graph)
            if no_padding:
                return only.batch(sizes[0], drop_remainder)
            return only.padded_batch(sizes[0], padded_shapes, padding_values, drop_remainder)
        if padded_shapes is None and padding_values is None:
            return self._then(
                self._graph.bucket_by_sequence_length(
                    length, boundaries, sizes, pad_to_bucket_boundary, not no_padding, drop_remainder
                )
            )
        if pad_to_bucket_boundary or no_padding or (drop_remainder and len(set(sizes)) > 1):
            raise UnimplementedError(
                "padded_shapes and padding_values exclude pad_to_bucket_boundary and no_padding, and exclude drop_remainder if "
                "bucket_batch_sizes differ: leave out one of these arguments"
            )

        def bucket(*element: Any) -> Any:
            of = _tensor.convert_to_tensor(element_length_func(*element)).cast("int64")
            number = of._swapped("mul", 0)
            for boundary in boundaries:
                number = number._binary("add", of._binary("ge", boundary).cast("int64"))
            return number

        return self.group_by_window(
            bucket,
            lambda _, window: window.padded_batch(max(sizes), padded_shapes, padding_values, drop_remainder),
            window_size_func=lambda key: _tensor.convert_to_tensor(np.asarray(sizes, np.int64)).gather(key),
        )

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Sequence[float],
        initial_dist: Sequence[float] | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Drops elements so that the classes have the requested frequencies. Yields tuples of class and element.

        Args:
            class_func: A function of the element that returns its class, from 0.
            target_dist: The requested frequency of each class.
            initial_dist: The present frequency of each class; estimated from the elements by default.
            seed: The seed of the random draws.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> resampled = ms.Dataset.range(100).rejection_resample(lambda x: x % 2, [0.0, 1.0], [0.5, 0.5], seed=1)
            >>> {int(kind) for kind, _ in resampled}
            {1}
        """
        initial = None if initial_dist is None else [float(share) for share in initial_dist]
        target = [float(share) for share in target_dist]
        return self._then(self._graph.rejection_resample(_number(class_func), target, initial, seed_of(seed)))

    def scan(
        self,
        initial_state: Any,
        scan_func: Callable[[Any, Any], tuple[Any, Any]],
        name: str | None = None,
        use_default_device: bool | None = None,
    ) -> Dataset:
        """Computes each element from a state and an element of the input.

        The function is called once with symbolic tensors, like the function of ``map``. The state keeps its structure and dtypes, but its shapes
        may grow.

        Args:
            initial_state: The first state.
            scan_func: A function of a state and an element that returns the next state and the element to yield.
            name: Accepted as in tf.data; has no effect.
            use_default_device: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: The function does not return a pair, or changes the structure or a dtype of the state.

        Example:
            >>> sums = ms.Dataset.range(4).scan(np.int64(0), lambda state, x: (state + x, state + x))
            >>> [int(x) for x in sums]
            [0, 1, 3, 6]
        """
        if not callable(scan_func):
            raise InvalidArgumentError(f"scan: expected a function of a state and an element, found {scan_func!r}")
        described, data = constants(initial_state)
        expected = dtypes_of(described)

        def body(graph: Graph, parts: Parts) -> Graph:
            scope = Scope(graph)
            state, element = (spec for _, spec in graph.spec[1])
            path = parts.opened(scope, "element")
            with tracing(), calling(graph):
                made = scan_func(symbolic(state, "state", scope), symbolic(element if parts.is_whole else element[1][0], path, scope))
            if not isinstance(made, tuple) or len(made) != 2:
                raise TypeError(f"expected a tuple of the next state and an element from scan_func, found {made!r}")
            result = applied(graph, made)
            found = dtypes_of(result.spec[1][0])
            if found != expected:
                raise TypeError(f"expected scan_func to keep the dtypes of the state, {expected}, found {found}")
            return result

        return self._then(resolved(self._graph, lambda graph, parts: graph.scan(described, data, lambda step: body(step, parts))))


class Windows:
    """The windows of a dataset. Each window is a dataset, and ``flat_map`` turns windows into elements."""

    def __init__(
        self,
        graph: Graph,
        then: Callable[[Graph], Dataset],
        size: int,
        shift: int,
        stride: int,
        drop_remainder: bool,
    ) -> None:
        self._graph = graph
        self._then = then
        self._window = (size, shift, stride, drop_remainder)

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """Turns each window into a dataset, and yields the elements of these datasets.

        If the elements are tuples, the function receives one dataset for each component, as in TensorFlow. A function with one parameter receives
        one dataset of tuples instead. If the elements are dicts, the function receives one dataset, and ``window["name"]`` is the dataset of a
        component.

        Args:
            map_func: A function of the window that returns a dataset.

        Returns:
            The new dataset.
        """
        from ._dataset import Dataset
        from ._windows import Window

        def reduced(graph: Graph) -> Graph:
            window = Window(graph)
            parts = [window] if not isinstance(window.element_spec, tuple) else window.parts()
            with tracing():
                made = map_func(*parts) if len(parts) > 1 and _takes(map_func, len(parts)) else map_func(window)
            if not isinstance(made, Dataset):
                raise TypeError(f"the function returned {made!r} for a window, which is not a dataset")
            return made._graph

        return self._then(self._graph.window(*self._window, reduced))

    def __iter__(self) -> Iterator[Any]:
        """Yields each window as datasets in the structure of the elements. All elements must have equal shapes."""
        from ._dataset import Dataset

        def datasets(batch: Any) -> Any:
            if isinstance(batch, dict):
                return {key: datasets(item) for key, item in batch.items()}
            return tuple(map(datasets, batch)) if isinstance(batch, tuple) else Dataset.from_tensor_slices(batch)

        return map(datasets, self.flat_map(lambda window: _batched(window, self._window[0])))


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Returns whether a function can be called with ``count`` arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def _batched(window: Any, size: int) -> Dataset:
    return window.batch(size)  # type: ignore[no-any-return]


def _number(function: Callable[..., Any]) -> Callable[[Graph], Graph]:
    def body(graph: Graph) -> Graph:
        result = called(function, graph)
        if not isinstance(result, Tensor | int | np.integer):
            raise TypeError(f"expected a number from the function, found {result!r}")
        return applied(graph, _tensor.convert_to_tensor(result).cast("int64"))

    return body
