"""Millstream computes datasets on a pool of workers, for trainers of any framework.

Programs import the package with ``import millstream as ms``. ``ms.Dataset`` builds pipelines like ``tf.data.Dataset``. ``ms.service`` runs
pipelines on a service, like ``tf.data.experimental.service``. ``ms.local`` starts a service on this machine.
"""

import importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import errors, image, io, metrics, ops, service, traces
from ._code import Limits
from ._composites import Ragged, Sparse
from ._dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ._distribute import distribute, from_python
from ._distributed_input import (
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
from ._dtypes import (
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
from ._dtypes import bool_ as bool
from ._dtypes import bytes_ as bytes
from ._exact_places import joined_states
from ._features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, VarLenFeature
from ._feed import DeviceFeed, feed
from ._lineage import Lineage, LineagePart
from ._loader import DataLoader
from ._local import LocalService, local
from ._millstream import key_path, version
from ._mix import mix
from ._mixture import Mixture
from ._optional import Optional
from ._options import AutoShardPolicy, Options
from ._ranks import Rank, from_device_mesh, rank
from ._spec import RaggedTensorSpec, SparseTensorSpec, TensorSpec
from ._tensor import Tensor
from ._wrap import wrap
from .errors import DataLossWarning
from .files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from .ops import cast, concat, one_hot, reshape, stack, where

if TYPE_CHECKING:
    from . import ray, resolvers, tf, torch

__version__ = version()

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "DType",
    "DataLoader",
    "DataLossWarning",
    "Dataset",
    "DeviceFeed",
    "DistributedDataset",
    "DistributedIterator",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "FixedLengthRecordDataset",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "Limits",
    "Lineage",
    "LineagePart",
    "LocalService",
    "Mixture",
    "Optional",
    "Options",
    "PerReplica",
    "PerReplicaSpec",
    "Ragged",
    "RaggedFeature",
    "RaggedTensorSpec",
    "Rank",
    "Sparse",
    "SparseTensorSpec",
    "TFRecordDataset",
    "Tensor",
    "TensorSpec",
    "TextLineDataset",
    "ValueContext",
    "VarLenFeature",
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
    "feed",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_device_mesh",
    "from_python",
    "image",
    "int8",
    "int16",
    "int32",
    "int64",
    "io",
    "key_path",
    "local",
    "local_results",
    "metrics",
    "mix",
    "one_hot",
    "ops",
    "joined_states",
    "rank",
    "ray",
    "reshape",
    "resolvers",
    "run_replicas",
    "service",
    "stack",
    "string",
    "tf",
    "torch",
    "traces",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "where",
    "wrap",
]


def __getattr__(name: str) -> _Any:
    # The modules for frameworks are imported at first use, because they import TensorFlow, torch or Ray.
    if name in ("ray", "resolvers", "tf", "torch"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
