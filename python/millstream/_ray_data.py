"""Datasets of Ray Data as sources of Millstream datasets, and the reverse.

A source reads the blocks that Ray has materialised in its object store, by position. A result is computed in tasks of Ray.
"""

from __future__ import annotations

import dataclasses
import importlib
import secrets
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import ray

from ._code import Limits
from ._dataset import AUTOTUNE, INFINITE_CARDINALITY, Dataset
from ._dtypes import as_dtype
from ._numpy_iterator import NumpyIterator
from ._peers import Positions, RecordDataset, Records
from ._peers_arrow import described_type, rows_of
from ._spec import Described
from .errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError, UnimplementedError

__all__ = ["from_dataset", "to_dataset"]

#: The namespace of the actors that hold blocks.
_NAMESPACE = "millstream-blocks"
#: The maximum number of datasets of Ray that a program holds as sources.
_HELD_MAX = 256
#: The seconds within which Ray must answer.
_ANSWER_S = 60.0
#: The number of rows in a block of a result.
_ROWS = 1024
#: The column of elements that are no dicts.
_COLUMN = "item"

#: The actors that hold the blocks of this program's sources. They end with the program.
_held: list[Any] = []
_connecting = threading.Lock()


class _Blocks:
    """The actor that holds references to the blocks of a dataset, so that Ray keeps the blocks."""

    def __init__(self, references: list[Any]) -> None:
        self._references = references

    def references(self) -> list[Any]:
        """Returns the references."""
        return self._references


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _RayRecords(Records):
    """The rows of a materialised dataset of Ray."""

    #: The address of the Ray cluster.
    cluster: str
    #: The name of the actor that holds the blocks.
    holder: str
    #: The number of rows before the end of each block.
    ends: np.ndarray[Any, Any] = dataclasses.field(compare=False)

    def opened(self) -> list[Any]:
        _connect(self.cluster)
        try:
            holder = ray.get_actor(self.holder, namespace=_NAMESPACE)
            references: list[Any] = ray.get(holder.references.remote(), timeout=_ANSWER_S)
        except (ValueError, ray.exceptions.RayError) as error:
            raise UnavailableError(
                f"{self.name}: Ray no longer holds its blocks: the program that called ms.ray.from_dataset must still run ({error})"
            ) from error
        return references

    def length(self, handle: Any) -> int:
        return int(self.ends[-1]) if len(handle) == len(self.ends) and len(handle) else 0

    def read(self, handle: Any, positions: Positions) -> dict[str, Any]:
        import pyarrow as pa

        blocks = np.searchsorted(self.ends, positions, side="right")
        touched = np.unique(blocks)
        # One call fetches all blocks at the same time.
        fetched = ray.get([handle[block] for block in touched], timeout=_ANSWER_S)
        tables, order = [], []
        for block, table in zip(touched, fetched, strict=True):
            chosen = np.flatnonzero(blocks == block)
            start = self.ends[block - 1] if block else 0
            tables.append(table.take(pa.array(positions[chosen] - start)))
            order.append(chosen)
        table = pa.concat_tables(tables)
        if len(tables) > 1:
            table = table.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
        return {name: _rows(table.column(name), item, f"{name!r} of {self.name}") for name, item in self.described[1]}


def from_dataset(
    dataset: Any,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    num_parallel_calls: int = AUTOTUNE,
    limits: Limits | None = None,
    on_error: str = "raise",
) -> RecordDataset:
    """Yields the rows of a dataset of Ray Data, as dicts of its columns.

    The call materialises the dataset in Ray's object store, and the rows keep the order of their blocks. A dataset that was materialised before keeps
    the order that Ray found then: set ``preserve_order`` in its execution options first. Workers read blocks by position, so an exactly-once job
    reads each row once, although workers and nodes without blocks die. The workers must run on the same Ray cluster, as those of ``serve`` do, and the program must run
    while the workers read. The attribute ``records`` of the result is a dataset with indices, for ``ms.DataLoader``.

    Args:
        dataset: The ``ray.data.Dataset``.
        shuffle: Whether every pass reads the rows in another order.
        seed: The seed of the order.
        num_parallel_calls: The Python processes of each worker; by default as many as help.
        limits: Limits of the processes.
        on_error: Raises an error for rows that cannot be read (``"raise"``), or skips their block of up to 1024 rows (``"skip"``).

    Returns:
        The new dataset.

    Raises:
        InvalidArgumentError: The argument is no dataset of Ray Data.
        ResourceExhaustedError: The program holds too many datasets of Ray.
        UnimplementedError: A column has a type that elements cannot hold.
    """
    if not hasattr(dataset, "to_arrow_refs"):
        raise InvalidArgumentError(f"dataset: expected a ray.data.Dataset, found {type(dataset).__name__}")
    if len(_held) >= _HELD_MAX:
        raise ResourceExhaustedError(f"this program holds {_HELD_MAX} datasets of Ray already: build each source once, and use it for all epochs")
    tables = _ordered_tables(dataset)
    facts = ray.get([ray.remote(_facts).options(num_cpus=0).remote(table) for table in tables])
    tables = [table for table, (count, _) in zip(tables, facts, strict=True) if count]
    facts = [fact for fact in facts if fact[0]]
    if not facts:
        raise InvalidArgumentError("dataset: expected at least one row, found an empty dataset")
    holder = f"blocks-{uuid.uuid4().hex}"
    actor = ray.remote(_Blocks).options(name=holder, namespace=_NAMESPACE, num_cpus=0, max_concurrency=16)
    _held.append(actor.remote(tables))
    records = _RayRecords(
        name="the dataset of Ray",
        count=sum(count for count, _ in facts),
        described=_agreed([schema for _, schema in facts]),
        module="ray",
        cluster=ray.get_runtime_context().gcs_address,
        holder=holder,
        ends=np.cumsum([count for count, _ in facts], dtype=np.int64),
    )
    return RecordDataset(records, shuffle=shuffle, seed=seed, num_parallel_calls=num_parallel_calls, limits=limits, on_error=on_error)


def to_dataset(dataset: Dataset, *, parallelism: int | None = None, service: Any = None) -> Any:
    """Returns a dataset of Ray Data with one row for each element.

    Tasks of Ray compute the elements, each task a part of the dataset. The splits of the source are divided if the parts then yield the elements
    of the whole dataset. Otherwise, for example after ``take`` or a ``batch`` across splits, each task computes all elements and keeps its
    share: pass ``parallelism=1``, or apply such operations to the result. All tasks use one seed for operations without a seed, and keep the
    order of parallel operations, also with ``deterministic=False``. A dataset that reads a service is read by one task, because its workers
    compute the elements in parallel. The columns are the components of the elements; an element that is no dict has the column ``item``,
    or ``item_0``, ``item_1`` and so on for a tuple.

    Args:
        dataset: The dataset, which must be finite. Batches become rows with a further dimension: remove a ``batch`` to get single elements.
        parallelism: The number of tasks; by default the number of CPUs of the Ray cluster.
        service: The ``RayService`` that the dataset reads, whose key the tasks need. By default the tasks have the keys of their nodes.

    Returns:
        The ``ray.data.Dataset``, which is lazy.

    Raises:
        InvalidArgumentError: The dataset is infinite, or ``parallelism`` does not fit.
    """
    if dataset.cardinality() == INFINITE_CARDINALITY:
        raise InvalidArgumentError("the dataset is infinite: add take(count)")
    reads_service = dataset._graph.reads_service
    if parallelism is None:
        parallelism = 1 if reads_service else max(1, int(ray.cluster_resources().get("CPU", 1)))
    if parallelism < 1 or (reads_service and parallelism > 1):
        allowed = "1, because the dataset reads a service" if reads_service else "at least 1"
        raise InvalidArgumentError(f"parallelism={parallelism}: expected {allowed}")
    tasks = importlib.import_module("ray.data").range(parallelism, override_num_blocks=parallelism)
    return tasks.map_batches(_Part(dataset, parallelism, service), batch_size=1, zero_copy_batch=True)


class _Part:
    """Computes the part of a dataset that belongs to a task."""

    def __init__(self, dataset: Dataset, parts: int, service: Any) -> None:
        # The copy of the service in a task gives the task its key.
        self._service = service
        # The program draws the seed. All tasks then order the elements alike, also a task that runs again.
        self._dataset, self._parts, self._seed = dataset, parts, secrets.randbits(63)
        # Every task reads the first pass. A service delivers each pass once, so its task reads the next one.
        self._pass = None if dataset._graph.reads_service else 0
        self.__name__ = "millstream"

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the columns of up to ``_ROWS`` elements at a time."""
        for part in batch["id"]:
            share = _share(self._dataset, self._parts, int(part), self._seed)
            rows: list[dict[str, Any]] = []
            for element in NumpyIterator(share, self._pass, self._seed):
                rows.append(_columns(element))
                if len(rows) == _ROWS:
                    yield _block(rows)
                    rows = []
            if rows:
                yield _block(rows)


def _share(dataset: Dataset, parts: int, part: int, seed: int) -> Dataset:
    """Returns one part of a dataset. The work is divided if the splits of the source alone yield the elements of the dataset.

    Args:
        dataset: The dataset.
        parts: The number of parts.
        part: The number of this part.
        seed: The seed of operations without a seed, the same for all parts.
    """
    if parts == 1:
        return dataset
    try:
        # The splits of this graph fit the batches of the dataset.
        graph = dataset._graph.exactly_once(seed)
        is_alike = graph.is_alike_on_splits()
    except InvalidArgumentError:
        is_alike = False
    if is_alike:
        return dataset._then(graph.sharded("splits", parts, part))
    # Each task counts all elements, so the tasks must agree on the order.
    return dataset._then(dataset._graph.same_everywhere(seed)).shard(parts, part)


def _columns(element: Any) -> dict[str, Any]:
    if isinstance(element, Mapping):
        return {str(name): value for name, value in element.items()}
    if isinstance(element, tuple):
        return {f"{_COLUMN}_{place}": value for place, value in enumerate(element)}
    return {_COLUMN: element}


def _block(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the columns of rows. Values of different shapes stay single arrays."""
    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        shapes = {np.shape(value) for value in values}
        if len(shapes) == 1:
            columns[name] = np.stack([np.asarray(value) for value in values])
        else:
            columns[name] = np.empty(len(values), object)
            columns[name][:] = values
    return columns


def _ordered_tables(dataset: Any) -> list[Any]:
    """Returns the blocks of a dataset in their order. By default, Ray yields blocks as they become ready."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        tables: list[Any] = dataset.to_arrow_refs()
    finally:
        options.preserve_order = before
    return tables


def _facts(table: Any) -> tuple[int, Any]:
    """Returns the number of rows and the schema of a block."""
    return table.num_rows, table.schema


def _agreed(schemas: list[Any]) -> Described:
    """Returns the spec of a row, which must be the same in all blocks."""
    first: dict[str, Described] = {}
    for schema in schemas:
        found = {field.name: _described(field.type, repr(field.name)) for field in schema}
        first = first or found
        if found != first:
            name = next(name for name in (*first, *found) if first.get(name) != found.get(name))
            raise UnimplementedError(
                f"the column {name!r} has different shapes or types in the blocks of the dataset: make them equal with map_batches"
            )
    return ("dict", list(first.items()))


def _described(kind: Any, where: str) -> Described:
    """Returns the spec of a value of an Arrow type, or of a tensor type of Ray."""
    if _is_tensor(kind):
        if None in kind.shape:
            raise UnimplementedError(f"the column {where} has tensors of different shapes: pad them to one shape with map_batches")
        return ("tensor", as_dtype(kind.value_type.to_pandas_dtype()).code, tuple(kind.shape))
    return described_type(kind, where)


def _is_tensor(kind: Any) -> bool:
    """Returns whether an Arrow type is a tensor type of Ray."""
    return getattr(kind, "extension_name", "").startswith("ray.data.")


def _rows(column: Any, described: Described, where: str) -> Any:
    if _is_tensor(column.type):
        chunks = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]
        return np.concatenate(chunks) if chunks else np.empty((0, *described[2]))
    return rows_of(column, described, where)


def _connect(cluster: str) -> None:
    """Connects this process to the Ray cluster, if it is not connected."""
    with _connecting:
        if not ray.is_initialized():
            ray.init(address=cluster, namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR")
    # The import registers the tensor types of Ray with Arrow.
    importlib.import_module("ray.data")
