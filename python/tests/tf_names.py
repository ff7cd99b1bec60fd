"""The names of ``tf.data`` with their status in ``millstream.compat``: same, differs, or refused.

Run: ``python tests/tf_names.py`` writes the page ``docs/reference/tf-names.md``. ``test_compat_names.py`` compares the page, and fails for a
name of TensorFlow that has no row.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from millstream import compat as tf
from millstream.compat._refusal import reason_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "tf-names.md"
FIXTURE = json.loads((Path(__file__).parent / "tensorflow_names.json").read_text())
UPSTREAM: dict[str, Any] = FIXTURE["names"]

#: Names of older versions of TensorFlow that work here.
FORMER = ("StatsAggregator", "StatsOptions", "bytes_produced_stats", "latency_stats")

_TEXT = "text fields are `bytes`, and specs say `ms.bytes` where TensorFlow says `tf.string`"
_ONCE = "the function is recorded once and runs natively, without AutoGraph; Python runs by `tf.numpy_function` or `map_python`"
_NOTHING = "has no effect, which a warning says"
_OPTIMIZATION = "has no effect: `True` warns; no element depends on it"

#: Names that behave otherwise than in TensorFlow, and how.
DIFFERS = {
    "tf.data.Dataset": "elements are NumPy arrays and `str`; no element is a dataset; a dataset is made by its static methods alone",
    "tf.data.Dataset.as_numpy_iterator": "text is `str`; the first element is computed when it is requested",
    "tf.data.Dataset.bucket_by_sequence_length": "batches left at the end come with the shortest first",
    "tf.data.Dataset.cache": "in memory 1 GiB at most; shared by all datasets that are made of this one; files are of Millstream's format",
    "tf.data.Dataset.cardinality": "returns an `int`",
    "tf.data.Dataset.filter": _ONCE,
    "tf.data.Dataset.fingerprint": "other numbers, equal for equal definitions",
    "tf.data.Dataset.flat_map": _ONCE,
    "tf.data.Dataset.from_tensor_slices": "no slices of ragged and sparse tensors; text is `str`",
    "tf.data.Dataset.group_by_window": _ONCE + "; the key cannot be computed with; windows hold 2^24 elements at most",
    "tf.data.Dataset.interleave": _ONCE + "; the default `cycle_length` is the number of processors",
    "tf.data.Dataset.list_files": "another order for the same seed; also of object stores and servers",
    "tf.data.Dataset.load": "reads what Millstream saved; `reader_func` gets datasets in `interleave` and `flat_map` alone; `wait` gives up after 10 minutes",
    "tf.data.Dataset.map": _ONCE,
    "tf.data.Dataset.options": "a change of the returned options changes the dataset; TensorFlow raises `ValueError`",
    "tf.data.Dataset.ragged_batch": "`row_splits_dtype` is `tf.int64`",
    "tf.data.Dataset.random": "other numbers for the same seed",
    "tf.data.Dataset.rejection_resample": "each element is yielded once at most",
    "tf.data.Dataset.sample_from_datasets": "other draws for the same seed",
    "tf.data.Dataset.save": "files are of Millstream's format; `shard_func` and `checkpoint_args` are refused",
    "tf.data.Dataset.scan": _ONCE,
    "tf.data.Dataset.shuffle": "another order for the same seed",
    "tf.data.Dataset.snapshot": "files are of Millstream's format; `reader_func` and `shard_func` are refused; `SNAPPY` is LZ4",
    "tf.data.Dataset.sparse_batch": "a Python process of the worker makes the coordinates; an element that is too large is `UserFunctionError`",
    "tf.data.Dataset.take_while": _ONCE,
    "tf.data.Dataset.window": "returns an object whose `flat_map` makes elements of windows, since no element is a dataset",
    "tf.data.FixedLengthRecordDataset": "`num_parallel_reads` has no effect: `interleave` reads several files",
    "tf.data.NumpyIterator.restore": "takes a state of `save`; elements before the position are computed and left out",
    "tf.data.NumpyIterator.save": "returns `bytes` of constant size; refused for datasets that read a service",
    "tf.data.Options.dataset_name": _NOTHING,
    "tf.data.Options.experimental_service": "`pinned` " + _NOTHING,
    "tf.data.Options.experimental_slack": "has no effect: `True` warns",
    "tf.data.Options.experimental_symbolic_checkpoint": "is always so: `False` warns",
    "tf.data.Options.framework_type": _NOTHING,
    "tf.data.TFRecordDataset": "`num_parallel_reads` has no effect: `interleave` reads several files",
    "tf.data.TextLineDataset": "lines are `str`; compressed files are refused; `num_parallel_reads` has no effect",
    "tf.data.experimental.AutotuneAlgorithm": "names alone: Millstream tunes by an algorithm of its own",
    "tf.data.experimental.AutotuneOptions.autotune_algorithm": "has no effect: others than `DEFAULT` warn",
    "tf.data.experimental.AutotuneOptions.initial_parallelism": _NOTHING,
    "tf.data.experimental.AutotuneOptions.min_parallelism": _NOTHING,
    "tf.data.experimental.CsvDataset": _TEXT + "; empty lines are no rows; a row that does not fit is `DataLossError`",
    "tf.data.experimental.DistributeOptions.num_devices": _NOTHING,
    "tf.data.experimental.OptimizationOptions.filter_fusion": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.filter_parallelization": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.inject_prefetch": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.map_and_batch_fusion": "is always done: `False` warns",
    "tf.data.experimental.OptimizationOptions.map_and_filter_fusion": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.map_parallelization": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.parallel_batch": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.seq_interleave_prefetch": _OPTIMIZATION,
    "tf.data.experimental.OptimizationOptions.shuffle_and_repeat_fusion": _OPTIMIZATION,
    "tf.data.experimental.RandomDataset": "other numbers for the same seed",
    "tf.data.experimental.ServiceOptions.pinned": _NOTHING + "; `ms.feed` pins memory",
    "tf.data.experimental.SqlDataset": _TEXT,
    "tf.data.experimental.TFRecordWriter": "checksums are computed in Python, about 8 MB a second",
    "tf.data.experimental.at": "of any dataset; the elements before the position are computed",
    "tf.data.experimental.bucket_by_sequence_length": "as the method of `Dataset`",
    "tf.data.experimental.cardinality": "returns an `int`",
    "tf.data.experimental.copy_to_device": "processors alone; `ms.feed` copies to other devices",
    "tf.data.experimental.dense_to_ragged_batch": "`row_splits_dtype` is `tf.int64`",
    "tf.data.experimental.dense_to_sparse_batch": "as `Dataset.sparse_batch`",
    "tf.data.experimental.distributed_save": "returns when everything is saved; this process writes datasets that cannot be read exactly once, such as a `zip`",
    "tf.data.experimental.enable_debug_mode": "functions of `map` alone run as Python",
    "tf.data.experimental.group_by_reducer": "elements are held until the end; states have tensors of known shapes",
    "tf.data.experimental.group_by_window": "as the method of `Dataset`",
    "tf.data.experimental.load": "as `Dataset.load`",
    "tf.data.experimental.make_batched_features_dataset": _TEXT,
    "tf.data.experimental.make_csv_dataset": _TEXT + "; `encoding` is of the rows that are looked into",
    "tf.data.experimental.parallel_interleave": "`buffer_output_elements` and `prefetch_input_elements` have no effect",
    "tf.data.experimental.parse_example_dataset": _TEXT,
    "tf.data.experimental.prefetch_to_device": "processors alone; `ms.feed` copies to other devices",
    "tf.data.experimental.rejection_resample": "each element is yielded once at most",
    "tf.data.experimental.sample_from_datasets": "other draws for the same seed",
    "tf.data.experimental.save": "as `Dataset.save`",
    "tf.data.experimental.scan": _ONCE,
    "tf.data.experimental.service.DispatchServer": "`target` begins with `millstream://`; processes prove their identity by a key",
    "tf.data.experimental.service.DispatcherConfig": "a dataclass; `protocol` and `worker_max_concurrent_snapshots` have no effect",
    "tf.data.experimental.service.WorkerConfig": "a dataclass; `protocol` and `heartbeat_interval_ms` have no effect",
    "tf.data.experimental.service.WorkerServer": "a worker runs Python in processes of its own",
    "tf.data.experimental.service.distribute": "further parameters, such as `on_lost`; an element that compression does not make shorter travels uncompressed",
    "tf.data.experimental.service.from_dataset_id": "`element_spec` is checked against the service's",
    "tf.data.experimental.service.register_dataset": "returns a `str`",
    "tf.data.experimental.shuffle_and_repeat": "another order for the same seed",
    "tf.data.experimental.snapshot": "as `Dataset.snapshot`",
    "tf.data.experimental.take_while": _ONCE,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    status: str
    note: str


def found(name: str) -> Any:
    """Returns the value of a name such as ``tf.data.Dataset`` or ``tf.data.Dataset.map``.

    Raises:
        AttributeError: ``compat`` has no such name.
    """
    value: Any = tf
    for part in name.split(".")[1:]:
        value = inspect.getattr_static(value, part) if inspect.isclass(value) else getattr(value, part)
    return getattr(value, "__func__", value)


def has_attribute(kind: type, name: str) -> bool:
    """Returns whether objects of a class have an attribute: one of the class, or one that its options or settings name."""
    if hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", {}):
        return True
    return name in getattr(kind, "_formerly", {})


def row(name: str) -> Row:
    """Returns the row of a name that ``compat`` has."""
    parts = name.rpartition(".")
    owner = found(parts[0])
    value = found(name) if not inspect.isclass(owner) or hasattr(owner, parts[2]) else None
    reason = reason_of(value) or (reason_of(owner) if inspect.isclass(owner) else None)
    if reason is not None:
        return Row(name, "refused", reason)
    values = UPSTREAM.get(name, {}).get("members", {}) if UPSTREAM.get(name, {}).get("kind") == "enum" else {}
    listed = f"values: {', '.join(f'`{value}`' for value in values)}" if values else ""
    if name in DIFFERS:
        return Row(name, "differs", "; ".join(filter(None, (DIFFERS[name], listed))))
    return Row(name, "same", listed)


def upstream_names() -> Iterator[str]:
    """Yields all names of TensorFlow. The members of a class follow the class."""
    for name, described in UPSTREAM.items():
        yield name
        for member in described.get("members", {}):
            yield f"{name}.{member}"


def others() -> Iterator[tuple[str, Any]]:
    """Yields the names of ``compat`` outside of ``tf.data``."""
    for name in tf.__all__:
        value = getattr(tf, name)
        if not isinstance(value, ModuleType):
            yield f"tf.{name}", value
        elif name not in ("data", "errors"):
            yield from ((f"tf.{name}.{inner}", getattr(value, inner)) for inner in value.__all__)


def _first_sentence(value: Any) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ") if callable(value) else ""
    return text.partition(". ")[0].rstrip(".").replace("``", "`").replace("|", "\\|")


def _table(rows: list[Row]) -> list[str]:
    lines = ["| name | status | note |", "|---|---|---|"]
    return [*lines, *(f"| `{each.name}` | {each.status} | {each.note} |" for each in rows)]


INTRODUCTION = """# Names of TensorFlow

This page is generated by `python/tests/tf_names.py`. It lists all public names of `tf.data`, `tf.data.experimental` and
`tf.data.experimental.service` of TensorFlow {version}, with their status in `from millstream import compat as tf`.

- **same**: the parameters, defaults, elements and kinds of errors are those of TensorFlow. Elements are NumPy arrays, and text is `str`.
- **differs**: the name works, and the note states the differences.
- **refused**: the name exists. Using it raises `UnimplementedError` with the reason in the note.

The docstring of each name that works has an example. Constants:

```python
from millstream import compat as tf

numbers = tf.data.Dataset.range(6).prefetch(tf.data.AUTOTUNE).map(lambda x: x + 1, num_parallel_calls=tf.data.experimental.AUTOTUNE)
assert numbers.repeat().cardinality() == tf.data.INFINITE_CARDINALITY == tf.data.experimental.INFINITE_CARDINALITY
assert numbers.filter(lambda x: x > 3).cardinality() == tf.data.UNKNOWN_CARDINALITY == tf.data.experimental.UNKNOWN_CARDINALITY
shared = tf.data.Dataset.range(6).shard(tf.data.experimental.SHARD_HINT, 0)  # each worker of a service reads its share
```
"""


def page() -> str:
    """Returns the text of the page."""
    lines = [INTRODUCTION.format(version=FIXTURE["tensorflow"])]
    for module in ("tf.data", "tf.data.experimental", "tf.data.experimental.service"):
        own = [name for name in UPSTREAM if name.rpartition(".")[0] == module]
        lines += [f"## `{module}`", "", *_table([row(name) for name in own]), ""]
        for name in own:
            members = [f"{name}.{member}" for member in UPSTREAM[name].get("members", {})]
            if members and UPSTREAM[name]["kind"] == "class":
                lines += [f"### `{name}`", "", *_table([row(member) for member in members]), ""]
    lines += ["## Names of TensorFlow up to 2.5", "", *_table([row(f"tf.data.experimental.{name}") for name in FORMER]), ""]
    lines += ["## Names outside of `tf.data`", "", "Functions of datasets use them. With arrays they compute at once.", ""]
    lines += ["| name | status | meaning |", "|---|---|---|"]
    for name, value in others():
        reason = reason_of(value)
        lines.append(f"| `{name}` | refused | {reason} |" if reason else f"| `{name}` | works | {_first_sentence(value)} |")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
