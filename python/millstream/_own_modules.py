"""The program's own modules that its code only names: workers import them from files of their own, which may be others.

The trainer says in the header of the code what they hold, and a worker compares. Modules of installed packages are not looked at, nor
what is pickled by value. Refuses to know what the code does.
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

#: What a worker does about a module that differs from the trainer's.
ON_STALE_CODE = ("refuse", "warn")

#: Modules that are compared; what further ones hold is not.
_MODULES_MAX = 256
#: Bytes of a file that is compared.
_FILE_BYTES_MAX = 1 << 20
#: Digits of a digest that an error shows.
_DIGITS_SHOWN = 12

#: What modules held when they were imported, or were sent for the last time, by name.
_known: dict[str, str] = {}


def digests(names: Iterable[str]) -> dict[str, str]:
    """Returns the contents, by name, of the program's own modules among these names and those that they use."""
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
    """Notes what modules hold that were imported just now: their files may change before anybody compares them."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        digest = None if file is None else _digest(file)
        if digest is not None:
            _known[name] = digest


def check(expected: Mapping[str, str], on_stale_code: str) -> None:
    """Compares modules with those of the trainer, before they are imported.

    Raises:
        RuntimeError: One differs, and this is to be refused. It names the module, the file, and both digests.
    """
    for name, digest in expected.items():
        file = _file(name)
        found = _known.get(name) or (None if file is None else _digest(file))
        # What is missing, the import will say.
        if found is None or found == digest:
            continue
        differs = (
            f"the module {name} differs: the trainer sent code that was written for sha256 {digest[:_DIGITS_SHOWN]}, this worker imports "
            f"{file} of sha256 {found[:_DIGITS_SHOWN]}"
        )
        if on_stale_code != "warn":
            raise RuntimeError(
                f"{differs}: bring both to one version and start the trainer again, or accept it by ms.Limits(on_stale_code='warn') or "
                "MILLSTREAM_ON_STALE_CODE=warn in the trainer's environment"
            )
        warnings.warn(differs, RuntimeWarning, stacklevel=2)


def _used(module: types.ModuleType) -> Iterator[str]:
    """The packages that a module is in, and the modules whose functions, classes or selves it has among its names."""
    parent = module.__name__.rpartition(".")[0]
    if parent:
        yield parent
    for value in list(vars(module).values()):
        if isinstance(value, types.ModuleType):
            yield value.__name__
        elif isinstance(value, type | types.FunctionType):
            yield str(value.__module__)


def _is_own(module: types.ModuleType) -> bool:
    """Whether it is the program's: a file of Python that no package has installed."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or not file or not file.endswith(".py") or _goes_by_value(module.__name__):
        return False
    path = Path(file)
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(library) for library in _libraries())


def _goes_by_value(name: str) -> bool:
    """Whether the program has said that a module, or a package that it is in, is pickled whole."""
    by_value = cloudpickle.list_registry_pickle_by_value()
    parts = name.split(".")
    return any(".".join(parts[:count]) in by_value for count in range(1, len(parts) + 1))


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Where Python and this package lie."""
    paths = sysconfig.get_paths()
    return *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parent)


def _file(name: str) -> str | None:
    """The file that a module was imported from, or would be."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or not spec.has_location else spec.origin


def _digest(file: str) -> str | None:
    """What a file holds; ``None`` if it is too large to be compared, or cannot be read."""
    try:
        status = os.stat(file)
        return None if status.st_size > _FILE_BYTES_MAX else _digest_of(file, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@functools.lru_cache(_MODULES_MAX)
def _digest_of(file: str, changed_ns: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
