//! The definition of `service`, which yields the elements of another service.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::declared;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::params::{Params, SpecField};
use crate::graph::registry::Registry;
use crate::graph::tree::Graph;
use crate::graph::tree::{Given, Operation};
use crate::graph::units::Splitting;
use crate::graph::units::WITHOUT_SPLITS;
use std::ops::RangeInclusive;

/// The parameters of `service`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct ServiceReader {
    /// The parameters for the factory that opens the reader.
    #[n(0)]
    pub params: Params,
    /// The spec of the service's elements.
    #[n(1)]
    pub spec: SpecField,
    /// The number of elements. `None` means that the number of elements is unknown.
    #[n(2)]
    pub count: Option<u64>,
    /// Whether the service never ends.
    #[n(3)]
    pub infinite: bool,
    /// Whether the reader can continue at a saved position: see
    /// [`Source::position`](crate::exec::Source::position).
    #[cbor(n(4), default)]
    pub resumable: bool,
}

impl Operation for ServiceReader {
    fn name(&self) -> &'static str {
        "service"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn spec(&self, _: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        Ok(self.spec.0.clone())
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(declared(self.count, self.infinite))
    }

    fn splitting(&self, _: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(Splitting::Whole(format!(
            "reads another service, which distributes splits itself: distribute the dataset of that service, or \
             {WITHOUT_SPLITS}"
        )))
    }
}

impl Dataset {
    /// Yields the elements of another service. The program that executes the graph provides a factory,
    /// which opens the reader with `reader.params`.
    ///
    /// Works like `tf.data.experimental.service.from_dataset_id`.
    pub fn from_service(reader: ServiceReader) -> Dataset {
        Dataset::source(reader)
    }
}
