"""Datasets saved as files, and read again: ``save``, ``load`` and ``fingerprint`` of ``Dataset``.

Owns the directory of a saved dataset: files of elements, which the operation ``snapshot`` writes, and a description. Refuses to know how
elements are written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arguments import path_of
from ._millstream import Graph
from ._service_saving import DESCRIPTION as SERVED
from ._service_saving import load as load_served
from ._spec import dressed, plain
from .errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["PACKINGS", "SavingMethods", "packing_of"]

#: The names of compressions in TensorFlow, and the names of Millstream's packings.
PACKINGS = {None: "none", "NONE": "none", "": "none", "AUTO": "lz4", "SNAPPY": "lz4", "LZ4": "lz4", "GZIP": "gzip"}

_DESCRIPTION = "description.json"
#: Files that are open at a time where a dataset is loaded, as many as ``snapshot`` writes.
_SHARDS = 8
#: Seconds between two looks for a dataset that is being saved, and the seconds after which a load gives up.
_LOOK_EVERY_S, _WAIT_S = 0.1, 600.0


def packing_of(compression: str | None) -> str:
    """Returns the packing for a compression of TensorFlow.

    Raises:
        ValueError: The compression is unknown.
    """
    word = compression.upper() if isinstance(compression, str) else compression
    if word not in PACKINGS:
        raise ValueError(f"compression {compression!r}: expected one of {', '.join(map(repr, PACKINGS))}")
    return PACKINGS[word]


class SavingMethods:
    """Methods of a dataset that write its elements, and the method that reads them."""

    _graph: Graph

    @property
    def _executed(self) -> Graph:
        raise NotImplementedError

    def _then(self, graph: Graph) -> Dataset:
        raise NotImplementedError

    @property
    def element_spec(self) -> Any:
        """The specs of an element."""
        raise NotImplementedError

    def save(
        self,
        path: str | os.PathLike[str],
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Computes all elements, here, and saves them in a directory, which ``load`` reads. A dataset that was saved there is replaced.

        Args:
            path: The directory.
            compression: ``None``, ``"GZIP"``, ``"LZ4"`` or ``"SNAPPY"``, which is LZ4 too.
            shard_func: Must be ``None``: elements go to 8 files in turn.
            checkpoint_args: Must be ``None``: a save that is interrupted begins again.

        Raises:
            FailedPreconditionError: The directory holds something else.
            InvalidArgumentError: The dataset has no end.
            UnimplementedError: ``shard_func`` or ``checkpoint_args`` is given.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ms.Dataset.range(3).save(folder + "/numbers")
            ...     print([int(x) for x in ms.Dataset.load(folder + "/numbers")])
            [0, 1, 2]
        """
        if shard_func is not None:
            raise UnimplementedError("save: expected shard_func=None, found a function: elements go to 8 files in turn")
        if checkpoint_args is not None:
            raise UnimplementedError("save: expected checkpoint_args=None: a save that is interrupted begins again")
        if self._graph.cardinality == -1:
            raise InvalidArgumentError("save: expected a dataset with an end, found one without: use take")
        if "://" in path_of(path):
            raise UnimplementedError(f"save: expected a directory of this machine, found {path_of(path)}: save here, and copy the directory")
        place = Path(path_of(path))
        if place.exists() and any(place.iterdir()) and not (place / _DESCRIPTION).exists():
            raise FailedPreconditionError(f"save: expected an empty directory or a saved dataset in {place}, found other files")
        packing = packing_of(compression)
        _write(lambda path: self._then(self._graph.then("snapshot", path=path, packing=packing)), self._graph.spec, place)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Yields the elements that ``save``, ``cache`` or ``ms.service.save`` wrote to a directory.

        Args:
            path: The directory, of this machine or of an object store.
            element_spec: The spec of the elements. Without it a directory of this machine states it, if ``save`` wrote the directory.
            compression: Accepted as in tf.data; has no effect: files state their compression.
            reader_func: A function of the datasets of the files that returns one dataset. Its argument has the methods of a dataset, and
                its ``interleave`` and ``flat_map`` call their function with a dataset for each file.
            wait: Whether to wait for a directory that does not exist yet, for 10 minutes. A dataset of ``ms.service.save`` is read while it is
                being saved.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            NotFoundError: The directory is not there, or does not state the spec.
            DeadlineExceededError: The directory was waited for in vain.
            InvalidArgumentError: The directory holds elements of another spec.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ms.Dataset.range(3).save(folder + "/numbers")
            ...     in_order = lambda files: files.flat_map(lambda file: file)
            ...     print(sorted(int(x) for x in ms.Dataset.load(folder + "/numbers", reader_func=in_order)))
            [0, 1, 2]
        """
        packing_of(compression)
        if "://" in path_of(path):
            return _remote(path_of(path), element_spec, reader_func)
        place = Path(path_of(path))
        if wait:
            _wait(place)
        if (place / SERVED).exists():
            return load_served(place, wait, compression, reader_func, element_spec)
        described, is_empty = _described(place, element_spec)
        return _loaded(place, described, is_empty, reader_func)

    def fingerprint(self) -> Any:
        """Returns a number that stands for the definition of the dataset: equal definitions have equal numbers.

        Returns:
            The number, as ``uint64``.

        Example:
            >>> a, b, c = ms.Dataset.range(3), ms.Dataset.range(3), ms.Dataset.range(4)
            >>> bool(a.fingerprint() == b.fingerprint()), bool(a.fingerprint() == c.fingerprint())
            (True, False)
        """
        return np.frombuffer(hashlib.sha256(self._executed.to_bytes()).digest()[:8], "<u8")[0]


def _write(snapshot: Callable[[str], Dataset], described: tuple[Any, ...], place: Path) -> None:
    """Writes a dataset beside its place, and moves it there when it is whole.

    Args:
        snapshot: Makes the dataset that writes to a directory when it is read.
        described: The spec of the elements, as plain tuples.
        place: The directory of the saved dataset.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.parent / f".{place.name}-{uuid.uuid4().hex}"
    try:
        elements = snapshot(str(beside))._open()
        count = 0
        while (passed := elements.skip(1 << 20)) > 0:
            count += passed
        written = next((entry for entry in sorted(beside.iterdir()) if entry.is_dir()), None) if beside.exists() else None
        if written is None:
            written = beside / "empty"
            written.mkdir(parents=True)
        (written / _DESCRIPTION).write_text(json.dumps({"spec": described, "elements": count}))
        if place.exists():
            place.rename(beside / "replaced")
        written.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _wait(place: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not any((place / name).exists() for name in (_DESCRIPTION, SERVED)):
        if time.monotonic() > deadline:
            raise DeadlineExceededError(f"load: expected a saved dataset in {place} within {_WAIT_S:.0f} s, found none")
        time.sleep(_LOOK_EVERY_S)


def _described(place: Path, element_spec: Any) -> tuple[tuple[Any, ...], bool]:
    """Returns the spec of a saved dataset as plain tuples, and whether the dataset has no elements."""
    if not place.is_dir():
        raise NotFoundError(f"load: expected a directory with a saved dataset, found nothing in {place}")
    description = place / _DESCRIPTION
    if not description.exists():
        if element_spec is None:
            raise NotFoundError(f"load: expected the spec of the elements in {description}, found none: give element_spec")
        return plain(element_spec), False
    said = json.loads(description.read_text())
    described = _tuples(said["spec"])
    if element_spec is not None and dressed(plain(element_spec)) != dressed(described):
        raise InvalidArgumentError(f"load: expected elements of {element_spec} in {place}, found {dressed(described)}")
    return described, said["elements"] == 0


def _remote(path: str, element_spec: Any, reader_func: Callable[[Any], Any] | None) -> Dataset:
    """Returns the elements of a directory of an object store, whose files are listed when they are read."""
    from ._dataset import Dataset
    from ._file_datasets import file_datasets

    if element_spec is None:
        raise NotFoundError(f"load: expected element_spec for {path}, found none: the spec is not read from object stores")
    described = plain(element_spec)
    if reader_func is None:
        return Dataset(Graph.load(path, described))
    return _read_by(reader_func, file_datasets(Dataset.list_files(f"{path}/*.elements", shuffle=False), described))


def _tuples(said: Any) -> tuple[Any, ...]:
    """Returns a spec that was written as JSON as the plain tuples that it was."""
    kind, *rest = said
    if kind == "tensor":
        code, dims = rest
        return (kind, code, None if dims is None else tuple(dims))
    if kind == "dict":
        return (kind, [(name, _tuples(item)) for name, item in rest[0]])
    return (kind, [_tuples(item) for item in rest[0]]) if rest else (kind,)


def _loaded(place: Path, described: tuple[Any, ...], is_empty: bool, reader_func: Callable[[Any], Any] | None) -> Dataset:
    from ._dataset import Dataset
    from ._file_datasets import file_datasets

    if is_empty:
        return Dataset(_none_of(described))
    if reader_func is None:
        return Dataset(Graph.load(str(place), described))
    paths = [str(path) for path in sorted(place.glob("*.elements"))]
    return _read_by(reader_func, file_datasets(Dataset.from_tensor_slices(paths), described))


def _read_by(reader_func: Callable[[Any], Any], files: Dataset) -> Dataset:
    """Returns the dataset that a reader function makes."""
    from ._dataset import Dataset

    made = reader_func(files)
    if not isinstance(made, Dataset):
        raise TypeError(f"load: expected a dataset from reader_func, found {made!r}")
    return made


def _none_of(described: tuple[Any, ...]) -> Graph:
    """Returns a dataset without elements of a spec: its paths are none."""
    from ._dataset import Dataset

    return Dataset.from_tensor_slices([""]).take(0)._graph.then("elements", spec=described)
