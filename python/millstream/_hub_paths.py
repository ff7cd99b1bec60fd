"""Datasets of paths of hub files: URLs that workers read directly, or downloads for datasets that need a token.

Owns the cache of downloads and the division of large files into parts. Refuses to know the hub's interface, which ``_hub`` speaks.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import _hub
from ._code import packed
from ._dataset import Dataset
from ._hub import HubFile
from ._millstream import Graph
from .errors import DataLossError, FailedPreconditionError, PermissionDeniedError

__all__ = ["HubPaths", "expanded", "listing"]

#: The smallest and the largest part of a file, and the number of parts of all files together: those of the files of stores.
_PART_BYTES_MIN, _PART_BYTES_MAX, _PARTS_WANTED = 4 << 20, 256 << 20, 1024
_READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class HubPaths:
    """Paths of files, some of them of the hub. A path without a hub file stands for itself."""

    files: tuple[HubFile | str, ...]

    def graph(self, *, in_parts: bool = False) -> Graph:
        """Returns the dataset of paths, in order.

        Args:
            in_parts: Whether the reader of the paths reads parts of files, which workers then share.
        """
        paths: list[str] = []
        sizes = [file.size_bytes for file in self.files if isinstance(file, HubFile)]
        part = min(max(sum(sizes) // _PARTS_WANTED, _PART_BYTES_MIN), _PART_BYTES_MAX)
        for file in self.files:
            if isinstance(file, str):
                paths.append(file)
            else:
                paths += _parts(file, part) if in_parts and not file.needs_token else [file.url]
        graph = Dataset.from_tensor_slices(paths)._graph
        return _downloads(graph) if self.needs_token else graph

    @property
    def needs_token(self) -> bool:
        """Whether workers have to download files with a token."""
        return any(isinstance(file, HubFile) and file.needs_token for file in self.files)

    def first(self) -> str | None:
        """Returns a path of the first file that this process can read. Downloads the file if it needs a token."""
        if not self.files:
            return None
        first = self.files[0]
        if isinstance(first, str):
            return first
        return fetched(_hub.endpoint(), first.url) if first.needs_token else first.url

    def urls(self, function: str) -> list[str]:
        """Returns the paths as they are, for readers that look for further files beside them.

        Raises:
            PermissionDeniedError: A file needs a token.
        """
        if self.needs_token:
            raise PermissionDeniedError(f"ms.files.{function} cannot read private and gated datasets of the hub: download them with hf download")
        return [file if isinstance(file, str) else file.url for file in self.files]


def expanded(names: Iterable[str]) -> HubPaths | None:
    """Returns the files of these paths and patterns, or ``None`` if no path is one of the hub."""
    listed = list(names)
    if not any(map(_hub.is_of_hub, listed)):
        return None
    files: list[HubFile | str] = []
    for name in listed:
        files += _hub.listed(name) if _hub.is_of_hub(name) else [name]
    return HubPaths(tuple(files))


def listing(pattern: str, shuffle: bool, seed: int | None) -> Graph:
    """Returns the dataset of the paths of a pattern of the hub, as ``Dataset.list_files`` yields them."""
    found = HubPaths(tuple(_hub.listed(pattern)))
    if not shuffle:
        return found.graph()
    paths = Dataset.from_tensor_slices([file.url for file in found.files if isinstance(file, HubFile)]).shuffle(len(found.files), seed)._graph
    return _downloads(paths) if found.needs_token else paths


def _downloads(paths: Graph) -> Graph:
    """Returns the dataset of paths of downloads, which workers make."""
    return paths.map_python(("tensor", "string", ()), packed(fetched, _hub.endpoint()))


def _parts(file: HubFile, part_bytes: int) -> list[str]:
    """Returns the parts of a file, in the form in which the pipeline names parts: the path, a zero byte and the range."""
    count = -(-file.size_bytes // part_bytes)
    if count <= 1:
        return [file.url]
    length = -(-file.size_bytes // count)
    ranges = [(start, min(start + length, file.size_bytes)) for start in range(0, file.size_bytes, length)]
    return [f"{file.url}\0{start:016x}-{end:016x}" for start, end in ranges]


def fetched(endpoint: str, url: Any) -> str:
    """Downloads a file of the hub into the cache of this machine, unless it is there. Returns the path of the file.

    Args:
        endpoint: The address of the hub that the trainer listed.
        url: The address of the file. A path elsewhere is returned as it is.

    Raises:
        FailedPreconditionError: This process has another address of the hub, to which its token belongs.
        MillstreamError: The hub refuses the file, or does not answer.
        DataLossError: The download is shorter than the hub said.
    """
    path = str(url)
    if not path.startswith(f"{endpoint}/"):
        return path
    if _hub.endpoint() != endpoint:
        raise FailedPreconditionError(f"{path}: expected HF_ENDPOINT={endpoint} on this worker, as in the trainer, found {_hub.endpoint()}")
    kept = _cache() / hashlib.sha256(path.encode()).hexdigest()[:32] / os.path.basename(urllib.parse.unquote(urllib.parse.urlsplit(path).path))
    if kept.exists():
        return str(kept)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with open(kept.parent / ".lock", "w") as lock:
        # Processes of one machine download a file once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _download(path, kept)
    return str(kept)


def _download(url: str, kept: Path) -> None:
    part = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        with _hub.opened(url) as answer, part.open("wb") as out:
            expected, count = answer.headers.get("Content-Length"), 0
            while piece := answer.read(_READ_BYTES):
                count += out.write(piece)
        if expected is not None and count != int(expected):
            raise DataLossError(f"{url}: expected {expected} bytes, found {count}: the connection was cut; start again")
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "millstream" / "hub"
