//! The definition of `options`, which configures how the operations below it are executed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::error_policy::ErrorPolicy;
use crate::graph::options::Options;
use crate::graph::tree::{Given, Operation};

impl Operation for Options {
    fn name(&self) -> &'static str {
        "options"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }

    fn options(&self) -> Option<&Options> {
        Some(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.check_settings()
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        if self.on_error.is_some_and(|policy| policy.skips) {
            given.count().map(thinned)
        } else {
            given.count()
        }
    }

    fn ignores_order(&self) -> bool {
        true
    }

    fn yields_its_input(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Configures how all operations of this dataset are executed, on any machine. Options that are
    /// added later take precedence.
    pub fn with_options(self, options: Options) -> Dataset {
        self.then(options)
    }

    /// Sets the policy for elements that fail in the operations of this dataset; see [`ErrorPolicy`]. A
    /// policy that is added later takes precedence.
    pub fn on_error(self, policy: ErrorPolicy) -> Dataset {
        self.with_options(Options {
            on_error: Some(policy),
            ..Options::default()
        })
    }
}
