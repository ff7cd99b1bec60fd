"""Elements of zeros and empty texts, of the spec of other elements. Refuses to know the purpose of such elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._spec import TensorSpec

__all__ = ["zeros_of"]


def zeros_of(spec: Any) -> Any:
    """Returns an element of zeros and empty texts.

    Args:
        spec: The specs of tensors of known shapes, nested in tuples and dicts.

    Raises:
        ValueError: The shape of a tensor is not known, or the element has other parts than tensors.
    """
    if isinstance(spec, dict):
        return {name: zeros_of(item) for name, item in spec.items()}
    if isinstance(spec, tuple | list):
        return tuple(map(zeros_of, spec))
    sizes = [size for size in spec.shape if size is not None] if isinstance(spec, TensorSpec) and spec.shape is not None else None
    if sizes is None or len(sizes) != len(spec.shape):
        raise ValueError(f"expected tensors of known shapes, found {spec}")
    if spec.dtype.code not in ("string", "bytes"):
        return np.zeros(sizes, spec.dtype.as_numpy_dtype)
    made: Any = np.empty(sizes, np.object_)
    made[...] = "" if spec.dtype.code == "string" else b""
    return made if sizes else made[()]
