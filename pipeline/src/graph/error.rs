//! The errors of definitions. The caller is to blame for all of them: the program that wrote or sent the
//! graph.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

/// A graph that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// No nodes.
    #[error("the dataset graph has no operations")]
    Empty,
    /// A limit is exceeded.
    #[error("the dataset graph exceeds its limit on {what}, which is {limit}")]
    TooLarge {
        /// The name of the thing of which there is too much.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An operation this version does not have.
    #[error("the dataset graph uses an unknown operation {op:?} (node {node}); a newer version may have it")]
    UnknownOp {
        /// The operation's name on the wire.
        op: String,
        /// The index.
        node: usize,
    },
    /// A node breaks a rule.
    #[error("operation {op:?} (node {node}) {reason}")]
    Invalid {
        /// The index.
        node: usize,
        /// The operation.
        op: &'static str,
        /// The rule and how it is broken.
        reason: String,
    },
    /// No split has so many positions.
    #[error(
        "splits of {positions} positions were asked for: a split has 1 to {}",
        super::units::SPLIT_SIZE_MAX
    )]
    SplitSize {
        /// The number of positions that was asked for.
        positions: u64,
    },
    /// The bytes are not the encoding of a graph.
    #[error("the bytes are not a dataset graph: {0}")]
    Malformed(String),
}

/// Why a graph cannot be analysed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnalysisError {
    /// A name nobody registered.
    #[error("unknown {kind} {name:?}; registered here: {}", list(.known))]
    Unknown {
        /// "function", "predicate", "source", …
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An operation cannot take what its input yields.
    #[error("operation {op:?} cannot read its input: {reason}")]
    Mismatch {
        /// The operation or function.
        op: String,
        /// The form that it wants, and the form that it gets.
        reason: String,
    },
    /// The structure or the shapes exceed what an element may be.
    #[error("operation {op:?} would yield an element that is not allowed: {reason}")]
    Spec {
        /// The operation or function.
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
