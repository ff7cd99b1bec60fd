"""Lists the public names of ``tf.data`` as the installed TensorFlow has them, with signatures, members and values.

Run with TensorFlow: ``python tests/frameworks/upstream_names.py`` writes ``tests/tensorflow_names.json``, which the tests of ``compat`` read.
"""

from __future__ import annotations

import enum
import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

FIXTURE = Path(__file__).resolve().parents[1] / "tensorflow_names.json"

Described = dict[str, Any]


def names() -> dict[str, Described]:
    """Returns the description of each name."""
    import tensorflow as tf

    modules = {
        "tf.data": tf.data,
        "tf.data.experimental": tf.data.experimental,
        "tf.data.experimental.service": tf.data.experimental.service,
    }
    found = [(f"{path}.{name}", getattr(module, name)) for path, module in modules.items() for name in dir(module) if not name.startswith("_")]
    return {name: described(value) for name, value in found if not isinstance(value, ModuleType)}


def described(value: Any) -> Described:
    """Returns the kind of a value, and its signature, members or value."""
    if inspect.isclass(value):
        if issubclass(value, enum.Enum):
            return {"kind": "enum", "members": {member.name: member.value for member in value}}
        members = {name: _member(value, name) for name in dir(value) if not name.startswith("_") and not _is_builtin(value, name)}
        if value.__name__ not in ("DatasetV2",) and any(kind.__name__ == "DatasetV2" for kind in value.__mro__):
            # What all datasets have is listed once.
            members = {}
        return {"kind": "class", "signature": signature(value), "members": members}
    if callable(value):
        return {"kind": "function", "signature": signature(value)}
    return {"kind": "value", "value": value}


def _is_builtin(kind: type, name: str) -> bool:
    owner = next(owner for owner in kind.__mro__ if name in vars(owner))
    return owner.__module__ == "builtins"


def _member(kind: type, name: str) -> Described:
    static = inspect.getattr_static(kind, name)
    if isinstance(static, property) or type(static).__name__ in ("abstractproperty", "_tuplegetter"):
        return {"kind": "attribute"}
    return {"kind": "method", "signature": signature(getattr(kind, name))}


def signature(value: Any) -> list[list[Any]]:
    """Returns the name, the kind and the default of each parameter besides ``self``; the default as text, or ``None``."""
    parameters = [item for item in inspect.signature(value).parameters.values() if item.name not in ("self", "cls")]
    return [[item.name, item.kind.name, None if item.default is item.empty else shown(item.default)] for item in parameters]


def shown(default: Any) -> str:
    """Returns a default as text, dtypes without the package that they are of."""
    text = repr(default)
    return text.removeprefix("tf.").removeprefix("ms.") if not isinstance(default, str) else text


if __name__ == "__main__":
    import tensorflow

    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found, sort_keys=True)}" for name, found in sorted(names().items()))
    FIXTURE.write_text(f'{{"tensorflow": "{tensorflow.__version__}", "names": {{\n{lines}\n}}}}\n')
