//! The definition of `options`: how everything below is executed.
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
    /// Says how everything up to here is executed, wherever it is. What later options say replaces it.
    pub fn with_options(self, options: Options) -> Dataset {
        self.then(options)
    }

    /// Says what becomes of elements that the operations up to here fail at, where nothing further up says
    /// it: see [`ErrorPolicy`].
    pub fn on_error(self, policy: ErrorPolicy) -> Dataset {
        self.with_options(Options {
            on_error: Some(policy),
            ..Options::default()
        })
    }
}
