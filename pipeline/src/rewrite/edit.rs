//! The change that a rule wants of the operation it looked at.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::tree::Op;

/// The change that a rule wants of the operation it looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// Removes the operation: its reader reads its input.
    Remove,
    /// Replaces the operation and the one that it reads by one.
    Merge(Op),
    /// This takes the place of the operation that it reads.
    Below(Op),
    /// Swaps the operation with the one that it reads.
    Swap,
}
