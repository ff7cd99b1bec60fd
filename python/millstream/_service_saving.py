"""Datasets that the workers of a service save, and that are loaded again: ``save`` and ``load`` of ``ms.service``.

Owns the directory of such a dataset, and the process that saves it. Workers write the chunks, one for each split of an exactly-once job, and
the operations ``write_chunk`` and ``chunks`` know their format. Refuses to know how splits reach workers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._arguments import path_of
from ._exact_places import Place
from ._millstream import Elements, Graph
from ._spec import dressed, plain
from .errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    MillstreamError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)

if TYPE_CHECKING:
    from ._dataset import Dataset

__all__ = ["DESCRIPTION", "SaveProgress", "Saving", "load", "save"]

#: The file that describes a saved dataset, and the files that later saves and loads read.
DESCRIPTION, _DONE, _ERROR, _PROGRESS, _FILES, _LOCK = "saved.json", "DONE", "ERROR", "progress.json", "files.json", "lock"
#: The subdirectories of the chunks and of temporary files.
_CHUNKS, _UNCOMMITTED = "chunks", "uncommitted"
#: The version of the files.
_VERSION = 1
#: The seconds between two writes of the progress, and between two looks for a directory that is awaited.
_PROGRESS_EVERY_S, _LOOK_EVERY_S = 1.0, 0.1
#: The seconds after which a chunk that a worker reported must be visible, also on network storage with caches.
_VISIBLE_S = 60.0
#: The seconds for which a load waits for the directory, and then for each chunk, by default.
_WAIT_S = 600.0
#: Errors of the service instead of the dataset. The same save can continue after such an error, so readers continue to wait.
_INTERRUPTIONS = (AbortedError, CancelledError, DeadlineExceededError, UnavailableError)


@dataclasses.dataclass(frozen=True)
class SaveProgress:
    """The progress of a save.

    Attributes:
        chunks: The number of chunks that are complete without a gap, from the first one on.
        elements: The number of elements of these chunks.
        bytes: The number of bytes of these chunks.
        total: The number of chunks of the whole dataset. ``None`` for a dataset of files until the save is done.

    Example:
        >>> ms.service.SaveProgress(chunks=3, elements=30, bytes=512, total=None).elements
        30
    """

    chunks: int = 0
    elements: int = 0
    bytes: int = 0
    total: int | None = None


class Saving:
    """A save that runs in a thread of this process. ``save`` returns it.

    Example:
        >>> import tempfile
        >>> with ms.local(workers=1, inline=True) as service, tempfile.TemporaryDirectory() as folder:
        ...     saving = ms.service.save(ms.Dataset.range(10), folder + "/numbers", service, wait=False)
        ...     print(saving.wait().elements, saving.is_done)
        10 True
    """

    def __init__(self, place: Path, elements: Elements, begun: SaveProgress, lock: int) -> None:
        self._place, self._elements, self._progress = place, elements, begun
        self._error: BaseException | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(lock,), name="millstream-save", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the dataset is saved."""
        return not self._thread.is_alive() and self._error is None

    def progress(self) -> SaveProgress:
        """Returns the present progress.

        Returns:
            The number of chunks, elements and bytes that are saved.
        """
        return self._progress

    def wait(self, timeout_s: float | None = None) -> SaveProgress:
        """Waits until the dataset is saved.

        Args:
            timeout_s: The limit of the wait in seconds. ``None`` waits until the save ends. The save continues after the limit.

        Returns:
            The number of chunks, elements and bytes of the dataset.

        Raises:
            DeadlineExceededError: The save runs longer than the limit.
            CancelledError: The save was cancelled.
            MillstreamError: The dataset failed on a worker, or the service cannot be reached.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            done = self._progress
            raise DeadlineExceededError(
                f"save: expected the end within {timeout_s} s, found {done.chunks} of {done.total or 'an unknown number of'} chunks: wait longer"
            )
        if self._error is not None:
            raise self._error
        return self._progress

    def cancel(self) -> None:
        """Stops the save, and returns when it has stopped. The same save can be started again, and then continues. A finished save stays."""
        self._cancelled.set()
        self._elements.close()
        self._thread.join()

    def _run(self, lock: int) -> None:
        try:
            self._receive()
        except _INTERRUPTIONS as error:
            self._error = CancelledError("the save was cancelled: start it again to continue") if self._cancelled.is_set() else error
        except MillstreamError as error:
            self._error = error
            with contextlib.suppress(OSError):
                _write(self._place / _ERROR, {"error": type(error).__name__, "message": error.message})
        except BaseException as error:
            self._error = error
        finally:
            os.close(lock)

    def _receive(self) -> None:
        """Receives the size of each chunk in order, and declares the dataset to be saved after the last one."""
        done, written_at, are_files_known = self._progress, time.monotonic(), False
        for numbers, (elements, size) in self._elements:
            place = Place.from_bytes(numbers.tobytes())
            # The position after the only element of a split is at the next split.
            if (split := place.split - 1) != done.chunks:
                raise InternalError(f"save: expected chunk {done.chunks}, found chunk {split}")
            if place.files is not None and not are_files_known:
                _write(self._place / _FILES, {"digest": place.files})
                are_files_known = True
            _await_chunk(self._place, done.chunks, self._cancelled)
            done = dataclasses.replace(
                done, chunks=done.chunks + 1, elements=done.elements + int(elements), bytes=done.bytes + int(size)
            )
            self._progress = done
            if time.monotonic() - written_at >= _PROGRESS_EVERY_S:
                _write(self._place / _PROGRESS, dataclasses.asdict(done))
                written_at = time.monotonic()
        done = dataclasses.replace(done, total=done.chunks)
        shutil.rmtree(self._place / _UNCOMMITTED, ignore_errors=True)
        _write(self._place / _DONE, dataclasses.asdict(done))
        self._progress = done


def save(
    dataset: Dataset,
    path: str | os.PathLike[str],
    service: Any,
    *,
    compression: str | None = "AUTO",
    seed: int = 0,
    max_deaths: int = 3,
    wait: bool = True,
) -> Saving:
    """Saves all elements of a dataset with the workers of a service. The workers write the files themselves, each a part of the dataset.

    The order and the number of elements are those of an exactly-once epoch, although workers are lost. If the save is interrupted, the same call
    continues it: chunks that exist are not computed again. The call compares the operations of the dataset, but not the code of Python functions.
    ``load`` reads the dataset, also while it is being saved.

    Args:
        dataset: The dataset, which must suit an exactly-once job: one source, an end, and no operations over the whole dataset such as ``take``.
        path: A new directory on storage that this process and all workers share.
        service: The address of the service, as for ``distribute``.
        compression: ``"AUTO"``, ``"LZ4"`` or ``"SNAPPY"`` for LZ4, ``"GZIP"``, or ``None``.
        seed: The seed of operations that have no seed of their own.
        max_deaths: The number of dead workers after which the save fails, from 2 to 16. Each of them held the same split when it died.
        wait: Whether to return after the save. Otherwise the save continues in a thread, and ends with this process.

    Returns:
        The save, whose ``progress()`` is the number of chunks, elements and bytes.

    Raises:
        AlreadyExistsError: A dataset is saved or is being saved in the directory.
        FailedPreconditionError: The directory holds other files, or the workers write to another directory of this name.
        InvalidArgumentError: The dataset cannot be read exactly once. The error names the reason.
        MillstreamError: The dataset failed on a worker, or the service cannot be reached.
        TypeError: The argument is not a dataset of Millstream.

    Example:
        >>> import tempfile
        >>> with ms.local(workers=1, inline=True) as service, tempfile.TemporaryDirectory() as folder:
        ...     saved = ms.service.save(ms.Dataset.range(100).batch(10), folder + "/numbers", service)
        ...     print(saved.progress().elements, [int(x) for x in ms.service.load(folder + "/numbers").unbatch().take(3)])
        10 [0, 1, 2]
    """
    from ._dataset import Dataset
    from ._saving import packing_of
    from .service import ExactLimits, ExactTerms, _address, distribute_exactly

    if not isinstance(dataset, Dataset):
        raise TypeError(f"save: expected a dataset of Millstream, found {type(dataset).__name__}")
    _address(service)
    limits = ExactLimits(max_deaths=max_deaths)
    if unfit := limits.unfit():
        raise InvalidArgumentError(f"save: {unfit}")
    place, packing = _local(path, "save"), packing_of(compression)
    if dataset._graph.cardinality == -1:
        raise InvalidArgumentError("save: expected a dataset with an end, found one without: use take")
    exact = dataset._executed.exactly_once(seed)
    said = {
        "version": _VERSION,
        "fingerprint": hashlib.sha256(exact.to_bytes_without_code() + f"{seed} {packing}".encode()).hexdigest(),
        "seed": seed,
        "compression": packing,
        "spec": dataset._graph.spec,
        "chunks": exact.splits,
    }
    with _begun(place, said) as (begun, files, lock):
        writing = dataset._then(dataset._graph.then("write_chunk", path=str(place), packing=packing))
        terms = ExactTerms(seed, 0, 1, begun.chunks, placed=True, limits=limits, files=files)
        elements = writing.apply(distribute_exactly(service, terms)).with_output("numpy")._pass(0)
        saving = Saving(place, elements, begun, os.dup(lock))
    if wait:
        try:
            saving.wait()
        except BaseException:
            saving.cancel()
            raise
    return saving


def load(
    path: str | os.PathLike[str],
    wait: bool = False,
    compression: str | None = None,
    reader_func: Callable[[Any], Any] | None = None,
    element_spec: Any = None,
    wait_s: float = _WAIT_S,
) -> Dataset:
    """Yields the elements of a dataset that ``save`` wrote, in the order of an exactly-once epoch.

    The dataset can be distributed to a service. A split is then one chunk or a few chunks.

    Args:
        path: The directory, which all processes that read the dataset share.
        wait: Whether to wait for a directory that does not exist yet, and for chunks that are being saved.
        compression: The expected compression. ``None`` and ``"AUTO"`` accept any.
        reader_func: A function of the datasets of the chunks that returns one dataset, as for ``Dataset.load``.
        element_spec: The expected spec of the elements. The directory states the spec.
        wait_s: The limit of the wait for the directory, and of the wait for each chunk, in seconds.

    Returns:
        The dataset. Its number of elements is known if the save is done.

    Raises:
        NotFoundError: No dataset was saved in the directory.
        FailedPreconditionError: The dataset is being saved, and ``wait`` is false.
        DeadlineExceededError: The directory did not exist within the limit.
        DataLossError: The save failed. Reading a dataset whose save fails later raises the same error.
        InvalidArgumentError: The dataset has another spec or compression.

    Example:
        >>> import tempfile
        >>> with ms.local(workers=1, inline=True) as service, tempfile.TemporaryDirectory() as folder:
        ...     saving = ms.service.save(ms.Dataset.range(4), folder + "/numbers", service, wait=False)
        ...     print([int(x) for x in ms.service.load(folder + "/numbers", wait=True)])
        ...     print(saving.wait().elements)
        [0, 1, 2, 3]
        4
    """
    from ._dataset import Dataset
    from ._file_datasets import file_datasets
    from ._saving import _read_by, _tuples

    place = _local(path, "load")
    said = _described(place, wait, wait_s)
    _check(place, said, compression, element_spec)
    done, spec = _read(place / _DONE), _tuples(said["spec"])
    if done is None:
        if not wait:
            raise FailedPreconditionError(f"load: expected a saved dataset in {place}, found one that is being saved: pass wait=True")
        chunks = Graph.source("chunks", path=str(place), count=said["chunks"], wait_ms=int(wait_s * 1000))
    else:
        chunks = Graph.source("chunks", path=str(place), count=done["chunks"], wait_ms=None)
    if reader_func is not None:
        return _read_by(reader_func, file_datasets(Dataset(chunks), spec))
    dataset = Dataset(chunks.then("elements", spec=spec))
    dataset._known_count = None if done is None else done["elements"]
    return dataset


def _local(path: str | os.PathLike[str], name: str) -> Path:
    """Returns an absolute path, because workers have other working directories."""
    text = path_of(path)
    if "://" in text:
        raise UnimplementedError(f"{name}: expected a directory that all processes share, found {text}: use network storage, and copy the directory")
    return Path(os.path.abspath(text))


@contextlib.contextmanager
def _begun(place: Path, said: dict[str, Any]) -> Iterator[tuple[SaveProgress, int | None, int]]:
    """Locks the directory of a save. Yields the earlier progress of the same save, the digest of its files, and the lock."""
    if place.exists() and not (place / DESCRIPTION).exists():
        if other := sorted(entry.name for entry in place.iterdir() if entry.name not in (_LOCK, _CHUNKS, _UNCOMMITTED)):
            raise FailedPreconditionError(f"save: expected a new or empty directory, found {other[0]} in {place}: save to another directory")
    place.mkdir(parents=True, exist_ok=True)
    lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"save: expected a directory that no other save uses, found a running save in {place}: wait for it with load(wait=True)"
            raise AlreadyExistsError(message) from None
        yield *_prepared(place, said), lock
    finally:
        # A copy of the descriptor holds the lock while the save runs.
        os.close(lock)


def _prepared(place: Path, said: dict[str, Any]) -> tuple[SaveProgress, int | None]:
    """Writes the description of a new save, or removes the rest of an interrupted save. Returns the progress, and the digest of the files."""
    if (place / _DONE).exists():
        raise AlreadyExistsError(f"save: expected a new directory, found a saved dataset in {place}: remove it, or save to another directory")
    earlier = _read(place / DESCRIPTION)
    if earlier is not None and (earlier["version"], earlier["fingerprint"]) != (said["version"], said["fingerprint"]):
        raise AlreadyExistsError(
            f"save: expected a new directory, or the interrupted save of this dataset, found another dataset, seed or compression in {place}: "
            "remove it, or save to another directory"
        )
    shutil.rmtree(place / _UNCOMMITTED, ignore_errors=True)
    progress, files = _read(place / _PROGRESS), _read(place / _FILES)
    if said["chunks"] is None and progress is None and files is None:
        # Nobody knows the files to which these chunks belong.
        shutil.rmtree(place / _CHUNKS, ignore_errors=True)
    for name in (_CHUNKS, _UNCOMMITTED):
        (place / name).mkdir(exist_ok=True)
    if earlier is None:
        _write(place / DESCRIPTION, said)
    (place / _ERROR).unlink(missing_ok=True)
    return dataclasses.replace(SaveProgress(**(progress or {})), total=said["chunks"]), None if files is None else files["digest"]


def _await_chunk(place: Path, number: int, cancelled: threading.Event) -> None:
    """Waits until a chunk that a worker reported is visible here, or until the save is cancelled."""
    path, deadline = place / _CHUNKS / f"chunk_{number:012}.elements", time.monotonic() + _VISIBLE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise FailedPreconditionError(
                f"save: expected the chunk {path}, which a worker wrote, found none within {_VISIBLE_S:.0f} s: use a directory on storage that "
                "this process and all workers share"
            )
        if cancelled.wait(_LOOK_EVERY_S):
            raise CancelledError("the save was cancelled")


def _described(place: Path, wait: bool, wait_s: float) -> dict[str, Any]:
    """Returns the description of a saved dataset. With ``wait``, the description may appear later."""
    deadline = time.monotonic() + wait_s
    while (said := _read(place / DESCRIPTION)) is None:
        if not wait:
            raise NotFoundError(f"load: expected a dataset of ms.service.save in {place}, found none")
        if time.monotonic() > deadline:
            raise DeadlineExceededError(f"load: expected a dataset of ms.service.save in {place} within {wait_s:.0f} s, found none")
        time.sleep(_LOOK_EVERY_S)
    return said


def _check(place: Path, said: dict[str, Any], compression: str | None, element_spec: Any) -> None:
    """Checks that a saved dataset is readable, and is the expected one."""
    from ._saving import _tuples, packing_of

    if said["version"] != _VERSION:
        raise InvalidArgumentError(f"load: expected version {_VERSION} of the files in {place}, found version {said['version']}: use a newer Millstream")
    if (failed := _read(place / _ERROR)) is not None:
        raise DataLossError(f"load: the save of {place} failed: {failed['message']}: correct the dataset, and save it again")
    packing = packing_of(compression)
    if compression not in (None, "AUTO") and packing != said["compression"]:
        raise InvalidArgumentError(f"load: expected the compression {packing} in {place}, found {said['compression']}")
    found = dressed(_tuples(said["spec"]))
    if element_spec is not None and dressed(plain(element_spec)) != found:
        raise InvalidArgumentError(f"load: expected elements of {element_spec} in {place}, found {found}")


def _read(path: Path) -> dict[str, Any] | None:
    """Returns the content of a file of this module; ``None`` if the file does not exist."""
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return said


def _write(path: Path, said: dict[str, Any]) -> None:
    """Writes a file completely or not at all."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "w") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
