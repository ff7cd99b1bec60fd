"""The specs of elements: dtypes and shapes, in the structure of the elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

from ._dtypes import DType, as_dtype

__all__ = ["RaggedTensorSpec", "SparseTensorSpec", "TensorShape", "TensorSpec"]

Shape: TypeAlias = tuple[int | None, ...] | None
Described: TypeAlias = tuple[Any, ...]


class TensorShape(tuple[int | None, ...]):
    """A shape of known rank. A dimension of ``None`` may vary."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self)

    def as_list(self) -> list[int | None]:
        """Returns the dimensions as a list. ``None`` marks a dimension that may vary."""
        return list(self)


@dataclasses.dataclass(frozen=True, init=False)
class TensorSpec:
    """The spec of a tensor: its shape and its dtype. A dimension of ``None`` may vary. A shape of ``None`` permits any rank."""

    shape: TensorShape | None
    dtype: DType
    name: str | None = dataclasses.field(default=None, compare=False)

    def __init__(self, shape: Any, dtype: Any = "float32", name: str | None = None) -> None:
        object.__setattr__(self, "shape", None if shape is None else TensorShape(shape))
        object.__setattr__(self, "dtype", as_dtype(dtype))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        shape = None if self.shape is None else tuple(self.shape)
        return f"TensorSpec(shape={shape}, dtype={self.dtype!r}, name={self.name!r})"


@dataclasses.dataclass(frozen=True, init=False)
class RaggedTensorSpec:
    """The spec of a ragged tensor: the specs of its values, and of the row splits of each ragged dimension.

    ``RaggedTensorSpec(shape, dtype)`` works as in TensorFlow. ``shape`` is the shape of the whole tensor. All dimensions after the first, up to the
    last ``None``, are ragged. ``ragged_rank`` sets another number of ragged dimensions.
    """

    values: TensorSpec
    row_splits: tuple[TensorSpec, ...]

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = "float32",
        ragged_rank: int | None = None,
        row_splits_dtype: Any = "int64",
        *,
        values: TensorSpec | None = None,
        row_splits: tuple[TensorSpec, ...] | None = None,
    ) -> None:
        if values is None or row_splits is None:
            dims = [None] * (1 + (ragged_rank or 1)) if shape is None else list(shape)
            if ragged_rank is None:
                ragged_rank = max((axis for axis, size in enumerate(dims) if axis and size is None), default=0)
            if not 0 < ragged_rank < len(dims):
                raise ValueError(f"RaggedTensorSpec of shape {shape}: expected a ragged dimension after the first: pass None as its size")
            rows = None if dims[0] is None else dims[0] + 1
            values = TensorSpec([None, *dims[ragged_rank + 1 :]], dtype)
            row_splits = tuple(TensorSpec([rows if axis == 0 else None], row_splits_dtype) for axis in range(ragged_rank))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "row_splits", row_splits)

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor's items."""
        return self.values.dtype

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.row_splits)


@dataclasses.dataclass(frozen=True)
class SparseTensorSpec:
    """The spec of a sparse tensor: the specs of its coordinates, its values and its dense shape."""

    indices: TensorSpec
    values: TensorSpec
    dense_shape: TensorSpec

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor's items."""
        return self.values.dtype


def dressed(described: Described) -> Any:
    """Converts the plain tuples of the extension to specs."""
    kind = described[0]
    if kind == "tensor":
        return TensorSpec(described[2], described[1])
    if kind == "none":
        return None
    if kind == "dict":
        return {name: dressed(item) for name, item in described[1]}
    items = [dressed(item) for item in described[1]]
    if kind == "ragged":
        return RaggedTensorSpec(values=items[0], row_splits=tuple(items[1:]))
    if kind == "sparse":
        return SparseTensorSpec(*items)
    return tuple(items) if kind == "tuple" else items


def plain(spec: Any) -> Described:
    """Converts a spec to plain tuples for the extension.

    Raises:
        TypeError: The value is not a spec.
    """
    if spec is None:
        return ("none",)
    if isinstance(spec, dict):
        return ("dict", [(name, plain(item)) for name, item in spec.items()])
    if isinstance(spec, RaggedTensorSpec):
        return ("ragged", [plain(item) for item in (spec.values, *spec.row_splits)])
    if isinstance(spec, SparseTensorSpec):
        return ("sparse", [plain(item) for item in (spec.indices, spec.values, spec.dense_shape)])
    if isinstance(spec, list | tuple) and not isinstance(spec, TensorShape):
        return ("list" if isinstance(spec, list) else "tuple", [plain(item) for item in spec])
    # TensorFlow's specs have the same attributes.
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        shape = spec.shape
        rank = getattr(shape, "rank", len(shape) if isinstance(shape, tuple | list) else None)
        dims = None if shape is None or rank is None else tuple(shape)
        return ("tensor", as_dtype(spec.dtype).code, dims)
    raise TypeError(f"expected a spec of elements, found {spec!r}: use TensorSpec, also in tuples, lists and dicts")


def leaves_of(described: Described) -> list[Described]:
    """Returns the tensors of a spec in order, with the parts of ragged and sparse tensors."""
    kind = described[0]
    if kind == "dict":
        return [leaf for _, part in described[1] for leaf in leaves_of(part)]
    if kind == "tensor":
        return [described]
    return [] if kind == "none" else [leaf for part in described[1] for leaf in leaves_of(part)]


def following(result: Described, given: Described, first: Sequence[tuple[int, ...]]) -> Described:
    """Returns the spec of a function's results, found from the result for the first element.

    A leading dimension that follows an unknown leading dimension of the input is unknown, too. After ``batch``, all leading dimensions follow the
    number of rows. Otherwise a leading dimension follows the input if both have the same size in the first call.

    Args:
        result: The spec of the result for the first element.
        given: The spec of the elements.
        first: The shapes of the tensors of the first element.
    """
    inputs = leaves_of(given)
    is_open = [shape is not None and len(shape) > 0 and shape[0] is None for _, _, shape in inputs]
    if not any(is_open):
        return result
    sizes = {shape[0] for shape, varies in zip(first, is_open, strict=True) if varies}
    return _opened(result, None if all(is_open) else sizes)


def _opened(described: Described, sizes: set[int] | None) -> Described:
    """Returns a spec whose leading dimensions of these sizes are unknown. ``None`` means all sizes."""
    kind, parts = described[:2]
    if kind == "dict":
        return (kind, [(name, _opened(part, sizes)) for name, part in parts])
    if kind in ("tuple", "list"):
        return (kind, [_opened(part, sizes) for part in parts])
    if kind == "tensor" and described[2] and (sizes is None or described[2][0] in sizes):
        return (kind, parts, (None, *described[2][1:]))
    return described


def dtypes_of(described: Described) -> Any:
    """Returns the structure of a spec with the dtypes as its leaves."""
    kind, parts = described[:2]
    if kind == "dict":
        return {name: dtypes_of(part) for name, part in parts}
    if kind in ("tuple", "list"):
        return tuple(dtypes_of(part) for part in parts)
    return parts if kind == "tensor" else (kind, *(dtypes_of(part) for part in parts))
