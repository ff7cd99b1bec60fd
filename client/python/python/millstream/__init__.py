"""Millstream: datasets computed by a pool of workers, for trainers of any framework.

``import millstream as ms``: ``ms.Dataset`` builds pipelines as ``tf.data`` does, ``ms.service`` runs them on a service as
``tf.data.experimental.service`` does, ``ms.local`` starts such a service on this machine.
"""

from . import errors, ops, service
from ._millstream import key_path, version
from .composites import Ragged, Sparse
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from .dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import bool_ as bool
from .dtypes import bytes_ as bytes
from .distribute import distribute, from_python
from .distributed_input import (
    DistributedDataset,
    DistributedIterator,
    InputContext,
    InputOptions,
    InputReplicationMode,
    PerReplica,
    PerReplicaSpec,
    ValueContext,
    distribute_dataset,
    distribute_datasets_from_function,
    distribute_values_from_function,
    local_results,
    run_replicas,
)
from .files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from .loader import DataLoader, wrap
from .local import LocalService, local
from .ops import cast, concat, one_hot, reshape, stack, where
from .optional import Optional
from .options import AutoShardPolicy, Options
from .ranks import Rank, from_device_mesh, rank
from .spec import RaggedTensorSpec, SparseTensorSpec, TensorSpec
from .tensor import Tensor

__version__ = version()

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "DType",
    "DataLoader",
    "Dataset",
    "DistributedDataset",
    "DistributedIterator",
    "FixedLengthRecordDataset",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "LocalService",
    "Optional",
    "Options",
    "PerReplica",
    "PerReplicaSpec",
    "Ragged",
    "RaggedTensorSpec",
    "Rank",
    "Sparse",
    "SparseTensorSpec",
    "TFRecordDataset",
    "Tensor",
    "TensorSpec",
    "TextLineDataset",
    "ValueContext",
    "as_dtype",
    "bfloat16",
    "bool",
    "bytes",
    "cast",
    "complex64",
    "complex128",
    "concat",
    "distribute",
    "distribute_dataset",
    "distribute_datasets_from_function",
    "distribute_values_from_function",
    "errors",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_device_mesh",
    "from_python",
    "int8",
    "int16",
    "int32",
    "int64",
    "key_path",
    "local",
    "local_results",
    "one_hot",
    "ops",
    "rank",
    "reshape",
    "run_replicas",
    "service",
    "stack",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "where",
    "wrap",
]
