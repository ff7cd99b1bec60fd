"""Millstream's datasets under TensorFlow's names: ``from millstream import compat as tf``.

The module has the names that pipelines of ``tf.data`` use. Elements are numpy arrays, so ``.numpy()`` is not needed. Text is ``str``. Use
``Dataset.map_python`` for functions that need Python code.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import _distributed_input as _input
from . import errors, ops, service
from ._composites import Ragged
from ._dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ._dtypes import as_dtype, float32, float64, int8, int16, int32, int64, string, uint8, uint16, uint32, uint64
from ._dtypes import bool_ as bool
from ._optional import Optional
from ._options import AutoShardPolicy, AutotuneOptions, DistributeOptions, Options, ThreadingOptions
from ._spec import RaggedTensorSpec, SparseTensorSpec, TensorShape, TensorSpec
from ._structure import leaf
from ._tensor import Tensor
from .files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from .ops import (
    abs,
    cast,
    clip_by_value,
    concat,
    exp,
    expand_dims,
    floor,
    gather,
    maximum,
    minimum,
    one_hot,
    pad,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    reshape,
    round,
    saturate_cast,
    sign,
    sqrt,
    squeeze,
    stack,
    tanh,
    transpose,
    where,
)

__all__ = [
    "RaggedTensorSpec",
    "SparseTensorSpec",
    "Tensor",
    "TensorShape",
    "TensorSpec",
    "abs",
    "bool",
    "cast",
    "clip_by_value",
    "concat",
    "constant",
    "data",
    "distribute",
    "errors",
    "exp",
    "expand_dims",
    "experimental",
    "float32",
    "float64",
    "floor",
    "function",
    "gather",
    "identity",
    "int16",
    "int32",
    "int64",
    "int8",
    "math",
    "maximum",
    "minimum",
    "one_hot",
    "pad",
    "print",
    "ragged",
    "range",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "reshape",
    "round",
    "saturate_cast",
    "shape",
    "sign",
    "size",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "string",
    "strings",
    "tanh",
    "transpose",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "where",
]


def constant(value: Any, dtype: Any = None, shape: Sequence[int] | None = None) -> Any:
    """Creates an array. Python's own numbers become 32-bit numbers.

    Args:
        value: A value, or nested sequences of values.
        dtype: The dtype of the array.
        shape: The shape of the array.

    Returns:
        The array.
    """
    code, dims, items = leaf(value)
    if isinstance(items, list):
        made = np.array(np.asarray(value), object)
    else:
        made = np.frombuffer(items, as_dtype(code).as_numpy_dtype).reshape(dims)
    if dtype is not None and as_dtype(dtype).code not in ("string", "bytes"):
        made = made.astype(as_dtype(dtype).as_numpy_dtype)
    made = made if shape is None else made.reshape(tuple(shape))
    return made[()] if made.shape == () else made


def function(func: Callable[..., Any] | None = None, *, input_signature: Any = None) -> Callable[..., Any]:
    """Returns the function unchanged, because Millstream compiles no functions.

    Args:
        func: The function.
        input_signature: Accepted as in TensorFlow; has no effect.
    """
    return (lambda inner: inner) if func is None else func


def print(*values: Any) -> None:
    """Prints values. Arrays within tuples are printed like arrays outside of tuples.

    Args:
        *values: The values.
    """
    builtins.print(*(_printed(value) for value in values))


def _printed(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_printed, value))})"
    return str(value)


def shape(x: Any, out_type: Any = int32) -> Tensor:
    """Returns the sizes of a symbolic tensor.

    Args:
        x: The tensor.
        out_type: The dtype of the sizes.
    """
    return ops.cast(ops.shape(x), out_type)


def size(x: Any, out_type: Any = int32) -> Tensor:
    """Returns the number of items of a symbolic tensor.

    Args:
        x: The tensor.
        out_type: The dtype of the number.
    """
    return ops.cast(ops.shape(ops.reshape(x, [-1]))[0], out_type)


def identity(x: Any) -> Any:
    """Returns its argument.

    Args:
        x: Any value.
    """
    return x


range = builtins.range
square = ops.square


def _transformation(method: str) -> Callable[..., Callable[[Dataset], Dataset]]:
    def made(*args: Any, **kwargs: Any) -> Callable[[Dataset], Dataset]:
        return lambda dataset: getattr(dataset, method)(*args, **kwargs)

    return made


def _shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


class MirroredStrategy:
    """Several replicas in this process, which share the input and run functions one after the other."""

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        self.extended = SimpleNamespace(worker_devices=tuple(devices or ("CPU:0",)))

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return len(self.extended.worker_devices)

    def experimental_distribute_dataset(
        self, dataset: Dataset, options: _input.InputOptions | None = None
    ) -> _input.DistributedDataset:
        """Divides the batches of a dataset among the replicas; see ``distribute_dataset``."""
        return _input.distribute_dataset(dataset, self.num_replicas_in_sync, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[_input.InputContext], Dataset], options: _input.InputOptions | None = None
    ) -> _input.DistributedDataset:
        """Calls a function that returns the dataset; see ``ms.distribute_datasets_from_function``."""
        return _input.distribute_datasets_from_function(dataset_fn, self.num_replicas_in_sync, options)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_values_from_function(self, value_fn: Callable[[_input.ValueContext], Any]) -> Any:
        """Calls a function for each replica; see ``distribute_values_from_function``."""
        return _input.distribute_values_from_function(value_fn, self.num_replicas_in_sync)

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a function with the values of each replica; see ``run_replicas``."""
        return _input.run_replicas(fn, args, kwargs)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Returns the values of the replicas as a tuple; see ``local_results``."""
        return _input.local_results(value)

    def reduce(self, reduce_op: str, value: Any, axis: int | None = None) -> Any:
        """Returns the sum or the mean over all replicas and, with ``axis``, also over an axis of each value."""
        parts = [np.asarray(part) for part in _input.local_results(value)]
        if axis is None:
            total = np.sum(parts, axis=0)
            return total if reduce_op == "SUM" else total / self.num_replicas_in_sync
        total = np.sum([part.sum(axis) for part in parts], axis=0)
        return total if reduce_op == "SUM" else total / sum(part.shape[axis] for part in parts)


def _ragged_constant(rows: Any, dtype: Any = None) -> Ragged:
    return Ragged.from_rows(rows, None if dtype is None else as_dtype(dtype).as_numpy_dtype)


math = SimpleNamespace(
    equal=lambda x, y: x == y,
    abs=ops.abs,
    ceil=ops.ceil,
    exp=ops.exp,
    floor=ops.floor,
    log=ops.log,
    maximum=ops.maximum,
    minimum=ops.minimum,
    reduce_max=ops.reduce_max,
    reduce_mean=ops.reduce_mean,
    reduce_min=ops.reduce_min,
    reduce_sum=ops.reduce_sum,
    round=ops.round,
    sqrt=ops.sqrt,
    square=ops.square,
)
strings = SimpleNamespace(
    length=lambda x, unit="BYTE": ops.strings_length(x, unit).cast(int32),
    lower=ops.strings_lower,
    regex_full_match=ops.regex_full_match,
    regex_replace=ops.regex_replace,
    split=ops.strings_split,
    strip=ops.strings_strip,
    substr=ops.strings_substr,
    to_number=ops.strings_to_number,
    upper=ops.strings_upper,
)
ragged = SimpleNamespace(constant=_ragged_constant)
experimental = SimpleNamespace(Optional=Optional)
data = SimpleNamespace(
    AUTOTUNE=AUTOTUNE,
    Dataset=Dataset,
    FixedLengthRecordDataset=FixedLengthRecordDataset,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    Options=Options,
    TFRecordDataset=TFRecordDataset,
    TextLineDataset=TextLineDataset,
    ThreadingOptions=ThreadingOptions,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    experimental=SimpleNamespace(
        AUTOTUNE=AUTOTUNE,
        AutoShardPolicy=AutoShardPolicy,
        AutotuneOptions=AutotuneOptions,
        DistributeOptions=DistributeOptions,
        ThreadingOptions=ThreadingOptions,
        assert_cardinality=_transformation("assert_cardinality"),
        bucket_by_sequence_length=_transformation("bucket_by_sequence_length"),
        group_by_window=_transformation("group_by_window"),
        ignore_errors=_transformation("ignore_errors"),
        rejection_resample=_transformation("rejection_resample"),
        scan=_transformation("scan"),
        service=service,
        shuffle_and_repeat=_shuffle_and_repeat,
        snapshot=_transformation("snapshot"),
        take_while=_transformation("take_while"),
        unbatch=_transformation("unbatch"),
        unique=_transformation("unique"),
    ),
)
distribute = SimpleNamespace(
    DistributedDataset=_input.DistributedDataset,
    DistributedIterator=_input.DistributedIterator,
    DistributedValues=_input.PerReplica,
    InputContext=_input.InputContext,
    InputOptions=_input.InputOptions,
    InputReplicationMode=_input.InputReplicationMode,
    MirroredStrategy=MirroredStrategy,
    ReduceOp=SimpleNamespace(MEAN="MEAN", SUM="SUM"),
    experimental=SimpleNamespace(ValueContext=_input.ValueContext),
)
