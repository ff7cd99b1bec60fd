//! Defines the ways in which a task's elements are divided among its clients. The module `division` does the
//! division.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::num::NonZeroU32;

/// The way in which a task's elements are divided among its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskMode {
    /// Each element goes to one client, to the first that asks.
    #[default]
    FirstCome,
    /// The task is read in coordination: element `k` goes to consumer `k mod consumers` (D7.1).
    Coordinated {
        /// The number of consumers.
        consumers: NonZeroU32,
    },
    /// The task is read through the cross-trainer cache: each element goes to every trainer that reads in
    /// time (D8).
    Cached,
}

impl TaskMode {
    /// Returns the number of packs that are filled at the same time, with one element each in turn.
    pub(super) fn lanes(self) -> usize {
        match self {
            Self::FirstCome | Self::Cached => 1,
            Self::Coordinated { consumers } => consumers.get() as usize,
        }
    }
}
