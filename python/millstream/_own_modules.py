"""Compares the program's own modules on trainer and worker. Code refers to these modules by name, and workers import their own copies.

The trainer writes the digests of the modules in the header of the code, and a worker compares the digests with its own files. Modules of installed packages,
and modules that are pickled by value, are not compared.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import cloudpickle

__all__ = ["ON_STALE_CODE", "check", "digests", "remember"]

#: The possible reactions of a worker to a module that differs from the trainer's module.
ON_STALE_CODE = ("refuse", "warn")

#: The maximum number of modules that are compared. Further modules are not compared.
_MODULES_MAX = 256
#: The maximum bytes of a file that is compared.
_FILE_BYTES_MAX = 1 << 20
#: The number of digits of a digest that an error shows.
_DIGITS_SHOWN = 12

#: The digest of each module when the module was imported, or was sent for the last time, by name.
_known: dict[str, str] = {}


def digests(names: Iterable[str]) -> dict[str, str]:
    """Returns the digests, by name, of the program's own modules in ``names``, and of the own modules that they use."""
    found: dict[str, str] = {}
    left, seen = sorted(names), set[str]()
    while left and len(found) < _MODULES_MAX:
        name = left.pop(0)
        module = sys.modules.get(name)
        if name in seen or module is None or not _is_own(module):
            continue
        seen.add(name)
        digest = _digest(module.__file__ or "")
        if digest is not None:
            found[name] = _known[name] = digest
            left += sorted(set(_used(module)) - seen)
    return found


def remember(names: Iterable[str]) -> None:
    """Records the digests of modules after their import, because their files may change before the next comparison."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        digest = None if file is None else _digest(file)
        if digest is not None:
            _known[name] = digest


def check(expected: Mapping[str, str], on_stale_code: str) -> None:
    """Compares modules with the trainer's modules, before the modules are imported.

    Raises:
        RuntimeError: A module differs, and ``on_stale_code`` is not ``"warn"``. The message names the module, the file, and both digests.
    """
    for name, digest in expected.items():
        file = _file(name)
        found = _known.get(name) or (None if file is None else _digest(file))
        # If the module is missing, its import raises an error later.
        if found is None or found == digest:
            continue
        differs = (
            f"the module {name} differs: the trainer has the sha256 {digest[:_DIGITS_SHOWN]}, but this worker imports {file} with the sha256 "
            f"{found[:_DIGITS_SHOWN]}"
        )
        if on_stale_code != "warn":
            raise RuntimeError(
                f"{differs}: install the same version on both and restart the trainer, or accept the difference with "
                "ms.Limits(on_stale_code='warn') or MILLSTREAM_ON_STALE_CODE=warn in the trainer's environment"
            )
        warnings.warn(differs, RuntimeWarning, stacklevel=2)


def _used(module: types.ModuleType) -> Iterator[str]:
    """Yields the parent package of a module, and the modules of the functions, classes and modules among its attributes."""
    parent = module.__name__.rpartition(".")[0]
    if parent:
        yield parent
    for value in list(vars(module).values()):
        if isinstance(value, types.ModuleType):
            yield value.__name__
        elif isinstance(value, type | types.FunctionType):
            yield str(value.__module__)


def _is_own(module: types.ModuleType) -> bool:
    """Returns whether a module belongs to the program: its file is a Python file outside of installed packages."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or not file or not file.endswith(".py") or _goes_by_value(module.__name__):
        return False
    path = Path(file)
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(library) for library in _libraries())


def _goes_by_value(name: str) -> bool:
    """Returns whether the program has registered a module, or one of its packages, for pickling by value."""
    by_value = cloudpickle.list_registry_pickle_by_value()
    parts = name.split(".")
    return any(".".join(parts[:count]) in by_value for count in range(1, len(parts) + 1))


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Returns the folders of Python's libraries and of this package."""
    paths = sysconfig.get_paths()
    return *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parent)


def _file(name: str) -> str | None:
    """Returns the file from which a module was imported, or would be imported."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or not spec.has_location else spec.origin


def _digest(file: str) -> str | None:
    """Returns the digest of a file; ``None`` if the file is too large to be compared, or cannot be read."""
    try:
        status = os.stat(file)
        return None if status.st_size > _FILE_BYTES_MAX else _digest_of(file, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@functools.lru_cache(_MODULES_MAX)
def _digest_of(file: str, changed_ns: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
