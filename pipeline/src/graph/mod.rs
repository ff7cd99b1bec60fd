//! The definition of a dataset: a graph of operations, with its builder, its encoding and its analyses. The
//! module is pure: no code here touches a file, a clock or a thread.
//!
//! - [`Dataset`] builds a [`Graph`] of [`Node`]s, each an [`Op`] with its parameters.
//! - [`Graph::to_bytes`] and [`Graph::from_bytes`] encode and decode a graph.
//! - [`Graph::facts`] infers spec, cardinality, splits and alignment, with the signatures of a [`Registry`].
//! - [`Graph::sharded`] returns the part of a graph that one worker reads.
//! - `Graph::rewritten` changes a graph before it is executed, but not the elements that it yields: see
//!   [`Rewrites`].
//! - [`Graph::drawing`] draws a graph for people.
//! - [`FilePart`] names a part of a file, and can replace a path.
//! - [`Graph::resolved`] writes the registry's signatures into a graph, for processes without that registry.

pub(crate) mod cardinality;
pub(crate) mod check;
pub(crate) mod codec;
pub(crate) mod constant;
pub(crate) mod counting;
pub(crate) mod dataset;
pub(crate) mod definition;
pub(crate) mod drawing;
pub(crate) mod error;
pub(crate) mod error_policy;
pub(crate) mod exactly_once;
pub(crate) mod expr;
pub(crate) mod expr_builder;
pub(crate) mod facts;
pub(crate) mod folding;
pub(crate) mod format;
pub(crate) mod function;
pub(crate) mod function_spec;
pub(crate) mod image;
pub(crate) mod label;
pub(crate) mod limits;
pub(crate) mod named;
pub(crate) mod native;
pub(crate) mod on_error;
pub(crate) mod options;
pub(crate) mod padded;
pub(crate) mod params;
pub(crate) mod predicate;
pub(crate) mod registry;
pub(crate) mod resolve;
pub(crate) mod rewrites;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod spec;
pub(crate) mod split;
pub(crate) mod split_counts;
pub(crate) mod tree;
pub(crate) mod units;
pub(crate) mod without_params;

pub use cardinality::Cardinality;
pub use constant::{Constant, ConstantTensor};
pub use dataset::{AUTO, Dataset, PIXELS_MAX_DEFAULT};
pub use drawing::Drawing;
pub use error::{AnalysisError, GraphError};
pub use error_policy::{ErrorPolicy, RETRIES_MAX};
pub use exactly_once::ExactlyOnceError;
pub use expr::{
    Binary, Cast, DecodeRaw, DtypeField, EXPR_NODES_MAX, Expr, ExprNode, ExprOp, Literal, LiteralTensor,
    Lookup, OneHot, PadTo, Reduce, Reduction, Shaping, Span, Split, Substr, Text, TextUnit, Unary, col,
    concat, joined, lit, stack,
};
pub use facts::Facts;
pub use folding::Folding;
pub(crate) use format::BELOW_CLASSES;
#[cfg(feature = "mds")]
pub(crate) use format::INDEX;
pub use format::{
    CSV_FIELDS_MAX, Columns, Compression, Csv, CsvColumn, Elements, FixedLength, Format, IMAGE_EXTENSIONS,
    ImageFolder, JsonColumn, JsonLines, KEY_COMPONENT, Mds, Numpy, RECORD_BYTES_MAX, SqlColumn, Sqlite,
    TABLE_ROWS_MAX, Table, TfRecord, WebDataset,
};
pub use function::{Function, RegisteredMap};
pub use image::{
    CenterCrop, CentralCrop, ColorJitter, Crop, DecodeImage, Flip, FlipAxis, Grayscale, HwcToChw,
    ImageFunction, Normalize, RandomCrop, RandomResizedCrop, Resize, ResizeMethod,
};
pub use limits::{BUFFER_MAX, CYCLE_MAX, DEPTH_MAX, GRAPH_BYTES_MAX, NAME_BYTES_MAX, NESTING_MAX, NODES_MAX};
pub use native::{
    Compute, CsvField, DecodeCsv, Feature, FeatureLayout, JsonField, Named, Native, Outputs, ParseExample,
    ParseInt, ParseJson, ParseSequenceExample, Select, Selected, SplitRagged, TOKENISER_BYTES_MAX, Tokenise,
    Tokeniser,
};
pub use on_error::OnError;
pub use options::{Options, Travel};
pub use params::{Params, SpecField};
pub use predicate::{Predicate, RegisteredPredicate};
pub use registry::{FileFormat, NoFunctions, Registry, SourceSignature};
pub use rewrites::Rewrites;
pub use schedule::{Cycle, Schedule};
pub use settings::{Autotune, ExternalState, PRIVATE_THREADS_MAX, Threading};
pub use spec::node_specs;
pub use split::SourceFacts;
pub use split_counts::SplitCounts;
pub use tree::{Comparable, Given, Graph, Node, Op, Operation, Resolution, Role};
pub use units::{SPLIT_SIZE_MAX, Splitting, Units};

pub(crate) use expr::{Typed, TypedNode, axis_of, broadcast, column_of};
#[cfg(feature = "images")]
pub(crate) use image::kept;
pub(crate) use padded::own_shapes;
pub(crate) use predicate::typed_predicate;
#[cfg(feature = "images")]
pub(crate) use spec::component;

pub use crate::ops::argument::Argument;
pub use crate::ops::assert_cardinality::AssertCardinality;
pub use crate::ops::batch::Batch;
pub use crate::ops::bucket::{Bucketing, Buckets, Padding};
pub use crate::ops::cache::{CACHE_BYTES_DEFAULT, Cache};
pub use crate::ops::choose::{Choose, Choosing};
pub use crate::ops::chunks::Chunks;
pub use crate::ops::concatenate::Concatenate;
pub use crate::ops::counter::Counter;
pub use crate::ops::enumerate::Enumerate;
pub use crate::ops::files::FilePart;
pub use crate::ops::files::Files;
pub use crate::ops::filter::Filter;
pub use crate::ops::flat_map::{FlatMap, RegisteredFlatMap};
pub use crate::ops::group_by_window::{Grouping, WindowSize};
pub use crate::ops::ignore_errors::IgnoreErrors;
pub use crate::ops::interleave::Interleave;
pub use crate::ops::map::Map;
pub use crate::ops::pack_sequences::{Cut, PackSequences};
pub use crate::ops::padded_batch::PaddedBatch;
pub(crate) use crate::ops::padded_batch::padded_shapes;
pub use crate::ops::prefetch::Prefetch;
pub use crate::ops::ragged_batch::RaggedBatch;
pub(crate) use crate::ops::ragged_batch::ragged_rank;
pub use crate::ops::random::Random;
pub use crate::ops::range::Range;
pub use crate::ops::read::Read;
pub use crate::ops::rebatch::Rebatch;
pub use crate::ops::reduce::Reducing;
pub use crate::ops::rejection_resample::{RejectionResample, Resampling};
pub use crate::ops::repeat::Repeat;
pub use crate::ops::sample::Sample;
pub use crate::ops::scan::Scan;
pub use crate::ops::service::ServiceReader;
pub use crate::ops::shard::Shard;
pub use crate::ops::shard::{ShardBy, ShardingError, Share};
pub use crate::ops::shuffle::Shuffle;
pub use crate::ops::shuffle_and_repeat::ShuffleAndRepeat;
pub use crate::ops::skip::Skip;
pub use crate::ops::snapshot::{Packing, Snapshot};
pub use crate::ops::source::{RegisteredSource, SourceDeclaration};
pub use crate::ops::statistics::Statistics;
pub use crate::ops::take::Take;
pub use crate::ops::take_while::TakeWhile;
pub use crate::ops::tensor_slices::TensorSlices;
pub use crate::ops::tensors::Tensors;
pub use crate::ops::unbatch::Unbatch;
pub use crate::ops::unique::Unique;
pub use crate::ops::window::{Window, Windows};
pub use crate::ops::write_chunk::WriteChunk;
pub use crate::ops::zip::Zip;
pub use crate::ops::{OperationError, operations};
