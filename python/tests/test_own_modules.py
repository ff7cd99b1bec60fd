"""Tests of modules that code refers to by name: workers notice a copy that differs from the trainer's copy."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import millstream as ms
from millstream import Dataset
from millstream.service import distribute

_changes = itertools.count(1)

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Yields a function that writes a module with a later modification time, because Python compares compiled files by seconds."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def written(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        later = path.stat().st_mtime + 10 * next(_changes)
        os.utime(path, (later, later))
        importlib.invalidate_caches()
        return path

    yield written
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def numbers(module: ModuleType, service: ms.LocalService, limits: ms.Limits | None = None) -> Dataset:
    """Returns a dataset of the results of the module's function on workers."""
    spec = ms.TensorSpec((), ms.int64)
    return Dataset.range(4).map_python(module.version, element_spec=spec, limits=limits).apply(distribute("distributed_epoch", service))


def test_changed_modules_are_imported_afresh(write: Write) -> None:
    write("ms_own_helper", "VERSION = 1\n")
    write("ms_own_model", "import ms_own_helper\n\ndef version(x):\n    return ms_own_helper.VERSION\n")
    module = importlib.import_module("ms_own_model")
    with ms.local(workers=1) as service:
        assert [int(x) for x in numbers(module, service)] == [1] * 4
        # The function's own module is unchanged, but a module that it imports has changed.
        write("ms_own_helper", "VERSION = 2\n")
        importlib.reload(sys.modules["ms_own_helper"])
        assert [int(x) for x in numbers(module, service)] == [2] * 4


def test_a_workers_other_file_is_refused(write: Write) -> None:
    texts = ["def version(x):\n    return 1\n", "def version(x):\n    return 2\n"]
    path = write("ms_own_stale", texts[0])
    module = importlib.import_module("ms_own_stale")
    with ms.local(workers=1) as service:
        dataset = numbers(module, service)
        write("ms_own_stale", texts[1])
        with pytest.raises(ms.errors.InvalidArgumentError) as refused:
            list(dataset)
    said = str(refused.value)
    assert "module ms_own_stale differs" in said and str(path) in said
    assert all(hashlib.sha256(text.encode()).hexdigest()[:12] in said for text in texts)


def test_a_workers_other_file_may_be_accepted(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("ms_own_warned", "def version(x):\n    return 1\n")
    module = importlib.import_module("ms_own_warned")
    with ms.local(workers=1) as service:
        datasets = [numbers(module, service, ms.Limits(on_stale_code="warn"))]
        monkeypatch.setenv("MILLSTREAM_ON_STALE_CODE", "warn")
        datasets.append(numbers(module, service))
        write("ms_own_warned", "def version(x):\n    return 2\n")
        assert [[int(x) for x in dataset] for dataset in datasets] == [[2] * 4] * 2


def test_installed_and_pickled_modules_are_not_compared(write: Write) -> None:
    from millstream import _code, _own_modules

    write("ms_own_value", "import numpy, json\n\ndef version(x):\n    return 1\n")
    module = importlib.import_module("ms_own_value")
    assert _own_modules.digests(["ms_own_value", "numpy", "json", "millstream", "missing"]).keys() == {"ms_own_value"}
    _code.cloudpickle.register_pickle_by_value(module)
    try:
        assert _own_modules.digests(["ms_own_value"]) == {}
    finally:
        _code.cloudpickle.unregister_pickle_by_value(module)
    with pytest.raises(ms.errors.InvalidArgumentError, match="on_stale_code"):
        ms.Limits(on_stale_code="ignore")


def test_no_more_modules_are_compared_than_the_limit(write: Write) -> None:
    from millstream import _own_modules

    names = [f"ms_own_{number}" for number in range(_own_modules._MODULES_MAX + 5)]
    for name in names:
        write(name, "")
        importlib.import_module(name)
    assert len(_own_modules.digests(names)) == _own_modules._MODULES_MAX
    write("ms_own_large", "#" * (_own_modules._FILE_BYTES_MAX + 1))
    importlib.import_module("ms_own_large")
    assert _own_modules.digests(["ms_own_large"]) == {}
