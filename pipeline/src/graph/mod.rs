//! The definition of a dataset: a graph of operations, the fluent builder that writes it, its encoding, and
//! everything that can be said of it without running it. Pure: nothing here touches a file, a clock or a
//! thread.
//!
//! - [`Dataset`] builds a [`Graph`] of [`Node`]s, each an [`Op`] with its parameters;
//! - [`Graph::to_bytes`] and [`Graph::from_bytes`] move it between processes;
//! - [`Graph::facts`] infers spec, cardinality, splits and alignment, asking a [`Registry`] about registered
//!   names;
//! - [`Graph::sharded`] makes one worker's share of it;
//! - `Graph::rewritten` changes it before it is executed, never what it yields: see [`Rewrites`];
//! - [`Graph::drawing`] draws it for people;
//! - [`FilePart`] is a part of a file where a path would stand;
//! - [`Graph::resolved`] writes the registry's answers into the graph, for those who have no such registry.

mod cardinality;
mod check;
mod codec;
mod combine;
mod constant;
mod dataset;
mod definition;
mod drawing;
mod error;
mod error_policy;
mod expr;
mod expr_builder;
mod facts;
mod fold;
mod fold_builder;
mod format;
mod function;
mod group;
mod group_builder;
mod group_spec;
mod image;
mod kept;
mod kept_builder;
mod native;
mod op;
mod options;
mod pack_sequences;
mod parameters;
mod params;
mod part;
mod predicate;
mod registry;
mod resolve;
mod rewrite;
mod settings;
mod sharding;
mod spec;
mod split;
mod step;
mod step_builder;

pub use constant::{Constant, ConstantTensor};
pub use dataset::{AUTO, Dataset, PIXELS_MAX_DEFAULT};
pub use definition::{
    BUFFER_MAX, CYCLE_MAX, DEPTH_MAX, GRAPH_BYTES_MAX, Graph, NAME_BYTES_MAX, NESTING_MAX, NODES_MAX, Node,
};
pub use drawing::Drawing;
pub use error::{AnalysisError, GraphError};
pub use error_policy::{ErrorPolicy, RETRIES_MAX};
pub use expr::{
    Binary, Cast, DecodeRaw, DtypeField, EXPR_NODES_MAX, Expr, ExprNode, ExprOp, Literal, LiteralTensor,
    Lookup, OneHot, PadTo, Reduce, Reduction, Shaping, Span, Split, Substr, Text, TextUnit, Unary, col,
    concat, joined, lit, stack,
};
pub use facts::{Cardinality, Facts};
pub use fold::{Fold, Folding, RejectionResample, Resampling};
#[cfg(feature = "mds")]
pub(crate) use format::INDEX;
pub use format::{
    CSV_FIELDS_MAX, Columns, Compression, Csv, CsvColumn, Elements, FixedLength, Format, IMAGE_EXTENSIONS,
    ImageFolder, JsonColumn, JsonLines, KEY_COMPONENT, Mds, Numpy, RECORD_BYTES_MAX, SqlColumn, Sqlite,
    TABLE_ROWS_MAX, Table, TfRecord, WebDataset,
};
pub use function::{Function, RegisteredMap};
pub use group::{Buckets, Grouping, PaddedBatch, Padding, Window, WindowSize};
pub use image::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, FlipAxis, Grayscale, HwcToChw,
    ImageFunction, Normalize, RandomCrop, RandomResizedCrop, Resize, ResizeMethod,
};
pub use kept::{CACHE_BYTES_DEFAULT, Cache, Kept, Packing, Snapshot};
pub use native::{
    Compute, CsvField, DecodeCsv, Feature, FeatureLayout, JsonField, Named, Native, Outputs, ParseExample,
    ParseInt, ParseJson, ParseSequenceExample, Select, Selected, SplitRagged, TOKENISER_BYTES_MAX, Tokenise,
    Tokeniser,
};
pub use op::{
    Batch, Choose, Count, Counter, Cycle, Enumerate, Files, FlatMap, OnError, Op, Prefetch, Random, Range,
    RegisteredFlatMap, RegisteredSource, Repeat, Sample, Schedule, ServiceReader, Shard, Shuffle,
    SourceDeclaration, TensorSlices, Tensors, Zip, operations,
};
pub use options::{Options, Travel};
pub use pack_sequences::{Cut, PackSequences};
pub use params::{Params, SpecField};
pub use part::FilePart;
pub use predicate::{Predicate, RegisteredPredicate};
pub use registry::{NoFunctions, Registry, SourceSignature};
pub use rewrite::Rewrites;
pub use settings::{Autotune, ExternalState, PRIVATE_THREADS_MAX, Threading};
pub use sharding::{ShardBy, ShardingError, Share};
pub use spec::node_specs;
pub use split::{SPLIT_SIZE_MAX, SourceFacts, Splitting, Units};
pub use step::{AssertCardinality, IgnoreErrors, Rebatch, ShuffleAndRepeat, Statistics, Step};

pub(crate) use expr::{Typed, TypedNode, axis_of, broadcast, column_of};
pub(crate) use group_spec::{own_shapes, padded_shapes, ragged_rank};
#[cfg(feature = "images")]
pub(crate) use image::kept;
pub(crate) use kept::path_spec;
pub(crate) use kept_builder::by_turns;
pub(crate) use predicate::typed_predicate;
pub(crate) use spec::{component, source_signature};
