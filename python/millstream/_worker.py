"""Converts elements for users' functions, and results of the functions to tensors.

``_executor`` uses this module on workers, and the extension uses it in the trainer. See ``_code`` for the packing of functions.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ._code import unpacked
from ._composites import Ragged, Sparse
from ._structure import Stack, tensor

__all__ = ["array_of_torch", "described", "flat_function", "flattened", "function", "iterate", "iterated", "nested", "tensors", "told"]

Leaf = tuple[str, tuple[int, ...], Any]

_PACKAGE = str(Path(__file__).parent)
#: The maximum number of samples that an error names.
_SAMPLES_TOLD = 64


def function(code: bytes, given: Any, yields: Any) -> Callable[[list[Any]], list[Leaf]]:
    """Returns a function that takes the components of an element, described by ``given``, and returns tensors, described by ``yields``."""
    called = unpacked(code)

    def call(components: list[Any]) -> list[Leaf]:
        element = nested(given, iter(components))
        return flattened(called(*element) if isinstance(element, tuple) else called(element), yields)

    return call


def flat_function(code: bytes, given: Any, yields: Any) -> Callable[[list[Any]], Iterator[list[Leaf]]]:
    """Returns a function that takes the components of an element, described by ``given``, and returns an iterator over results."""
    called = unpacked(code)

    def call(components: list[Any]) -> Iterator[list[Leaf]]:
        element = nested(given, iter(components))
        made = called(*element) if isinstance(element, tuple) else called(element)
        return (flattened(value, yields) for value in made)

    return call


def iterate(code: bytes, yields: Any) -> Iterator[list[Leaf]]:
    """Returns an iterator over the elements that the code's iterable yields."""
    return iterated(unpacked(code), yields)


def iterated(called: Callable[[], Any], yields: Any) -> Iterator[list[Leaf]]:
    """Returns an iterator over the elements that a function's iterable yields."""
    return _Elements(called(), yields)


class _Elements:
    """The tensors of what an iterable yields."""

    __slots__ = ("_values", "_yields", "goes_on")

    def __init__(self, iterable: Any, yields: Any) -> None:
        self._values = iter(iterable)
        self._yields = yields
        #: Whether elements may follow an exception.
        self.goes_on: bool = getattr(self._values, "goes_on", False)

    def __iter__(self) -> Iterator[list[Leaf]]:
        return self

    def __next__(self) -> list[Leaf]:
        return flattened(next(self._values), self._yields)


def flattened(value: Any, yields: Any) -> list[Leaf]:
    """Returns the tensors of a result, in order, with their bytes."""
    leaves = tensors(value, yields)
    return [(code, dims, data if isinstance(data, list) else np.asarray(data).tobytes()) for code, dims, data in leaves]


def tensors(value: Any, yields: Any) -> list[Leaf]:
    """Returns the tensors of a result, in the order in which ``yields`` describes them.

    A result consists of arrays, torch tensors, pictures, text and numbers, which may be nested in dicts, tuples and lists.

    Raises:
        TypeError: The result has another structure than ``yields``.
    """
    leaves: list[Leaf] = []
    _fit(value, yields, leaves)
    return leaves


def _fit(value: Any, yields: Any, leaves: list[Leaf]) -> None:
    kind = yields[0]
    if kind == "dict":
        names = [name for name, _ in yields[1]]
        # The order of names is irrelevant. Names are compared as text, as in the description.
        parts = {str(name): part for name, part in value.items()} if isinstance(value, Mapping) else {}
        if not isinstance(value, Mapping) or parts.keys() != set(names):
            raise _unfit(value, f"a dict of {', '.join(names)}")
        for name, item in yields[1]:
            _fit(parts[name], item, leaves)
    elif kind in ("tuple", "list"):
        if not isinstance(value, tuple | list) or len(value) != len(yields[1]):
            raise _unfit(value, f"a {kind} of {len(yields[1])} items")
        for part, item in zip(value, yields[1], strict=True):
            _fit(part, item, leaves)
    elif kind == "tensor":
        if value is None or isinstance(value, Mapping | tuple | Ragged | Sparse):
            raise _unfit(value, "a tensor")
        _tensor(value, leaves)
        _retype(leaves, [yields])
    else:
        is_fit = {"none": value is None, "ragged": isinstance(value, Ragged), "sparse": isinstance(value, Sparse)}
        if not is_fit[kind]:
            raise _unfit(value, "None" if kind == "none" else f"a {kind} tensor")
        _describe(value, leaves)
        _retype(leaves, yields[1] if kind != "none" else [])


def _retype(leaves: list[Leaf], specs: list[Any]) -> None:
    """Gives the last leaves their declared dtype where they are empty text, which has no item that states a dtype."""
    for place, spec in enumerate(specs, len(leaves) - len(specs)):
        code, dims, data = leaves[place]
        if code == "string" and spec[1] == "bytes" and isinstance(data, list) and not data:
            leaves[place] = ("bytes", dims, data)


def _unfit(value: Any, expected: str) -> TypeError:
    found = f"a dict of {', '.join(map(str, value))}" if isinstance(value, Mapping) else f"{value!r:.200}"
    return TypeError(
        f"expected {expected}, found {found}: all elements must have the structure of element_spec, or of the first element"
    )


def described(value: Any) -> tuple[Any, ...]:
    """Returns the spec of a result, as plain tuples."""
    return _describe(value, [])


def _describe(value: Any, leaves: list[Leaf]) -> tuple[Any, ...]:
    if value is None:
        return ("none",)
    if isinstance(value, Mapping):
        return ("dict", [(str(name), _describe(item, leaves)) for name, item in value.items()])
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        # The collate function returns a list for a batch of text, which is one tensor.
        if kind == "list" and value and all(isinstance(item, str | bytes) for item in value):
            return _tensor(value, leaves)
        return (kind, [_describe(item, leaves) for item in value])
    if isinstance(value, Ragged):
        return ("ragged", [_tensor(part, leaves) for part in (value.values, *value.nested_row_splits)])
    if isinstance(value, Sparse):
        return ("sparse", [_tensor(part, leaves) for part in (value.indices, value.values, value.dense_shape)])
    return _tensor(value, leaves)


def _tensor(value: Any, leaves: list[Leaf]) -> tuple[Any, ...]:
    value = array_of_torch(value)
    code, dims, data = tensor(np.asarray(value) if not isinstance(value, str | bytes | list | Stack) else value)
    leaves.append((code, dims, data))
    return ("tensor", code, dims)


def array_of_torch(value: Any) -> Any:
    """Converts a torch tensor to an array, which views the same memory if the tensor is on the CPU. Returns other values unchanged."""
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    value = value.detach().cpu()
    return _bits(value.contiguous()) if str(value.dtype) in _FLOATS_OF_TORCH else value.numpy()


_FLOATS_OF_TORCH = {
    "torch.bfloat16": ("int16", "bfloat16"),
    "torch.float8_e4m3fn": ("int8", "float8_e4m3fn"),
    "torch.float8_e5m2": ("int8", "float8_e5m2"),
}


def _bits(tensor: Any) -> Any:
    """Converts a torch tensor whose dtype numpy does not have, with the dtypes of ``ml_dtypes``."""
    import ml_dtypes
    import torch

    width, name = _FLOATS_OF_TORCH[str(tensor.dtype)]
    return tensor.view(getattr(torch, width)).numpy().view(getattr(ml_dtypes, name))


def nested(given: Any, components: Iterator[Any]) -> Any:
    """Builds an element from its components, in the structure that ``given`` describes."""
    kind = given[0]
    if kind == "tensor":
        return next(components)
    if kind == "none":
        return None
    if kind == "dict":
        return {name: nested(item, components) for name, item in given[1]}
    items = [nested(item, components) for item in given[1]]
    if kind == "ragged":
        return Ragged(*items)
    if kind == "sparse":
        return Sparse(*items)
    return tuple(items) if kind == "tuple" else items


def told(error: BaseException, trace: TracebackType | None) -> tuple[str, str]:
    """Returns the message and the traceback of an exception, without the frames of this package.

    With ``MILLSTREAM_FULL_TRACEBACK=1`` the traceback contains all frames.
    """
    whole = traceback.TracebackException(type(error), error, trace)
    if os.environ.get("MILLSTREAM_FULL_TRACEBACK") != "1":
        _leave_out_own(whole)
    said = "".join(whole.format_exception_only()).strip()
    told = "".join(whole.format()).strip()
    samples = getattr(error, "millstream_samples", ())
    if samples:
        listed = ", ".join(map(str, samples[:_SAMPLES_TOLD])) + (", ..." if len(samples) > _SAMPLES_TOLD else "")
        said = f"{said}; {'sample' if len(samples) == 1 else 'samples'} {listed}"
    # Characters that cannot be encoded, for example in file names, are escaped.
    return _writable(said), _writable(told)


def _leave_out_own(told: traceback.TracebackException) -> None:
    """Removes the frames of this package, also from the causes of the exception and from the exceptions of a group."""
    left = [told]
    while left:
        of = left.pop()
        of.stack = traceback.StackSummary.from_list(frame for frame in of.stack if not frame.filename.startswith(_PACKAGE))
        left += [other for other in (of.__cause__, of.__context__, *(of.exceptions or ())) if other is not None]


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
