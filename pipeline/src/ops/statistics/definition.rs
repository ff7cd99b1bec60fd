//! The definition of `statistics`: measurements of the elements that pass.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;

/// Parameters of `statistics`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Statistics {
    /// The name of the measurements; operations of one name are measured together.
    #[n(0)]
    pub name: String,
}

impl Operation for Statistics {
    fn name(&self) -> &'static str {
        "statistics"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("name", &self.name)
    }

    fn ignores_order(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Measures what passes here under `name`: elements, bytes, and how long each was waited for
    /// (`Executor::statistics`).
    ///
    /// The counterpart of `tf.data.experimental.StatsAggregator` and its operations: times are in
    /// nanoseconds, sizes in bytes.
    pub fn statistics(self, name: impl Into<String>) -> Dataset {
        self.then(Statistics { name: name.into() })
    }
}
