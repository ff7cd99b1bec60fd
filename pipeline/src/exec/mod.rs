//! A graph being executed: a tree of pull iterators, one per operation, from the sources to elements written
//! into their slots.
//!
//! - [`Executor`] opens a graph in an [`ExecContext`] and hands out elements, or writes them into packs;
//! - [`Value`]s and [`Tensor`]s are what travels between operations; an [`Item`] adds where it comes from;
//! - [`Functions`] holds what is registered by name; [`Source`] is what sources outside this crate implement;
//! - [`SplitSource`] deals out splits, and [`FinishedSplit`]s say exactly which elements complete one;
//! - [`Pool`], [`Budget`] and [`Cancel`] bound threads, memory and time;
//! - [`Stats`] tell what each stage costs, and which of them holds the others up.

mod budget;
mod build;
mod caches;
mod call;
mod cancel;
mod chain;
mod context;
mod cursor;
mod error;
mod executor;
mod expected;
mod expr;
mod faults;
mod folds;
mod format;
mod functions;
mod identity;
#[cfg(feature = "images")]
mod image;
mod item;
mod iterate;
mod keeps;
mod measure;
mod measuring;
mod native;
mod ops;
mod order;
mod permutation;
mod pool;
mod program;
mod random;
#[cfg(feature = "saved")]
mod saved;
mod settings;
mod site;
mod skipped;
mod slices;
mod source;
mod splits;
mod spread;
mod state;
mod statistics;
mod steps;
mod strings;
mod token;
mod tune;
mod value;
mod write;

pub use budget::{BUDGET_BYTES_DEFAULT, Budget, Charge, SharedBudget};
pub use caches::Caches;
pub use cancel::{Cancel, CancelHook};
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
pub use measure::{Bottleneck, StageStats, Stats};
pub use pool::Pool;
pub use program::OpenError;
#[cfg(feature = "saved")]
pub use saved::{SaveError, save, saved_spec};
pub use site::Site;
pub use skipped::{FailureCounts, Failures};
pub use source::Source;
pub use splits::{Split, SplitError, SplitSource};
pub use state::{STATE_BYTES_MAX, StateError, StateReader, StateWriter};
pub use statistics::{Measured, Quantiles, Statistics};
pub use strings::Strings;
pub use token::{FinishedSplit, Ledger, Mark, Marks, SplitToken};
pub use value::{Dims, Fill, Inline, Tensor, TensorData, Value};
pub use write::{Written, write_element};

pub(crate) use random::Seeds;
