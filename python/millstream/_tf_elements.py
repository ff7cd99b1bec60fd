"""Turns the elements of a service into a ``tf.data.Dataset``, in blocks: TensorFlow calls Python once for all elements that have arrived.

Owns the waits within TensorFlow, which end with their iterator and occupy no compute thread of TensorFlow. Errors reach TensorFlow by
``_tf_failure``. This module does not know where elements come from.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from ._tf_failure import failure_of, is_registered, next_number, record
from .errors import MillstreamError

__all__ = ["BLOCK", "dataset_of"]

#: The maximum number of elements in one block.
BLOCK = 256

#: The size in bytes at which a block ends. A larger element travels alone, and is not copied into a block.
_BLOCK_BYTES = 256 << 10

#: The seconds of one wait for an element. After each wait TensorFlow can cancel the iteration.
_PATIENCE_S = 0.05

_NOTHING = object()

_Function = TypeVar("_Function", bound=Callable[..., Any])


def dataset_of(
    source: Callable[..., Iterable[Any]], spec: Any, args: tuple[Any, ...] = (), *, block: int = BLOCK
) -> Any:
    """Returns a ``tf.data.Dataset`` of the elements of an iteration.

    Each pass calls ``source`` with the values of the tensors ``args``. The source yields tuples of the components of ``spec``. A block has at most
    ``block`` elements. The dataset fails with the code of the error that the iteration raises. Waits run on a separate thread of the dataset.
    """
    import tensorflow as tf

    is_plain = all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))
    components = tuple(tf.nest.flatten(spec, expand_composites=True))
    passes = _Passes(source, components, block)
    blocks = tuple(tf.TensorSpec(None if part.shape.rank is None else [None, *part.shape], part.dtype) for part in components)

    @_as_it_is
    def packed(*parts: Any) -> Any:
        return tf.nest.pack_sequence_as(spec, list(parts), expand_composites=True)

    @_as_it_is
    def elements(*parts: Any) -> Any:
        # `unbatch` crashes for tensors without items.
        return tf.data.Dataset.from_tensor_slices(packed(*parts) if is_plain else parts)

    @_as_it_is
    def iterated(number: Any) -> Any:
        found = tf.data.Dataset.from_generator(passes, args=(number, *args), output_signature=blocks).flat_map(elements)
        # A function for each element costs more than all else.
        return found if is_plain else found.map(packed)

    if not is_registered():
        return _apart(iterated(0))

    @_as_it_is
    def numbered(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(next_number, [], tf.int32), ())

    @_as_it_is
    def followed(number: Any) -> Any:
        # The filter passes no element. `flat_map` only gives the dataset the right element type.
        failure = tf.data.Dataset.from_tensors(number).filter(_as_it_is(failure_of)).flat_map(iterated)
        return iterated(number).concatenate(failure)

    return _apart(tf.data.Dataset.from_tensors(0).map(numbered).flat_map(followed))


def _as_it_is(function: _Function) -> _Function:
    """Returns a function that AutoGraph leaves as it is. AutoGraph would need the function's source, and takes a while."""
    import tensorflow as tf

    kept: _Function = tf.autograph.experimental.do_not_convert(function)
    return kept


def _apart(dataset: Any) -> Any:
    """Returns the dataset with a separate thread, on which its functions run."""
    import tensorflow as tf

    spec = dataset.element_spec
    components = tf.nest.flatten(spec, expand_composites=True)
    variant = tf.raw_ops.PrivateThreadPoolDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        num_threads=tf.constant(1, tf.int64),
        output_types=[component.dtype for component in components],
        output_shapes=[component.shape for component in components],
    )
    return tf.data.experimental.from_variant(variant, spec)


class _Passes:
    """Makes the blocks of each pass. An object of this class can be pickled, so that a worker can read another service."""

    def __init__(self, source: Callable[..., Iterable[Any]], components: tuple[Any, ...], block: int) -> None:
        self._source = source
        self._types = [object if part.dtype.name == "string" else part.dtype.as_numpy_dtype for part in components]
        shapes = [part.shape for part in components]
        #: The components whose size differs between elements.
        self._loose = [at for at, shape in enumerate(shapes) if not shape.is_fully_defined()]
        self._texts = [at for at, dtype in enumerate(self._types) if dtype is object]
        self._absent = tuple(
            np.zeros([0, *(size or 0 for size in ([None] if shape.rank is None else shape))], dtype)
            for shape, dtype in zip(shapes, self._types, strict=True)
        )
        sizes = [np.dtype(dtype).itemsize * math.prod(shape) for shape, dtype in zip(shapes, self._types, strict=True) if shape.is_fully_defined()]
        self._block = min(block, max(1, _BLOCK_BYTES // max(1, sum(sizes))))

    def __call__(self, number: Any, *args: Any) -> Iterator[Any]:
        """Yields the blocks of one pass. Records an error under the number of the pass, if the number is not 0."""
        try:
            yield from self._blocks(args)
        except MillstreamError as error:
            if not number:
                raise
            record(int(number), error)

    def _blocks(self, args: tuple[Any, ...]) -> Iterator[Any]:
        elements = _Opening(lambda: iter(self._source(*args)))
        kept: Any = _NOTHING
        failed: list[BaseException] = []
        try:
            while not failed:
                first, kept = (elements.within(_PATIENCE_S) if kept is _NOTHING else kept), _NOTHING
                if first is _NOTHING:
                    yield self._absent
                    continue
                block = [first]
                kept = self._gather(block, elements, failed)
                yield tuple(self._column(at, block) for at in range(len(self._types)))
            raise failed[0]
        except StopIteration:
            return
        finally:
            # Closing also ends the wait of a thread in this iterator.
            elements.close()

    def _gather(self, block: list[Any], elements: _Opening, failed: list[BaseException]) -> Any:
        """Adds the elements that have arrived to a block. Returns an element of other sizes, which begins the next block."""
        size = self._varying_size(block[0])
        while len(block) < self._block and size < _BLOCK_BYTES:
            try:
                found = elements.ready()
            except Exception as error:
                failed.append(error)
                break
            if found is _NOTHING:
                break
            if any(np.shape(found[at]) != np.shape(block[0][at]) for at in self._loose):
                return found
            block.append(found)
            size += self._varying_size(found)
        return _NOTHING

    def _varying_size(self, element: Any) -> int:
        """Returns the bytes of the components whose size the spec does not state."""
        size = sum(np.asarray(element[at]).nbytes for at in self._loose)
        for at in self._texts:
            text = element[at]
            size += len(text) if isinstance(text, bytes) else sum(map(len, np.asarray(text).flat))
        return size

    def _column(self, at: int, block: list[Any]) -> Any:
        """Returns one component of all elements of a block."""
        dtype, values = self._types[at], [element[at] for element in block]
        if len(block) == 1 and isinstance(values[0], np.ndarray):
            # A view: the element is not copied.
            return values[0][np.newaxis]
        if dtype is object and isinstance(values[0], bytes):
            column = np.empty(len(values), object)
            column[:] = values
            return column
        return np.stack(values) if isinstance(values[0], np.ndarray) else np.array(values, dtype)


class _Opening:
    """An iteration that opens on a thread of its own, because opening waits for a service that may be gone."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._elements: Any = None
        self._first: Any = _NOTHING
        self._failed: BaseException | None = None
        self._is_closed = False
        self._opened = threading.Event()
        threading.Thread(target=self._open, name="millstream-opening", daemon=True).start()

    def _open(self) -> None:
        try:
            self._elements = self._make()
            self._first = self._elements.within(0.0, _NOTHING)
        except BaseException as error:
            self._failed = error
        self._opened.set()
        if self._is_closed:
            self.close()

    def within(self, seconds: float) -> Any:
        """Returns the next element, or ``_NOTHING`` if no element arrives in time. Raises ``StopIteration`` at the end."""
        if not self._opened.is_set() and not self._opened.wait(seconds):
            return _NOTHING
        if self._failed is not None:
            raise self._failed
        if self._first is not _NOTHING:
            first, self._first = self._first, _NOTHING
            return first
        return self._elements.within(seconds, _NOTHING)

    def ready(self) -> Any:
        """Returns the next element if it has arrived, else ``_NOTHING``."""
        return self._elements.ready(_NOTHING)

    def close(self) -> None:
        """Ends the iteration, and the wait of any thread in it."""
        self._is_closed = True
        if self._elements is not None:
            self._elements.close()
