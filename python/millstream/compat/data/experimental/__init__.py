"""The names of ``tf.data.experimental``: a table of contents.

Owns nothing. ``service`` is ``millstream.service``, and ``StatsAggregator``, ``StatsOptions``, ``latency_stats`` and ``bytes_produced_stats``
are names of TensorFlow up to 2.5.
"""

from __future__ import annotations

from .... import service
from ...._aggregator import StatsAggregator
from ...._dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from ...._optional import Optional
from ...._options import (
    AutoShardPolicy,
    AutotuneAlgorithm,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ServiceOptions,
    StatsOptions,
    ThreadingOptions,
)
from ....service import SHARD_HINT
from ._csv import CsvDataset, make_csv_dataset
from ._elements import at, cardinality, enable_debug_mode, get_next_as_optional, get_single_element, get_structure
from ._files import TFRecordWriter, distributed_save, load, save
from ._records import make_batched_features_dataset, parse_example_dataset
from ._reducing import Reducer, group_by_reducer
from ._refused import (
    DatasetInitializer,
    from_variant,
    get_model_proto,
    index_table_from_dataset,
    make_saveable_from_iterator,
    table_from_dataset,
    to_variant,
)
from ._sources import Counter, RandomDataset, choose_from_datasets, from_list, sample_from_datasets
from ._sql import SqlDataset
from ._statistics import bytes_produced_stats, latency_stats
from ._transformations import (
    assert_cardinality,
    bucket_by_sequence_length,
    copy_to_device,
    dense_to_ragged_batch,
    dense_to_sparse_batch,
    enumerate_dataset,
    group_by_window,
    ignore_errors,
    map_and_batch,
    pad_to_cardinality,
    parallel_interleave,
    prefetch_to_device,
    rejection_resample,
    scan,
    shuffle_and_repeat,
    snapshot,
    take_while,
    unbatch,
    unique,
)

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "SHARD_HINT",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DatasetInitializer",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "Reducer",
    "ServiceOptions",
    "SqlDataset",
    "StatsAggregator",
    "StatsOptions",
    "TFRecordWriter",
    "ThreadingOptions",
    "assert_cardinality",
    "at",
    "bucket_by_sequence_length",
    "bytes_produced_stats",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "distributed_save",
    "enable_debug_mode",
    "enumerate_dataset",
    "from_list",
    "from_variant",
    "get_model_proto",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "index_table_from_dataset",
    "latency_stats",
    "load",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_saveable_from_iterator",
    "map_and_batch",
    "pad_to_cardinality",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "service",
    "shuffle_and_repeat",
    "snapshot",
    "table_from_dataset",
    "take_while",
    "to_variant",
    "unbatch",
    "unique",
]
