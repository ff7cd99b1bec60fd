"""Datasets of ``tf.train.Example`` records: ``make_batched_features_dataset`` and ``parse_example_dataset``.

Owns TensorFlow's parameters and the order of operations. Refuses to know how records are parsed: ``Dataset.parse_example`` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...._dataset import AUTOTUNE, Dataset
from ...._spec import TensorSpec
from ....files import TFRecordDataset
from ...io import features_of_bytes
from ._transformations import Transformation

__all__ = ["make_batched_features_dataset", "parse_example_dataset", "shuffled_and_repeated"]


def parse_example_dataset(features: Mapping[str, Any], num_parallel_calls: int | None = 1, deterministic: bool | None = None) -> Transformation:
    """Parses vectors of serialised ``tf.train.Example`` records. Features of dtype ``tf.string`` are byte strings.

    Args:
        features: A ``FixedLenFeature``, ``VarLenFeature``, ``RaggedFeature`` or ``FixedLenSequenceFeature`` by name.
        num_parallel_calls: Threads that parse.
        deterministic: Whether parallel calls keep the order; true by default.

    Returns:
        The transformation, which makes dicts.

    Raises:
        ValueError: There are no features.
        TypeError: The dataset has other elements than vectors of byte strings. Raised by ``Dataset.apply``.

    Example:
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> parse = tf.data.experimental.parse_example_dataset({"a": tf.io.FixedLenFeature([], tf.int64)})
        >>> next(iter(tf.data.Dataset.from_tensors(record).repeat(2).batch(2).apply(parse)))["a"].tolist()
        [7, 7]
    """
    if not features:
        raise ValueError(f"parse_example_dataset: expected features, found {features!r}")

    def parsed(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        is_vector = isinstance(spec, TensorSpec) and spec.dtype.code in ("bytes", "string") and spec.shape is not None and len(spec.shape) == 1
        if not is_vector:
            raise TypeError(f"parse_example_dataset: expected elements that are vectors of byte strings, found {spec}")
        graph = dataset.parse_example(features_of_bytes(features))._graph
        if num_parallel_calls not in (None, 1):
            graph = graph.parallel(0 if num_parallel_calls == AUTOTUNE else int(num_parallel_calls or 1))
            graph = graph if deterministic is None else graph.in_order(deterministic)
        return dataset._then(graph)

    return parsed


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[..., Dataset] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Yields batches of the features of ``tf.train.Example`` records in files. Features of dtype ``tf.string`` are byte strings.

    Args:
        file_pattern: Paths, or patterns of paths.
        batch_size: Records of a batch.
        features: The features by name.
        reader: A function of a path that returns a dataset of records; ``tf.data.TFRecordDataset`` by default.
        label_key: The feature that becomes the second part of a pair of features and label.
        reader_args: Further arguments of the reader.
        num_epochs: Passes over the files; ``None`` for passes without end.
        shuffle: Whether paths and records are shuffled.
        shuffle_buffer_size: Records in the buffer of the shuffle.
        shuffle_seed: The seed of the shuffle.
        prefetch_buffer_size: Batches that are computed ahead; tuned by default.
        reader_num_threads: Files that are read at a time; 1 by default.
        parser_num_threads: Threads that parse; 2 by default.
        sloppy_ordering: Whether the order may differ where that is faster.
        drop_final_batch: Whether a last batch of fewer records is left out. Passes without end have no last batch.

    Returns:
        The new dataset, of dicts, or of pairs of a dict and a label.

    Raises:
        ValueError: The label is no feature.

    Example:
        >>> import tempfile
        >>> record = bytes.fromhex("0a0c0a0a0a016112051a030a0107")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tf.data.experimental.TFRecordWriter(folder + "/a").write(tf.data.Dataset.from_tensors(record).repeat(3))
        ...     features = {"a": tf.io.FixedLenFeature([], tf.int64)}
        ...     dataset = tf.data.experimental.make_batched_features_dataset(folder + "/*", 2, features, num_epochs=1)
        ...     print([batch["a"].tolist() for batch in dataset])
        [[7, 7], [7]]
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"make_batched_features_dataset: expected label_key among {', '.join(features)}, found {label_key!r}")
    read, arguments = reader or TFRecordDataset, list(reader_args or ())
    files = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    threads = reader_num_threads or 1
    cycle = None if threads == AUTOTUNE else threads
    parallel = None if threads == 1 else threads
    order = None if parallel is None else not sloppy_ordering
    records = files.interleave(lambda path: read(path, *arguments), cycle, 1, parallel, order)
    if isinstance(records.element_spec, tuple) and len(records.element_spec) == 2:
        # Pairs of a key and a record.
        records = records.map(lambda _, record: record)
    records = shuffled_and_repeated(records, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    batches = records.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    parsed = batches.apply(parse_example_dataset(features, parser_num_threads or 2, not sloppy_ordering))
    if label_key is not None:
        parsed = _labelled(parsed, label_key)
    return parsed.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def shuffled_and_repeated(dataset: Dataset, num_epochs: int | None, shuffle: bool, buffer_size: int, seed: int | None) -> Dataset:
    """Returns a dataset in another order in every pass, as often as requested.

    Args:
        dataset: The dataset.
        num_epochs: Passes; ``None`` for passes without end.
        shuffle: Whether the order differs.
        buffer_size: Elements in the buffer of the shuffle.
        seed: The seed of the shuffle.
    """
    shuffled = dataset.shuffle(buffer_size, seed) if shuffle else dataset
    return shuffled if num_epochs == 1 else shuffled.repeat(num_epochs)


def _labelled(dataset: Dataset, label_key: str) -> Dataset:
    """Returns pairs of the features without the label, and the label."""
    spec = dataset.element_spec
    others = {name: item for name, item in spec.items() if name != label_key}
    if all(isinstance(item, TensorSpec) for item in spec.values()):
        return dataset.map(lambda element: ({name: element[name] for name in others}, element[label_key]))
    # Native functions have no ragged and sparse tensors.
    return dataset.map_python(_Labelled(label_key), element_spec=(others, spec[label_key]))


class _Labelled:
    """Makes pairs of the features without the label, and the label."""

    def __init__(self, label_key: str) -> None:
        self.label_key = label_key

    def __call__(self, element: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        return {name: value for name, value in element.items() if name != self.label_key}, element[self.label_key]
