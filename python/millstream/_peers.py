"""Records of other libraries' formats, read by position through the format's own library, on workers and in the trainer.

Owns the plan of such a dataset: a range of positions, blocks of positions, one call of Python for each block, and the rows of the result.
Refuses to know any format: a subclass of ``Records`` opens it, describes its records and reads them.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from . import ops
from ._code import Limits, packed
from ._dataset import AUTOTUNE, Dataset
from ._dtypes import numpy_dtype
from ._options import error_policy
from ._spec import Described
from .errors import DataLossError, FailedPreconditionError, InvalidArgumentError, MillstreamError, NotFoundError

__all__ = ["Positions", "RecordDataset", "Records", "bytes_per_record", "library", "local_path", "rows_of_block"]

Positions = npt.NDArray[np.int64]

#: The bytes of a block, so that a block of large records costs more time to read and send than the call of Python.
_BLOCK_BYTES = 1 << 20
#: The maximum number of records in a block. A measured call costs as much as the pipeline takes for 100 small records, a tenth of such a block.
_BLOCK_ROWS = 1024
#: The number of blocks of a small dataset, so that several workers share the dataset.
_BLOCKS_WANTED = 64
#: The number of sources that a process keeps open.
_OPEN_MAX = 16
#: The size of a text or of a dimension that is not known, for an estimate.
_UNKNOWN_BYTES, _UNKNOWN_SIZE = 256, 64


def library(module: str, package: str, extra: str, function: str) -> Any:
    """Imports the library of a format.

    Args:
        module: The name of the module.
        package: The name of the package in the index.
        extra: The extra of Millstream that installs the package.
        function: The public function that needs the package.

    Returns:
        The module.

    Raises:
        FailedPreconditionError: The package is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FailedPreconditionError(
            f"ms.files.{function} needs the package {package}, which {sys.executable} cannot import ({error}): run "
            f"pip install 'millstream[{extra}]' for this interpreter, on workers and in the trainer"
        ) from error


def local_path(path: str | os.PathLike[str]) -> str:
    """Returns a path as text. A path of this machine becomes absolute, because workers may run in another directory.

    Raises:
        InvalidArgumentError: The path is empty.
        NotFoundError: The path is one of this machine, and does not exist.
    """
    text = os.fspath(path)
    if not text:
        raise InvalidArgumentError("expected a path, found an empty text")
    if "://" in text:
        return text
    if not os.path.exists(text):
        raise NotFoundError(f"{text}: no such file or directory")
    return os.path.abspath(text)


def bytes_per_record(described: Described) -> int:
    """Returns an estimate of the bytes of a record, from its spec."""
    kind = described[0]
    if kind == "dict":
        return sum(bytes_per_record(item) for _, item in described[1])
    if kind != "tensor":
        return sum(bytes_per_record(item) for item in described[1])
    items = int(np.prod([_UNKNOWN_SIZE if size is None else size for size in described[2]], dtype=np.int64))
    return items * (_UNKNOWN_BYTES if described[1] in ("string", "bytes") else numpy_dtype(described[1]).itemsize)


def rows_of_block(record_bytes: int, count: int) -> int:
    """Returns the number of records that one call of Python reads.

    Args:
        record_bytes: The bytes of a record.
        count: The number of records of the dataset.
    """
    return max(1, min(_BLOCK_BYTES // max(record_bytes, 1), _BLOCK_ROWS, -(-count // _BLOCKS_WANTED)))


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Records(abc.ABC):
    """The records of a source by position, as a dataset with indices: ``ms.DataLoader`` reads it with exact resume.

    The object is pickled to workers. Each process opens the source when it reads the first record, and closes sources that were not used for long.

    Attributes:
        name: The source, for messages.
        count: The number of records when the dataset was built.
        described: The spec of a record, as plain tuples. A record nests dicts and tuples of tensors.
        module: The module of the library, which the workers import before they start processes.
    """

    name: str
    count: int
    described: Described = dataclasses.field(hash=False, compare=False)
    module: str

    #: Whether several threads may read one opened source at a time.
    is_shared: ClassVar[bool] = True

    @abc.abstractmethod
    def opened(self) -> Any:
        """Opens the source in this process, with the format's library."""

    @abc.abstractmethod
    def length(self, handle: Any) -> int:
        """Returns the number of records of an opened source."""

    @abc.abstractmethod
    def read(self, handle: Any, positions: Positions) -> Any:
        """Reads the records at these positions.

        Returns:
            The rows, nested as a record is. A tensor of fixed shape is an array with a leading dimension. Text and tensors of other shapes are
            lists of the rows.
        """

    def rows(self, positions: Positions) -> Any:
        """Reads records as ``read`` does. An error names the source and the positions.

        Raises:
            DataLossError: The library cannot read the records.
            FailedPreconditionError: This process lacks the library, or sees other data than the trainer.
        """
        with _HERE.handle(self) as handle:
            try:
                return self.read(handle, positions)
            except MillstreamError:
                raise
            except Exception as error:
                raise DataLossError(f"{self.name}: reading {_named(positions)} failed: {_first_line(error)}") from error

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        place = int(index)
        if not -self.count <= place < self.count:
            raise IndexError(f"expected an index below {self.count}, found {place}")
        return _row(self.rows(np.array([place % self.count], np.int64)), 0)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns several records, which the library reads at once."""
        rows = self.rows(np.asarray(indices, np.int64))
        return [_row(rows, place) for place in range(len(indices))]

    def __repr__(self) -> str:
        return f"<{self.count} records of {self.name}>"


class RecordDataset(Dataset):
    """A dataset of records that a format's library reads by position.

    Attributes:
        records: The records as a dataset with indices, for ``ms.DataLoader``.
    """

    def __init__(
        self,
        records: Records,
        *,
        rows: int | None = None,
        shuffle: bool = False,
        shuffles_blocks: bool = False,
        seed: int | None = None,
        num_parallel_calls: int = AUTOTUNE,
        limits: Limits | None = None,
        on_error: str = "raise",
    ) -> None:
        """Plans the dataset.

        Args:
            records: The records.
            rows: The number of records of a block; chosen by the size of a record if ``None``.
            shuffle: Whether every pass reads the records in another order.
            shuffles_blocks: Whether a shuffle keeps the records of a block together.
            seed: The seed of the order.
            num_parallel_calls: The Python processes of a worker that read.
            limits: Limits of the processes.
            on_error: ``"raise"`` or ``"skip"``. A block with a record that cannot be read is left out as a whole.
        """
        skips = error_policy(on_error) == "skip"
        size = rows or rows_of_block(bytes_per_record(records.described), records.count)
        threads = 0 if num_parallel_calls == AUTOTUNE else num_parallel_calls
        batched = _batched(records.described)
        if batched is None:
            size = 1
        in_blocks = shuffle and shuffles_blocks and size > 1
        places = Dataset.range(-(-records.count // size) if in_blocks else records.count).split_size(1 if in_blocks else size)
        if shuffle:
            places = places.shuffle(max(records.count, 1), seed)
        if batched is None:
            read = Dataset(places._graph.map_python(records.described, packed(_Single(records), limits=limits)).parallel(threads))
            dataset = read.on_error("skip") if skips else read
        else:
            if not in_blocks:
                places = places.batch(size)
            code = packed(_Block(records, size if in_blocks else None), limits=limits)
            read = Dataset(places._graph.map_python(batched, code).parallel(threads))
            dataset = _unpacked((read.on_error("skip") if skips else read).unbatch(), records.described)
            if not skips:
                dataset = dataset.assert_cardinality(records.count)
        super().__init__(dataset._graph, options=dataset.options())
        self.records = records


@dataclasses.dataclass(frozen=True, eq=False)
class _Block:
    """The function of a block of positions, or of the number of a block of ``size`` records, on a worker."""

    records: Records
    size: int | None

    def __call__(self, places: Any) -> Any:
        if self.size is None:
            positions = np.asarray(places, np.int64)
        else:
            positions = np.arange(int(places) * self.size, min((int(places) + 1) * self.size, self.records.count))
        return _packed(self.records.rows(positions), self.records.described)

    def __repr__(self) -> str:
        return repr(self.records)


@dataclasses.dataclass(frozen=True, eq=False)
class _Single:
    """The function of one position, for records whose tensors cannot be stacked."""

    records: Records

    def __call__(self, position: Any) -> Any:
        return self.records[int(position)]

    def __repr__(self) -> str:
        return repr(self.records)


class _Process:
    """The sources that this process has opened. A forked child opens its own."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._handles: OrderedDict[Records, tuple[Any, threading.Lock]] = OrderedDict()

    @contextlib.contextmanager
    def handle(self, records: Records) -> Iterator[Any]:
        """Opens a source, or finds the opened one, for the duration of a read."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            found = self._handles.get(records)
            if found is None:
                found = self._handles[records] = _checked(records), threading.Lock()
            self._handles.move_to_end(records)
            while len(self._handles) > _OPEN_MAX:
                self._handles.popitem(last=False)
        handle, alone = found
        with contextlib.nullcontext() if records.is_shared else alone:
            yield handle


_HERE = _Process()


def _checked(records: Records) -> Any:
    """Opens a source, and checks that it has the records that the trainer saw."""
    try:
        handle = records.opened()
        found = records.length(handle)
    except MillstreamError:
        raise
    except Exception as error:
        raise DataLossError(f"{records.name}: opening failed: {_first_line(error)}") from error
    if found != records.count:
        raise FailedPreconditionError(
            f"{records.name}: expected {records.count} records, as when the dataset was built, found {found}: give all workers the same files, "
            "and build the dataset again after a change"
        )
    return handle


def _named(positions: Positions) -> str:
    first, last = int(positions.min()), int(positions.max())
    return f"record {first}" if first == last else f"records {first} to {last}"


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:500]}" if text else type(error).__name__


# Rows as they travel: an array for tensors of fixed shape, and byte strings for vectors of any length.


def _is_vector(described: Described) -> bool:
    """Returns whether a tensor of numbers has one dimension of any size, the first one."""
    _, code, dims = described
    return code not in ("string", "bytes") and bool(dims) and dims[0] is None and None not in dims[1:]


def _batched(described: Described) -> Described | None:
    """Returns the spec of a block of rows. Returns ``None`` if the rows cannot be stacked, so that records travel one by one."""
    kind = described[0]
    if kind == "tensor":
        if _is_vector(described):
            return ("tensor", "bytes", (None,))
        return None if described[2] is None or None in described[2] else (kind, described[1], (None, *described[2]))
    items = [item for _, item in described[1]] if kind == "dict" else described[1]
    inner = [_batched(item) for item in items]
    if not inner or any(item is None for item in inner):
        return None
    return (kind, list(zip((name for name, _ in described[1]), inner, strict=True)) if kind == "dict" else inner)


def _packed(rows: Any, described: Described) -> Any:
    """Makes byte strings of the vectors among the rows."""
    kind = described[0]
    if kind == "dict":
        return {name: _packed(rows[name], item) for name, item in described[1]}
    if kind != "tensor":
        return tuple(_packed(part, item) for part, item in zip(rows, described[1], strict=True))
    if not _is_vector(described):
        return rows
    dtype = numpy_dtype(described[1])
    return [np.ascontiguousarray(row, dtype).tobytes() for row in rows]


def _unpacked(dataset: Dataset, described: Described) -> Dataset:
    """Makes vectors of the byte strings of ``_packed``, natively."""

    def unpacked(part: Any, of: Described) -> Any:
        kind = of[0]
        if kind == "dict":
            return {name: unpacked(part[name], item) for name, item in of[1]}
        if kind != "tensor":
            return tuple(unpacked(item, inner) for item, inner in zip(part, of[1], strict=True))
        if not _is_vector(of):
            return part
        _, code, dims = of
        items = ops.decode_raw(part, "uint8") != 0 if code == "bool" else ops.decode_raw(part, code)
        return items.reshape(-1, *dims[1:]) if len(dims) > 1 else items

    if not _any_leaf(described, _is_vector):
        return dataset
    # A dataset of tuples calls the function with the parts of an element.
    return dataset.map((lambda *parts: unpacked(parts, described)) if described[0] == "tuple" else (lambda part: unpacked(part, described)))


def _any_leaf(described: Described, holds: Callable[[Described], bool]) -> bool:
    if described[0] == "tensor":
        return holds(described)
    items = [item for _, item in described[1]] if described[0] == "dict" else described[1]
    return any(_any_leaf(item, holds) for item in items)


def _row(rows: Any, place: int) -> Any:
    if isinstance(rows, dict):
        return {name: _row(part, place) for name, part in rows.items()}
    if isinstance(rows, tuple):
        return tuple(_row(part, place) for part in rows)
    return rows[place]
