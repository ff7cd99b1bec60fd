//! The schedules by which calls run on threads, and the cycles by which datasets are read in turn.
//!
//! Owns parameters that several operations have. Refuses to know the functions that are called.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// The way in which the calls of a map run on the pool, or the datasets of an `interleave` on threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Schedule {
    /// The number of calls that run in parallel, or of datasets that are read in parallel. 1 means the thread
    /// that pulls, 0 means [`AUTO`](crate::graph::AUTO).
    #[n(0)]
    pub parallel: u32,
    /// The order of results: with `true` they keep the order that they have with `parallel` 1. `None` uses
    /// the dataset's [`Options`](crate::graph::Options).
    #[n(1)]
    pub ordered: Option<bool>,
}

impl Schedule {
    /// Returns whether results keep their order in a dataset with the option `deterministic`.
    pub fn is_ordered(&self, deterministic: bool) -> bool {
        self.parallel == 1 || self.ordered.unwrap_or(deterministic)
    }
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            parallel: 1,
            ordered: None,
        }
    }
}

/// The way in which `interleave` reads its datasets in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cycle {
    /// The number of datasets that are open at the same time, at least 1.
    #[n(0)]
    pub length: u64,
    /// The number of consecutive elements that `interleave` takes from one dataset before it turns to the
    /// next dataset; at least 1.
    #[n(1)]
    pub block: u64,
    /// The number of datasets that are prefetched in parallel, each in its own thread.
    #[n(2)]
    pub schedule: Schedule,
}
