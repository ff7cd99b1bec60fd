//! The change that a rewrite rule requests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::tree::Op;

/// The change that a rule requests for the operation and its input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// Removes the operation, so that its user reads its input.
    Remove,
    /// Replaces the operation and its input by one new operation.
    Merge(Op),
    /// Replaces the input of the operation by another operation.
    Below(Op),
    /// Swaps the operation with its input.
    Swap,
}
