"""The source of a dataset that a Python generator function yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ._composites import Ragged, Sparse
from ._dtypes import as_dtype
from ._local_code import LocalCode
from ._millstream import Graph
from ._spec import RaggedTensorSpec, SparseTensorSpec, TensorSpec, plain
from .errors import InvalidArgumentError

__all__ = ["generated", "yielded"]


def generated(
    generator: Callable[..., Iterable[Any]],
    output_types: Any,
    output_shapes: Any,
    args: Sequence[Any] | None,
    output_signature: Any,
) -> Graph:
    """Returns the graph of a source that yields the elements of a generator.

    Raises:
        TypeError: The generator is not callable, or the arguments declare the element type not at all or twice.
    """
    if not callable(generator):
        raise TypeError(f"generator: expected a callable, found {generator!r}")
    if output_signature is not None and (output_types is not None or output_shapes is not None):
        raise TypeError("output_signature excludes output_types and output_shapes: pass only output_signature")
    if output_signature is None and output_types is None:
        raise TypeError("the element type of the generator is unknown: pass output_signature")
    signature = _signature(output_types, output_shapes) if output_signature is None else output_signature
    # A list that the generator yields is one tensor. A list in the signature therefore means a tuple.
    arguments = tuple(np.asarray(argument) for argument in args or ())
    local = LocalCode(repr(generator), lambda: yielded(generator, arguments, signature), yielded, generator, arguments, signature)
    return Graph.iterable(plain(signature), local.code, -2)


def _signature(types: Any, shapes: Any) -> Any:
    if isinstance(types, dict):
        return {name: _signature(item, None if shapes is None else shapes[name]) for name, item in types.items()}
    if isinstance(types, tuple | list):
        return tuple(
            _signature(item, None if shapes is None else shape)
            for item, shape in zip(types, [None] * len(types) if shapes is None else shapes, strict=True)
        )
    return TensorSpec(shapes, types)


def yielded(generator: Callable[..., Iterable[Any]], arguments: tuple[Any, ...], signature: Any) -> Iterator[Any]:
    """Returns the generator's elements, converted to the signature. Runs in the process that runs the pipeline."""
    return _Yielded(generator(*arguments), signature)


class _Yielded:
    """The elements of an iterable as the signature has them. Elements follow one that does not fit."""

    goes_on = True

    def __init__(self, iterable: Iterable[Any], signature: Any) -> None:
        self._values = iter(iterable)
        self._signature = signature

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return _fitted(next(self._values), self._signature)


def _fitted(value: Any, spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, dict):
        if not isinstance(value, dict) or set(value) != set(spec):
            raise InvalidArgumentError(f"expected a dict with the keys {list(spec)} from the generator, found {repr(value)[:200]}: change output_signature")
        return {name: _fitted(value[name], item) for name, item in spec.items()}
    if isinstance(spec, tuple | list):
        if not isinstance(value, tuple | list) or len(value) != len(spec):
            raise InvalidArgumentError(f"expected {len(spec)} components from the generator, found {repr(value)[:200]}: change output_signature")
        return type(spec)(_fitted(item, of) for item, of in zip(value, spec, strict=True))
    if isinstance(spec, RaggedTensorSpec):
        return Ragged(_array(value.values, spec.values), *map(_array, value.nested_row_splits, spec.row_splits))
    if isinstance(spec, SparseTensorSpec):
        parts = (value.indices, value.values, value.dense_shape)
        return Sparse(*map(_array, parts, (spec.indices, spec.values, spec.dense_shape)))
    return _array(value, spec)


def _array(value: Any, spec: Any) -> Any:
    dtype = as_dtype(spec.dtype)
    if dtype.code in ("string", "bytes"):
        return _shaped(value, _text(value, dtype.code == "string"), spec)
    try:
        made = np.asarray(value, dtype.as_numpy_dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"expected a tensor of {dtype!r} from the generator, found {repr(value)[:200]}: {error}") from error
    return _shaped(value, made, spec)


def _shaped(value: Any, made: Any, spec: Any) -> Any:
    found, wanted = np.shape(made), spec.shape
    if wanted is None or (len(found) == len(wanted) and all(size in (None, of) for size, of in zip(wanted, found, strict=True))):
        return made
    raise InvalidArgumentError(f"expected a tensor of the shape {tuple(wanted)} from the generator, found {repr(value)[:200]} of the shape {found}")


def _text(value: Any, is_text: bool) -> Any:
    """Converts ``str`` and ``bytes``, also in lists and arrays, to one of both types, because TensorFlow has one type for both."""
    if isinstance(value, bytes) and is_text:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            shown = repr(value)[:200]
            raise InvalidArgumentError(f"expected UTF-8 text from the generator, found {shown}: use ms.bytes in output_signature. {error}") from error
    if isinstance(value, str) and not is_text:
        return value.encode()
    if isinstance(value, list | tuple):
        return [_text(item, is_text) for item in value]
    if isinstance(value, np.ndarray):
        items = [_text(item, is_text) for item in value.reshape(-1).tolist()]
        made = np.empty(len(items), object)
        made[:] = items
        return made.reshape(value.shape)
    return value
