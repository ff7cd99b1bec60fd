"""The dtypes of tensors, such as ``ms.float32``, with their numpy and TensorFlow names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = ["DType", "as_dtype", "numpy_dtype"]


class DType:
    """The type of a tensor's items.

    A dtype is equal to its names in other libraries: ``ms.int64 == "int64" == np.dtype("int64")``.
    """

    __slots__ = ("code", "name")

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.code = code

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """The scalar type of numpy, which is ``object`` for text. See ``numpy_dtype``."""
        if self.code in ("string", "bytes"):
            return np.object_
        kind: type[Any] = numpy_dtype(self.code).type
        return kind

    @property
    def is_floating(self) -> bool:
        """Whether the dtype is a float of any width."""
        return self.code.startswith(("f", "bf"))

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is an integer of any width."""
        return self.code[0] in "iu"

    def __eq__(self, other: object) -> bool:
        try:
            return self.code == as_dtype(other).code
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return f"ms.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (as_dtype, (self.name,))


_NAMES = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "complex64": "c64",
    "complex128": "c128",
    "string": "string",
    "bytes": "bytes",
}
_DTYPES = {name: DType(name, code) for name, code in _NAMES.items()}
_BY_CODE = {dtype.code: dtype for dtype in _DTYPES.values()}
_SHORT = {"half": "float16", "float": "float32", "double": "float64", "str": "string", "object": "string"}

bool_ = _DTYPES["bool"]
int8, int16, int32, int64 = (_DTYPES[f"int{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_DTYPES[f"uint{bits}"] for bits in (8, 16, 32, 64))
float16, bfloat16, float32, float64 = (_DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
float8_e4m3fn, float8_e5m2 = _DTYPES["float8_e4m3fn"], _DTYPES["float8_e5m2"]
complex64, complex128 = _DTYPES["complex64"], _DTYPES["complex128"]
string, bytes_ = _DTYPES["string"], _DTYPES["bytes"]


def as_dtype(value: Any) -> DType:
    """Converts a name, or the dtype of another library, to a dtype of Millstream.

    Args:
        value: A name, a numpy dtype or scalar type, or a dtype of TensorFlow or torch.

    Returns:
        The dtype.

    Raises:
        TypeError: The value is not the name of a dtype.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        name = _SHORT.get(value, value)
    elif value is str:
        name = "string"
    elif value is bytes:
        name = "bytes"
    else:
        # A TensorFlow dtype has the attribute `name`. The text of a torch dtype is `torch.float32`. numpy converts all other values.
        name = getattr(value, "name", None) or str(value).removeprefix("torch.")
        if name not in _DTYPES:
            try:
                name = np.dtype(value).name
            except TypeError:
                raise TypeError(f"expected a dtype, found {value!r}") from None
    found = _DTYPES.get(name) or _BY_CODE.get(name)
    if found is None:
        raise TypeError(f"{value!r} is not a dtype that elements can have: use one of {', '.join(_DTYPES)}")
    return found


@functools.cache
def numpy_dtype(code: str) -> np.dtype[Any]:
    """Returns the numpy dtype of a dtype of fixed size.

    ``bfloat16`` and the 8-bit floats use the dtypes of ``ml_dtypes`` if this package is installed. Otherwise unsigned integers of the same width
    hold the bits.
    """
    name = _BY_CODE[code].name
    if code in ("bf16", "f8e4m3", "f8e5m2"):
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(np.uint16 if code == "bf16" else np.uint8)
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)
