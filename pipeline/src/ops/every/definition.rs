//! The definition of `every`: one element of each group of neighbours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::num::NonZeroU64;

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::batched;
use crate::graph::codec::encoded;
use crate::graph::{AnalysisError, Cardinality, Given, GraphError, Operation};

/// Parameters of `every`.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub(crate) struct Every {
    /// Elements of a group, of which the first is yielded.
    #[n(0)]
    pub(crate) step: NonZeroU64,
}

impl Operation for Every {
    fn name(&self) -> &'static str {
        "every"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(batched(given.count()?, self.step.get(), false))
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("counts elements of each task")
    }
}
