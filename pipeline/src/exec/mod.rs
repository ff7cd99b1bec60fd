//! The execution of a graph: a tree of pull iterators, one for each operation, from the sources to the
//! elements written into slots.
//!
//! - [`Executor`] opens a graph in an [`ExecContext`] and hands out elements, or writes them into packs;
//! - [`Value`]s and [`Tensor`]s are passed between operations, and an [`Item`] adds their origin;
//! - [`Functions`] holds the registered functions by name, and sources outside this crate implement
//!   [`Source`];
//! - [`SplitSource`] supplies splits, and each [`FinishedSplit`] states after which element a split is
//!   finished;
//! - [`Pool`], [`Budget`] and [`Cancel`] limit threads, memory and time;
//! - [`collect()`] runs a small dataset to its end and returns its elements;
//! - [`Stats`] state the cost of each stage and name the bottleneck.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod build;
pub(crate) mod by_split;
pub(crate) mod caches;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod chain;
pub(crate) mod collect;
pub(crate) mod constants;
pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod error;
pub(crate) mod executor;
pub(crate) mod expected;
pub(crate) mod expr;
pub(crate) mod faults;
pub(crate) mod format;
pub(crate) mod functions;
pub(crate) mod groups;
pub(crate) mod identity;
#[cfg(feature = "images")]
pub(crate) mod image;
pub(crate) mod item;
#[cfg(feature = "saved")]
pub(crate) mod item_bytes;
pub(crate) mod iterate;
#[cfg(feature = "saved")]
pub(crate) mod keeping;
pub(crate) mod lineage;
pub(crate) mod measure;
pub(crate) mod measuring;
pub(crate) mod native;
pub(crate) mod order;
pub(crate) mod padding;
pub(crate) mod permutation;
pub(crate) mod pool;
pub(crate) mod positions;
pub(crate) mod program;
pub(crate) mod quarantine;
pub(crate) mod random;
pub(crate) mod read_ahead;
pub(crate) mod room;
pub(crate) mod rows;
#[cfg(feature = "saved")]
pub(crate) mod saved;
pub(crate) mod settings;
pub(crate) mod site;
pub(crate) mod skipped;
pub(crate) mod slices;
pub(crate) mod source;
pub(crate) mod split_numbers;
pub(crate) mod splits;
pub(crate) mod spread;
pub(crate) mod state;
pub(crate) mod statistics;
pub(crate) mod strings;
pub(crate) mod token;
pub(crate) mod tune;
pub(crate) mod turns;
pub(crate) mod value;
pub(crate) mod write;
pub(crate) mod yielded;

pub use budget::{BUDGET_BYTES_DEFAULT, Budget, Charge, SharedBudget};
pub use by_split::{COMPONENTS_ADDED, numbered_by_split};
pub use caches::Caches;
pub use cancel::{Cancel, CancelHook};
pub use collect::{CollectError, collect};
pub use context::ExecContext;
pub use error::{BoxError, ErrorKind, ExecError, Failure, Origin};
pub use executor::Executor;
#[cfg(feature = "mds")]
pub(crate) use format::shards;
pub use functions::{
    FilterCall, FlatMapCall, Functions, MapCall, OpenPass, OpenService, PrepareFilter, PrepareFlatMap,
    PrepareMap, PrepareSitedFlatMap, PrepareSitedMap, PreparedFlatMap, PreparedMap, PreparedSitedFlatMap,
    PreparedSitedMap, SitedFlatMapCall, SitedMapCall, SourceFactory,
};
pub use item::Item;
pub use iterate::{Filled, Further, Input, Iterate, Stop};
pub use lineage::SplitRecords;
pub use measure::{Bottleneck, StageStats, Stats};
pub use measuring::StageWatch;
pub use pool::Pool;
pub use program::OpenError;
pub use quarantine::{FailedElement, Quarantine};
#[cfg(feature = "saved")]
pub use saved::{SaveError, save, saved_spec};
pub use site::Site;
pub use skipped::{FailureCounts, Failures};
pub use source::Source;
pub use split_numbers::{SplitNumbers, SplitPart};
pub use splits::{Split, SplitError, SplitSource};
pub use state::{STATE_BYTES_MAX, StateError, StateReader, StateWriter};
pub use statistics::{Measured, Quantiles, Statistics};
pub use strings::Strings;
pub use token::{FinishedSplit, Ledger, Mark, Marks, SplitToken};
pub use value::{Dims, Fill, Inline, Tensor, TensorData, Value};
pub use write::{Written, write_element};

pub(crate) use random::Seeds;
