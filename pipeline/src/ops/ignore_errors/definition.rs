//! The definition of `ignore_errors`: the elements between those that fail.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// Parameters of `ignore_errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct IgnoreErrors {
    /// Whether each error is logged as a warning, without flooding.
    #[n(0)]
    pub log_warning: bool,
}

impl Operation for IgnoreErrors {
    fn name(&self) -> &'static str {
        "ignore_errors"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn ignores_order(&self) -> bool {
        true
    }

    fn ignores_errors(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Leaves out elements that fail: that a function refuses, that are corrupt or do not batch, and of a
    /// broken file what follows the damage. They are counted (`Executor::skipped`), and logged if
    /// `log_warning`.
    ///
    /// Not ignored is what is no fault of one element: a resource that runs out, a source that cannot go on,
    /// a task that is cancelled.
    ///
    /// Works as `tf.data.Dataset.ignore_errors`.
    pub fn ignore_errors(self, log_warning: bool) -> Dataset {
        self.then(IgnoreErrors { log_warning })
    }
}
