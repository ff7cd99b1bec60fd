//! What a rule wants of the operation it looked at.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::tree::Op;

/// What a rule wants of the operation it looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// Whoever reads it reads what it reads.
    Remove,
    /// It takes the place of the operation that it reads as well.
    Merge(Op),
    /// This takes the place of the operation that it reads.
    Below(Op),
    /// It and the operation that it reads change places.
    Swap,
}
