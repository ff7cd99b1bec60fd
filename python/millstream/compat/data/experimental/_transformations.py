"""Transformations of ``tf.data.experimental``: functions that return a function for ``Dataset.apply``. Most have become methods of ``Dataset``.

Owns TensorFlow's parameters. Refuses to know the work of the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._dataset import AUTOTUNE, Dataset
from ...._dtypes import int64
from ....errors import UnimplementedError
from ._zeros import zeros_of

__all__ = [
    "Transformation",
    "assert_cardinality",
    "bucket_by_sequence_length",
    "copy_to_device",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "group_by_window",
    "ignore_errors",
    "map_and_batch",
    "pad_to_cardinality",
    "parallel_interleave",
    "prefetch_to_device",
    "rejection_resample",
    "scan",
    "shuffle_and_repeat",
    "snapshot",
    "take_while",
    "unbatch",
    "unique",
]

Transformation = Callable[[Dataset], Dataset]


def assert_cardinality(expected_cardinality: int) -> Transformation:
    """States the number of elements. Reading another number is an error.

    Args:
        expected_cardinality: The number, or ``tf.data.INFINITE_CARDINALITY``.

    Returns:
        The transformation.

    Example:
        >>> even = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0)
        >>> even.apply(tf.data.experimental.assert_cardinality(5)).cardinality()
        5
    """
    return lambda dataset: dataset.assert_cardinality(int(expected_cardinality))


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Batches elements of similar length, as ``Dataset.bucket_by_sequence_length`` does.

    Args:
        element_length_func: A function of the element that returns its length.
        bucket_boundaries: The boundaries, rising.
        bucket_batch_sizes: The batch size of each bucket, one more than there are boundaries.
        padded_shapes: Shapes, as for ``Dataset.padded_batch``.
        padding_values: Values, as for ``Dataset.padded_batch``.
        pad_to_bucket_boundary: Whether batches are padded to one less than the bucket's upper boundary.
        no_padding: Whether elements are batched without padding.
        drop_remainder: Whether batches of fewer elements are left out.

    Returns:
        The transformation.

    Example:
        >>> rows = tf.data.experimental.from_list([[1], [2, 2], [3, 3, 3], [4]])
        >>> buckets = tf.data.experimental.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [2], [2, 2])
        >>> [batch.tolist() for batch in rows.apply(buckets)]
        [[[2, 2, 0], [3, 3, 3]], [[1], [4]]]
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )


def _processor(device: str, function: str) -> None:
    """Checks that a device is the processor.

    Raises:
        UnimplementedError: The device is another one.
    """
    kind = device.rpartition("/")[2].removeprefix("device:").partition(":")[0]
    if kind.upper() != "CPU":
        raise UnimplementedError(
            f"tf.data.experimental.{function}: expected a processor, such as '/cpu:0', found {device!r}: elements are arrays in memory, and "
            "ms.feed(dataset, device) copies them to a device ahead of need"
        )


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """Leaves elements where they are: in the memory of the processor, the only target.

    Args:
        target_device: The processor, such as ``"/cpu:0"``.
        source_device: The processor.

    Returns:
        The transformation.

    Raises:
        UnimplementedError: A device is no processor: ``millstream.feed`` copies elements to devices.

    Example:
        >>> [int(x) for x in tf.data.Dataset.range(3).apply(tf.data.experimental.copy_to_device("/cpu:0"))]
        [0, 1, 2]
    """
    _processor(target_device, "copy_to_device")
    _processor(source_device, "copy_to_device")
    return lambda dataset: dataset.take(-1)


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Transformation:
    """Computes elements before they are requested, in the memory of the processor, the only device.

    Args:
        device: The processor, such as ``"/cpu:0"``.
        buffer_size: Elements in the buffer; tuned by default.

    Returns:
        The transformation.

    Raises:
        UnimplementedError: The device is no processor: ``millstream.feed`` copies elements to devices.

    Example:
        >>> [int(x) for x in tf.data.Dataset.range(3).apply(tf.data.experimental.prefetch_to_device("/cpu:0"))]
        [0, 1, 2]
    """
    _processor(device, "prefetch_to_device")
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def dense_to_ragged_batch(batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = int64) -> Transformation:
    """Stacks consecutive elements of different shapes, as ``Dataset.ragged_batch`` does.

    Args:
        batch_size: Elements of a batch.
        drop_remainder: Whether a last batch of fewer elements is left out.
        row_splits_dtype: Must be ``tf.int64``.

    Returns:
        The transformation.

    Raises:
        UnimplementedError: The row splits are to have another dtype.

    Example:
        >>> rows = tf.data.experimental.from_list([[1], [2, 2]])
        >>> next(iter(rows.apply(tf.data.experimental.dense_to_ragged_batch(2)))).to_list()
        [[1], [2, 2]]
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


def dense_to_sparse_batch(batch_size: int, row_shape: Sequence[int | None]) -> Transformation:
    """Combines consecutive dense elements into sparse tensors, as ``Dataset.sparse_batch`` does.

    Args:
        batch_size: Elements of a batch.
        row_shape: The shape that each element fits in; ``None`` or -1 is as long as the longest of a batch.

    Returns:
        The transformation.

    Example:
        >>> rows = tf.data.experimental.from_list([[1], [2, 2]])
        >>> next(iter(rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [3])))).to_dense().tolist()
        [[1, 0, 0], [2, 2, 0]]
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def enumerate_dataset(start: int = 0) -> Transformation:
    """Makes pairs of a number and the element, as ``Dataset.enumerate`` does.

    Args:
        start: The first number.

    Returns:
        The transformation.

    Example:
        >>> [(int(i), int(x)) for i, x in tf.data.Dataset.range(5, 7).apply(tf.data.experimental.enumerate_dataset(1))]
        [(1, 5), (2, 6)]
    """
    return lambda dataset: dataset.enumerate(start)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Dataset], Dataset],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """Collects elements by key, as ``Dataset.group_by_window`` does.

    Args:
        key_func: A function of the element that returns its key, an ``int64`` scalar.
        reduce_func: A function of the key and the window that returns a dataset.
        window_size: Elements of a window.
        window_size_func: A function of the key that returns the elements of its windows.

    Returns:
        The transformation.

    Example:
        >>> windows = tf.data.experimental.group_by_window(lambda x: x % 2, lambda key, rows: rows.batch(3), 3)
        >>> [batch.tolist() for batch in tf.data.Dataset.range(6).apply(windows)]
        [[0, 2, 4], [1, 3, 5]]
    """
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def ignore_errors(log_warning: bool = False) -> Transformation:
    """Leaves out elements that fail, as ``Dataset.ignore_errors`` does.

    Args:
        log_warning: Whether each failure is logged.

    Returns:
        The transformation.

    Example:
        >>> texts = tf.data.Dataset.from_tensor_slices(["1", "x", "3"]).map(lambda x: tf.strings.to_number(x, tf.int32))
        >>> [int(x) for x in texts.apply(tf.data.experimental.ignore_errors())]
        [1, 3]
    """
    return lambda dataset: dataset.ignore_errors(log_warning)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Transformation:
    """Maps and batches; the native ``batch`` makes its rows in the map before it by itself.

    Args:
        map_func: A function of the element.
        batch_size: Elements of a batch.
        num_parallel_batches: Batches that are computed at a time.
        drop_remainder: Whether a last batch of fewer elements is left out.
        num_parallel_calls: Threads that compute.

    Returns:
        The transformation.

    Raises:
        ValueError: Both numbers are given.

    Example:
        >>> [batch.tolist() for batch in tf.data.Dataset.range(4).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2))]
        [[0, 2], [4, 6]]
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "map_and_batch: expected num_parallel_batches or num_parallel_calls, found both: "
            f"{num_parallel_batches} and {num_parallel_calls}"
        )
    calls = num_parallel_batches * batch_size if num_parallel_batches is not None else num_parallel_calls
    return lambda dataset: dataset.map(map_func, num_parallel_calls=calls).batch(batch_size, drop_remainder)


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """Adds elements of zeros until the dataset has the requested number of elements, and a component that marks real elements.

    Args:
        cardinality: The number of elements to reach.
        mask_key: The name of the component, which is true for real elements.

    Returns:
        The transformation, for datasets of dicts whose number of elements and shapes are known.

    Raises:
        ValueError: The dataset has no such elements, or more elements. Raised by ``Dataset.apply``.

    Example:
        >>> numbers = tf.data.Dataset.from_tensor_slices({"a": [1, 2]})
        >>> [(int(x["a"]), bool(x["valid"])) for x in numbers.apply(tf.data.experimental.pad_to_cardinality(3))]
        [(1, True), (2, True), (0, False)]
    """

    def padded(dataset: Dataset) -> Dataset:
        count, spec = dataset.cardinality(), dataset.element_spec
        if count < 0:
            raise ValueError(f"pad_to_cardinality: expected a dataset whose number of elements is known, found cardinality {count}")
        if count > cardinality:
            raise ValueError(f"pad_to_cardinality: expected at most {cardinality} elements, found {count}")
        if not isinstance(spec, dict):
            raise ValueError(f"pad_to_cardinality: expected a dataset of dicts, found elements of {spec}")
        filler = Dataset.from_tensors({**zeros_of(spec), mask_key: np.False_}).repeat(cardinality - count)
        return dataset.map(lambda element: {**element, mask_key: np.True_}).concatenate(filler)

    return padded


def parallel_interleave(
    map_func: Callable[..., Dataset],
    cycle_length: int,
    block_length: int = 1,
    sloppy: bool | None = False,
    buffer_output_elements: int | None = None,
    prefetch_input_elements: int | None = None,
) -> Transformation:
    """Yields the elements of several datasets in turn, each read by a thread, as ``Dataset.interleave`` does.

    Args:
        map_func: A function of the element that returns a dataset.
        cycle_length: Datasets that are open at a time.
        block_length: Elements of one dataset in a turn.
        sloppy: Whether the order may differ where that is faster.
        buffer_output_elements: Accepted as in TensorFlow; has no effect.
        prefetch_input_elements: Accepted as in TensorFlow; has no effect.

    Returns:
        The transformation.

    Example:
        >>> twice = tf.data.experimental.parallel_interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2)
        >>> [int(x) for x in tf.data.Dataset.range(2).apply(twice)]
        [0, 1, 0, 1]
    """
    deterministic = None if sloppy is None else not sloppy
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, cycle_length, deterministic)


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Sequence[float], initial_dist: Sequence[float] | None = None, seed: int | None = None
) -> Transformation:
    """Drops elements until their classes are as frequent as requested, as ``Dataset.rejection_resample`` does.

    Args:
        class_func: A function of the element that returns its class, from 0.
        target_dist: The wanted share of each class.
        initial_dist: The present share of each class; estimated by default.
        seed: The seed of the draws.

    Returns:
        The transformation.

    Example:
        >>> resampled = tf.data.experimental.rejection_resample(lambda x: tf.cast(x % 2, tf.int32), [0.0, 1.0], [0.5, 0.5], seed=1)
        >>> {int(kind) for kind, _ in tf.data.Dataset.range(100).apply(resampled)}
        {1}
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


def scan(initial_state: Any, scan_func: Callable[[Any, Any], tuple[Any, Any]]) -> Transformation:
    """Computes each element from a state and the input's element, as ``Dataset.scan`` does.

    Args:
        initial_state: The first state.
        scan_func: A function of a state and an element that returns the next state and the element to yield.

    Returns:
        The transformation.

    Example:
        >>> sums = tf.data.experimental.scan(np.int64(0), lambda state, x: (state + x, state + x))
        >>> [int(x) for x in tf.data.Dataset.range(4).apply(sums)]
        [0, 1, 3, 6]
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Transformation:
    """Shuffles, and yields the dataset several times, each time in another order.

    Args:
        buffer_size: Elements in the buffer.
        count: Passes; ``None`` or -1 for passes without end.
        seed: The seed of the draws.

    Returns:
        The transformation.

    Example:
        >>> sorted(int(x) for x in tf.data.Dataset.range(2).apply(tf.data.experimental.shuffle_and_repeat(2, count=2)))
        [0, 0, 1, 1]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def snapshot(
    path: str,
    compression: str | None = "AUTO",
    reader_func: Callable[..., Any] | None = None,
    shard_func: Callable[..., Any] | None = None,
) -> Transformation:
    """Writes the elements of the first pass to files, and reads later passes from them, as ``Dataset.snapshot`` does.

    Args:
        path: The directory.
        compression: ``AUTO``, ``LZ4``, ``SNAPPY``, ``GZIP``, ``NONE`` or ``None``.
        reader_func: Must be ``None``.
        shard_func: Must be ``None``.

    Returns:
        The transformation.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print([int(x) for x in tf.data.Dataset.range(3).apply(tf.data.experimental.snapshot(folder))])
        [0, 1, 2]
    """
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """Yields elements up to the first for which a predicate is false, as ``Dataset.take_while`` does.

    Args:
        predicate: A function of the element that returns a Boolean scalar.

    Returns:
        The transformation.

    Example:
        >>> [int(x) for x in tf.data.Dataset.range(6).apply(tf.data.experimental.take_while(lambda x: x < 2))]
        [0, 1]
    """
    return lambda dataset: dataset.take_while(predicate)


def unbatch() -> Transformation:
    """Yields the rows of every element, as ``Dataset.unbatch`` does.

    Returns:
        The transformation.

    Example:
        >>> [int(x) for x in tf.data.Dataset.range(4).batch(2).apply(tf.data.experimental.unbatch())]
        [0, 1, 2, 3]
    """
    return lambda dataset: dataset.unbatch()


def unique() -> Transformation:
    """Yields the first of equal elements, as ``Dataset.unique`` does.

    Returns:
        The transformation.

    Example:
        >>> [int(x) for x in tf.data.Dataset.from_tensor_slices([1, 2, 1]).apply(tf.data.experimental.unique())]
        [1, 2]
    """
    return lambda dataset: dataset.unique()
