"""Tests that the stub file matches the extension."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from millstream import _millstream

STUB = Path(_millstream.__file__).with_name("_millstream.pyi")


def stubbed() -> dict[str, list[str]]:
    """Returns the parameters of each function and method (`Class.method`) in the stub."""
    found: dict[str, list[str]] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = parameters(node)
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            found.update({f"{node.name}.{method.name}": parameters(method) for method in methods})
    return found


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.kwarg)
    return [argument.arg for argument in named if argument is not None]


def exported() -> dict[str, list[str]]:
    """Returns the parameters of each function and method (`Class.method`) in the extension."""
    found: dict[str, list[str]] = {}
    for name, value in vars(_millstream).items():
        if inspect.isclass(value):
            for method, member in vars(value).items():
                if not method.startswith("_") or method in ("__iter__", "__next__"):
                    found[f"{name}.{method}"] = signature(member)
        elif inspect.isbuiltin(value):
            found[name] = signature(value)
    return found


def signature(member: object) -> list[str]:
    if inspect.isgetsetdescriptor(member):
        return ["self"]
    function = member.__func__ if isinstance(member, staticmethod) else member
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_the_stub_matches_the_extension() -> None:
    assert stubbed() == exported()
