//! How calls of a function are spread over threads, and how datasets take turns.
//!
//! Owns parameters that several operations have. Refuses to know what is called.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// How the calls of a map are spread over the pool, and the datasets of an `interleave` over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Schedule {
    /// How many calls run, or datasets are read, at once: 1 = in the thread that pulls, 0 =
    /// [`AUTO`](crate::graph::AUTO).
    #[n(0)]
    pub parallel: u32,
    /// Whether results keep the order that they would have with `parallel` 1; absent = as the dataset's
    /// [`Options`](crate::graph::Options) say.
    #[n(1)]
    pub ordered: Option<bool>,
}

impl Schedule {
    /// Returns whether results keep their order in a dataset whose options say `deterministic`.
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

/// How `interleave` takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cycle {
    /// How many datasets are open at once, at least 1.
    #[n(0)]
    pub length: u64,
    /// How many consecutive elements each yields before it is the next one's turn, at least 1.
    #[n(1)]
    pub block: u64,
    /// How many of them are read ahead at once, each by a thread of its own.
    #[n(2)]
    pub schedule: Schedule,
}
