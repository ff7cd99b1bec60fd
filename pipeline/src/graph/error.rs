//! The errors of dataset definitions. The party to blame is always the caller, which is the program that
//! wrote or sent the graph.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

/// An error of a graph that cannot be constructed or decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// The graph has no nodes.
    #[error("the dataset graph has no operations")]
    Empty,
    /// The graph exceeds a limit.
    #[error("the dataset graph exceeds its limit on {what}, which is {limit}")]
    TooLarge {
        /// The quantity that exceeds the limit.
        what: &'static str,
        /// The largest allowed quantity.
        limit: usize,
    },
    /// An operation that this version does not know.
    #[error("the dataset graph uses an unknown operation {op:?} (node {node}); a newer version may have it")]
    UnknownOp {
        /// The name of the operation on the wire.
        op: String,
        /// The index of the node.
        node: usize,
    },
    /// A node that breaks a rule.
    #[error("operation {op:?} (node {node}) {reason}")]
    Invalid {
        /// The index of the node.
        node: usize,
        /// The name of the operation.
        op: &'static str,
        /// The rule that is broken, and how.
        reason: String,
    },
    /// A split size outside of the allowed range.
    #[error(
        "invalid split size of {positions} positions, expected 1 to {}",
        super::units::SPLIT_SIZE_MAX
    )]
    SplitSize {
        /// The requested number of positions.
        positions: u64,
    },
    /// Bytes that are not the encoding of a graph.
    #[error("the bytes are not a dataset graph: {0}")]
    Malformed(String),
}

/// An error of a graph that cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnalysisError {
    /// A name that is not registered.
    #[error("unknown {kind} {name:?}; registered here: {}", list(.known))]
    Unknown {
        /// The kind of the name: "function", "predicate", "source" and so on.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// An operation whose input has a spec that the operation cannot take.
    #[error("operation {op:?} cannot read its input: {reason}")]
    Mismatch {
        /// The name of the operation or function.
        op: String,
        /// The spec that the operation expects, and the spec of its input.
        reason: String,
    },
    /// An operation whose elements would exceed the limits of an element's structure or shapes.
    #[error("operation {op:?} would yield an element that is not allowed: {reason}")]
    Spec {
        /// The name of the operation or function.
        op: String,
        /// The limit that is exceeded.
        reason: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
