"""Tests that docstrings of public functions document all arguments and results, and that their examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import millstream as ms
from millstream import compat, errors, files, metrics, ops, resolvers, service

COMPAT = [getattr(compat, name) for name in compat.__all__ if isinstance(getattr(compat, name), ModuleType)]
MODULES: list[ModuleType] = [ms, compat, *COMPAT, compat.data.experimental, errors, files, metrics, ops, resolvers, service]


def functions() -> Iterator[tuple[str, Any]]:
    """Yields each public function and method once, with its name."""
    seen: set[int] = set()
    for module in MODULES:
        # These modules need frameworks or Ray, and have separate tests.
        for name in (name for name in module.__all__ if name not in ("ray", "tf", "torch")):
            found = getattr(module, name)
            if isinstance(found, ModuleType):
                continue
            owners = [kind for kind in found.__mro__ if kind.__module__.startswith("millstream")] if inspect.isclass(found) else []
            members = [member for kind in owners for member in vars(kind).items()] or [(name, found)]
            for member, value in members:
                function = getattr(value, "__func__", value)
                owner = f"{module.__name__}.{name}." if inspect.isclass(found) else f"{module.__name__}."
                is_ours = inspect.isfunction(function) and function.__module__.startswith("millstream")
                if is_ours and not member.startswith("_") and id(function) not in seen:
                    seen.add(id(function))
                    yield f"{owner}{member}", function


PUBLIC = dict(functions())


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_has_all_arguments_and_the_result(name: str) -> None:
    function = PUBLIC[name]
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    # A section ends where a line begins that is not indented.
    section = re.split(r"\n\n(?=\S)", text.partition("Args:\n")[2])[0]
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "cls"):
            stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            assert f"    {stars}{parameter.name}: " in f"\n{section}", f"{name}: {parameter.name}"
    if signature.return_annotation not in ("None", None, signature.empty):
        assert text.startswith(("Returns ", "Yields ")) or "Returns:\n" in text, name


def test_the_examples_run() -> None:
    owners: dict[str, Any] = {**PUBLIC, "DataLoader": ms.DataLoader}
    finder = doctest.DocTestFinder(recurse=False)
    classes = {kind.__name__: kind for module in MODULES for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ != "builtins"}
    owners |= {name: kind for name, kind in classes.items() if kind.__module__.startswith("millstream")}
    globs = {"ms": ms, "np": np, "tf": compat}
    found = [example for name, owner in owners.items() for example in finder.find(owner, name, globs=globs)]
    runner = doctest.DocTestRunner()
    for example in found:
        runner.run(example)
    summary = runner.summarize(verbose=False)
    assert summary.failed == 0 and summary.attempted >= 45, summary
