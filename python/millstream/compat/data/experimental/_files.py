"""Datasets that are written to files: ``save``, ``load``, ``distributed_save`` and ``TFRecordWriter`` of ``tf.data.experimental``.

Owns the frames of TFRecord files. Refuses to know how datasets are saved: ``Dataset.save`` does that.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any

from .... import service
from ...._arguments import path_of
from ...._dataset import Dataset
from ...._spec import TensorSpec
from ....errors import InvalidArgumentError
from ....files import _compression

__all__ = ["TFRecordWriter", "distributed_save", "load", "save"]


def save(
    dataset: Dataset,
    path: str | os.PathLike[str],
    compression: str | None = None,
    shard_func: Callable[..., Any] | None = None,
    checkpoint_args: Any = None,
) -> None:
    """Saves all elements in a directory, as ``Dataset.save`` does.

    Args:
        dataset: The dataset.
        path: The directory.
        compression: ``None``, ``"GZIP"``, ``"LZ4"`` or ``"SNAPPY"``, which is LZ4 too.
        shard_func: Must be ``None``.
        checkpoint_args: Must be ``None``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tf.data.experimental.save(tf.data.Dataset.range(3), folder + "/a")
        ...     print([int(x) for x in tf.data.experimental.load(folder + "/a")])
        [0, 1, 2]
    """
    dataset.save(path, compression, shard_func, checkpoint_args)


def load(
    path: str | os.PathLike[str], element_spec: Any = None, compression: str | None = None, reader_func: Callable[[Any], Any] | None = None
) -> Dataset:
    """Yields the elements of a saved dataset, as ``Dataset.load`` does.

    Args:
        path: The directory.
        element_spec: The spec of the elements; the directory states it by default.
        compression: Accepted as in TensorFlow; has no effect: files state their compression.
        reader_func: A function of the datasets of the files that returns one dataset.

    Returns:
        The new dataset.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tf.data.Dataset.range(3).save(folder + "/a")
        ...     print([int(x) for x in tf.data.experimental.load(folder + "/a")])
        [0, 1, 2]
    """
    return Dataset.load(path, element_spec, compression, reader_func)


def distributed_save(dataset: Dataset, path: str, data_service_address: str, compression: str | None = "AUTO") -> None:
    """Saves a dataset on the workers of a service. Returns when the dataset is saved, unlike TensorFlow's function.

    The workers write the files, as in ``ms.service.save``. A dataset that cannot be read exactly once, such as a ``zip``, is computed by the
    workers and written by this process.

    Args:
        dataset: The dataset.
        path: The directory, which all workers share and ``Dataset.load`` reads.
        data_service_address: The service, as for ``tf.data.experimental.service.distribute``.
        compression: ``"AUTO"``, ``None``, ``"GZIP"`` or ``"SNAPPY"``, which is LZ4.

    Example:
        >>> import tempfile
        >>> with ms.local(workers=1, inline=True) as service, tempfile.TemporaryDirectory() as folder:
        ...     tf.data.experimental.distributed_save(tf.data.Dataset.range(4), folder + "/a", service.target)
        ...     print(sorted(int(x) for x in tf.data.Dataset.load(folder + "/a")))
        [0, 1, 2, 3]
    """
    try:
        dataset._executed.exactly_once(0)
    except InvalidArgumentError:
        dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, data_service_address)).save(path, compression)
    else:
        service.save(dataset, path, data_service_address, compression=compression)


class TFRecordWriter:
    """Writes byte strings to a TFRecord file.

    Args:
        filename: The path of the file.
        compression_type: ``""``, ``"GZIP"`` or ``"ZLIB"``.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     tf.data.experimental.TFRecordWriter(file.name).write(tf.data.Dataset.from_tensor_slices([b"a", b"bc"]))
        ...     print(list(tf.data.TFRecordDataset(file.name)))
        [b'a', b'bc']
    """

    def __init__(self, filename: str | os.PathLike[str], compression_type: str | None = None) -> None:
        self._filename, self._packing = path_of(filename), _compression(compression_type)

    def write(self, dataset: Dataset) -> None:
        """Writes a record for each element, and replaces the file.

        Args:
            dataset: A dataset of byte strings or texts.

        Raises:
            TypeError: The argument is no dataset, or its elements are no byte strings.

        Example:
            >>> import tempfile
            >>> with tempfile.NamedTemporaryFile() as file:
            ...     tf.data.experimental.TFRecordWriter(file.name, "GZIP").write(tf.data.Dataset.from_tensor_slices([b"a"]))
            ...     print(list(tf.data.TFRecordDataset(file.name, "GZIP")))
            [b'a']
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"TFRecordWriter.write: expected a dataset, found {type(dataset).__name__}")
        spec = dataset.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype.code not in ("bytes", "string") or spec.shape is None or len(spec.shape):
            raise TypeError(f"TFRecordWriter.write: expected elements that are byte strings, found {spec}")
        with open(self._filename, "wb") as file:
            if self._packing == "gzip":
                with gzip.GzipFile(fileobj=file, mode="wb") as unpacked:
                    _write(dataset, unpacked.write)
            elif self._packing == "zlib":
                packer = zlib.compressobj()
                _write(dataset, lambda data: file.write(packer.compress(data)))
                file.write(packer.flush())
            else:
                _write(dataset, file.write)


def _write(dataset: Dataset, write: Callable[[bytes], object]) -> None:
    for element in dataset.as_numpy_iterator():
        record = element.encode() if isinstance(element, str) else bytes(element)
        length = struct.pack("<Q", len(record))
        write(length + _masked(length) + record + _masked(record))


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _table()


def _masked(data: bytes) -> bytes:
    """Returns the checksum of data as frames of TFRecord files have it."""
    crc, table = 0xFFFFFFFF, _CRC32C
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
