"""What elements are: dtypes and shapes, nested as the elements are."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from ._dtypes import DType, as_dtype

__all__ = ["RaggedTensorSpec", "SparseTensorSpec", "TensorShape", "TensorSpec"]

Shape: TypeAlias = tuple[int | None, ...] | None
Described: TypeAlias = tuple[Any, ...]


class TensorShape(tuple[int | None, ...]):
    """A shape of known rank; ``None`` is what varies."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """How many dimensions there are."""
        return len(self)

    def as_list(self) -> list[int | None]:
        """Returns the dimensions as a list, ``None`` for those that vary."""
        return list(self)


@dataclasses.dataclass(frozen=True, init=False)
class TensorSpec:
    """One tensor: its shape, of which ``None`` varies (``None`` as a whole: of any rank), and the type of its items."""

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
    """A ragged tensor: what its values are, one behind the other, and what the row splits of each ragged dimension.

    ``RaggedTensorSpec(shape, dtype)`` as upstream: the shape of the whole, of which what is ``None`` behind the first dimension
    is ragged; ``ragged_rank`` says how many dimensions are, where that is not the last ``None``.
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
                raise ValueError(f"RaggedTensorSpec of shape {shape}: no dimension behind the first is ragged")
            rows = None if dims[0] is None else dims[0] + 1
            values = TensorSpec([None, *dims[ragged_rank + 1 :]], dtype)
            row_splits = tuple(TensorSpec([rows if axis == 0 else None], row_splits_dtype) for axis in range(ragged_rank))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "row_splits", row_splits)

    @property
    def dtype(self) -> DType:
        """The type of its items."""
        return self.values.dtype

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return len(self.row_splits)


@dataclasses.dataclass(frozen=True)
class SparseTensorSpec:
    """A sparse tensor: what its coordinates, its values and its shape are."""

    indices: TensorSpec
    values: TensorSpec
    dense_shape: TensorSpec

    @property
    def dtype(self) -> DType:
        """The type of its items."""
        return self.values.dtype


def dressed(described: Described) -> Any:
    """The specs that the extension describes by plain tuples."""
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
    """Plain tuples for the extension.

    Raises:
        TypeError: It is no spec.
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
    # Those of TensorFlow have the same attributes.
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        shape = spec.shape
        rank = getattr(shape, "rank", len(shape) if isinstance(shape, tuple | list) else None)
        dims = None if shape is None or rank is None else tuple(shape)
        return ("tensor", as_dtype(spec.dtype).code, dims)
    raise TypeError(f"{spec!r} is no spec of elements: nest TensorSpec in tuples, lists and dicts")
