"""The graph of a ``tf.data`` dataset as bytes that are equal in all programs that make the dataset, with the Python functions that it calls.

A service identifies a dataset by its bytes. TensorFlow numbers functions, seed generators and Python functions in the order of their creation, so
this module replaces all of these names by names that depend on the graph alone. This module does not know how workers divide a graph.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import sys
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

from ._code import FunctionPickler, named_modules
from ._tf_failure import is_failure
from .errors import InvalidArgumentError

__all__ = ["CalledFunctions", "Carried", "nodes", "serialised", "with_functions"]

#: The TensorFlow operations that call a Python function of their process, by the number that their token names.
_CALLS = {"EagerPyFunc", "PyFunc", "PyFuncStateless"}

#: The prefix of the tokens in a graph that travels.
_TOKEN = "millstream/"

#: The part of a file name by which AutoGraph's generated files are known. Each program gives these files new names.
_GENERATED = "__autograph_generated_file"


@dataclasses.dataclass(frozen=True)
class Carried:
    """A dataset as it travels to workers.

    Attributes:
        graph: The serialised graph.
        functions: The Python functions that the graph calls, or ``None``.
        reads_service: Whether the graph itself reads a service.
    """

    graph: bytes
    functions: CalledFunctions | None
    reads_service: bool


class CalledFunctions:
    """The Python functions that a graph calls, in the order of the tokens in the graph. They are pickled together, because they share state."""

    def __init__(self, functions: list[Any]) -> None:
        self.functions = functions

    def __reduce__(self) -> tuple[Any, ...]:
        payload = io.BytesIO()
        _Pickler(payload).dump(self.functions)
        # The names stand beside the payload, because workers look for names of modules in the pickled code.
        return (_unpickled, (payload.getvalue(), _module_names(payload.getvalue())))


def serialised(graph: bytes) -> Carried:
    """Returns the dataset of a graph that TensorFlow has serialised in this process.

    Raises:
        InvalidArgumentError: A Python function that the graph calls does not exist any more.
    """
    definition = _definition(graph)
    for node in nodes(definition):
        # The devices are those of the trainer.
        node.device = ""
        # TensorFlow uses the metadata only for profiles.
        if "metadata" in node.attr and "Dataset" in node.op:
            node.attr["metadata"].s = b""
    _rename_functions(definition)
    functions = _take_functions(definition)
    _rename_resources(definition)
    reads_service = any(map(is_failure, nodes(definition)))
    canonical = bytes(definition.SerializeToString(deterministic=True))
    return Carried(canonical, CalledFunctions(functions) if functions else None, reads_service)


def with_functions(carried: Carried) -> bytes:
    """Registers the Python functions of a graph with TensorFlow in this process. Returns the graph that calls the registered functions.

    TensorFlow forgets a function when the caller drops ``carried``.
    """
    if carried.functions is None:
        return carried.graph
    registry, definition = _registry(), _definition(carried.graph)
    tokens = [registry.insert(function).encode() for function in carried.functions.functions]
    for node in nodes(definition):
        if node.op in _CALLS:
            node.attr["token"].s = tokens[int(node.attr["token"].s.decode().removeprefix(_TOKEN))]
    return bytes(definition.SerializeToString(deterministic=True))


def nodes(definition: Any) -> list[Any]:
    """Returns the nodes of a graph and of its functions."""
    return [*definition.node, *(node for function in definition.library.function for node in function.node_def)]


def _definition(graph: bytes) -> Any:
    import tensorflow as tf

    return tf.compat.v1.GraphDef.FromString(graph)


def _registry() -> Any:
    """Returns TensorFlow's registry of the Python functions of this process. TensorFlow has no public interface for the registry."""
    return importlib.import_module("tensorflow.python.ops.script_ops")._py_funcs


def _take_functions(definition: Any) -> list[Any]:
    """Replaces the tokens of Python functions in a graph by numbers. Returns the functions in the order of their numbers."""
    numbers: dict[str, int] = {}
    found: list[Any] = []
    for node in nodes(definition):
        if node.op not in _CALLS:
            continue
        token = node.attr["token"].s.decode()
        if token not in numbers:
            function = _registry().get(token)
            if function is None:
                raise InvalidArgumentError(
                    f"the dataset calls the Python function {token} ({node.op}), which this process does not have any more: make the dataset "
                    "again in this process"
                )
            numbers[token] = len(found)
            found.append(function)
        node.attr["token"].s = f"{_TOKEN}{numbers[token]}".encode()
    return found


def _rename_resources(definition: Any) -> None:
    """Renames the seed generators and other resources of a graph by their order and the hash of the graph."""
    constants = [node.attr["value"].tensor for node in nodes(definition) if "value" in node.attr]
    handles = [handle for constant in constants for handle in constant.resource_handle_val]
    names = sorted({handle.name for handle in handles}, key=[handle.name for handle in handles].index)
    for handle in handles:
        handle.name = str(names.index(handle.name))
    # A name identifies a resource within a process. The hash of the graph makes the name unique among graphs.
    own = hashlib.sha256(definition.SerializeToString(deterministic=True)).hexdigest()
    for handle in handles:
        handle.name = f"millstream/{own}/{handle.name}"


def _rename_functions(definition: Any) -> None:
    """Renames functions by their numbers in the order of calls, and removes functions that are never called."""
    functions = {function.signature.name: function for function in definition.library.function}
    numbered: dict[str, str] = {}

    def visit(visited: Any) -> None:
        for node in visited:
            for called in _called(node, functions):
                if called not in numbered:
                    numbered[called] = f"millstream_{len(numbered)}"
                    visit(functions[called].node_def)

    visit(definition.node)
    kept = [functions[name] for name in numbered]
    for node in (*definition.node, *(node for function in kept for node in function.node_def)):
        node.op = numbered.get(node.op, node.op)
        for reference in _references(node.attr):
            reference.name = numbered.get(reference.name, reference.name)
    for function in kept:
        function.signature.name = numbered[function.signature.name]
        for gradient in ("forward_function_name", "backward_function_name"):
            function.attr.pop(gradient, None)
    library = type(definition.library)(function=kept)
    definition.library.CopyFrom(library)


def _called(node: Any, functions: dict[str, Any]) -> list[str]:
    """Returns the names of the functions that a node refers to, always in the same order."""
    names = [node.op, *(reference.name for reference in _references(node.attr))]
    return [name for name in names if name in functions]


def _references(attributes: Any) -> Iterator[Any]:
    """Yields the references to functions in attributes, and in the attributes of these references."""
    for name in sorted(attributes):
        value = attributes[name]
        for reference in [value.func] if value.HasField("func") else list(value.list.func):
            yield reference
            yield from _references(reference.attr)


class _Pickler(FunctionPickler):
    """Pickles functions that TensorFlow has wrapped or rewritten."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.ModuleType) and obj is _autograph():
            return (_autograph, ())
        if isinstance(obj, types.CodeType) and _GENERATED in obj.co_filename:
            # The same function then has the same bytes in every program.
            return (_same, (obj.replace(co_filename="<autograph>"),))
        if type(obj).__qualname__ == "DatasetV2._GeneratorState":
            # A generator's state has a lock, and iterators of this process.
            return (type(obj), (obj._generator,))
        return super().reducer_override(obj)


def _autograph() -> Any:
    """Returns the module that functions use which AutoGraph has rewritten. The module cannot be imported by its name."""
    if "tensorflow" not in sys.modules:
        return None
    return importlib.import_module("tensorflow.python.autograph.impl.api")._TRANSPILER.get_extra_locals()["ag__"]


def _same(code: Any) -> Any:
    return code


def _unpickled(payload: bytes, _names: tuple[str, ...]) -> CalledFunctions:
    return CalledFunctions(cloudpickle.loads(payload))


def _module_names(payload: bytes) -> tuple[str, ...]:
    return tuple(named_modules(payload))
