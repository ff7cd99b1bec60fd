"""Tests of the start of executors, the processes in which workers run user code.

Imports and models can take longer to load than an epoch lasts. A task that ends meanwhile must therefore leave the start to the next task.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream import Dataset, _code
from millstream.service import distribute

# Workers cannot import this module, so its functions and classes are pickled by value.
_code.cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: The number of epochs that end before the code is loaded, and the seconds until the worker ends the task of such an epoch.
SHORT_EPOCHS, SHORT_S = 3, 1.5


class Model:
    """Returns its argument. A process that loads the model notes the start, and then waits for the file ``go``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        with (self.folder / "starts").open("a") as starts:
            starts.write("x")
        while not (self.folder / "go").exists():
            time.sleep(0.01)

    def __call__(self, x: Any) -> Any:
        """Returns ``x``."""
        return x


def read_after_short_epochs(function: Callable[[Any], Any], folder: Path) -> list[int]:
    """Begins epochs that end before the function is loaded. Then reads an epoch on the same worker, and returns its elements."""
    with ms.local(workers=1) as service:
        # The first element needs no Python, so that the reader gets it at once.
        slow = Dataset.range(1, 4).map_python(function, element_spec=ms.TensorSpec((), ms.int64), num_parallel_calls=1)
        numbers = Dataset.range(1).concatenate(slow).apply(distribute("parallel_epochs", service))
        for _ in range(SHORT_EPOCHS):
            elements = iter(numbers)
            next(elements)
            while not (folder / "starts").exists():
                time.sleep(0.01)
            del elements
            time.sleep(SHORT_S)
        (folder / "go").touch()
        return [int(x) for x in numbers]


def test_imports_outlive_the_task_that_began_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "ms_slow_imports.py").write_text(
        "import pathlib, time\n"
        f"FOLDER = pathlib.Path({str(tmp_path)!r})\n"
        "with (FOLDER / 'starts').open('a') as starts:\n"
        "    starts.write('x')\n"
        "while not (FOLDER / 'go').exists():\n"
        "    time.sleep(0.01)\n"
        "\n"
        "def same(x):\n"
        "    return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    same = importlib.import_module("ms_slow_imports").same
    for name in ("go", "starts"):
        (tmp_path / name).unlink()
    assert read_after_short_epochs(same, tmp_path) == [0, 1, 2, 3]
    assert (tmp_path / "starts").read_text() == "x", "the modules were imported once"


def test_loading_outlives_the_task_that_began_it(tmp_path: Path) -> None:
    assert read_after_short_epochs(Model(tmp_path), tmp_path) == [0, 1, 2, 3]
    assert (tmp_path / "starts").read_text() == "x", "the model was loaded once"
