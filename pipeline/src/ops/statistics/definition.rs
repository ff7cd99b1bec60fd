//! The definition of `statistics`, which measures the elements that pass through.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;

/// The parameters of `statistics`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Statistics {
    /// The name of the measurements. Operations with the same name share their measurements.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("name", &self.name)
    }

    fn ignores_order(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Measures the elements that pass through this place, under the name `name`: their number, their
    /// bytes, and the waiting time for each element. `Executor::statistics` returns the measurements.
    ///
    /// Corresponds to `tf.data.experimental.StatsAggregator` and its operations. Times are in
    /// nanoseconds, sizes in bytes.
    pub fn statistics(self, name: impl Into<String>) -> Dataset {
        self.then(Statistics { name: name.into() })
    }
}
