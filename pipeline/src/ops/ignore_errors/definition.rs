//! The definition of `ignore_errors`, which skips elements that fail.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `ignore_errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct IgnoreErrors {
    /// Whether to log errors as warnings, at a limited rate.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        // The parameter only decides whether the log has a line for each error.
        Ok(Some(Vec::new()))
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
    /// Skips elements that fail. For example, a function refuses an element, an element is corrupt, or
    /// rows of different shapes do not stack. In a damaged file, skips all elements after the damage.
    /// `Executor::skipped` counts skipped elements, and `log_warning` logs their errors.
    ///
    /// Does not ignore errors that no single element causes: an exhausted resource, a source that
    /// cannot continue, or the cancellation of the task.
    ///
    /// Works like `tf.data.Dataset.ignore_errors`.
    pub fn ignore_errors(self, log_warning: bool) -> Dataset {
        self.then(IgnoreErrors { log_warning })
    }
}
