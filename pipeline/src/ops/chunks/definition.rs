//! The definition of `chunks`, which yields the paths of the chunks of a saved dataset.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::RangeInclusive;

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::check::check_name;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::registry::Registry;
use crate::graph::tree::{Given, Graph, Operation};
use crate::graph::units::Splitting;

/// The parameters of `chunks`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Chunks {
    /// The directory of the saved dataset.
    #[n(0)]
    pub path: String,
    /// The number of chunks; `None` if the number is unknown until the dataset is saved.
    #[n(1)]
    pub count: Option<u64>,
    /// The limit of the wait for the next chunk, in milliseconds. `None` does not wait, because all chunks
    /// are saved.
    #[n(2)]
    pub wait_ms: Option<u64>,
}

impl Operation for Chunks {
    fn name(&self) -> &'static str {
        "chunks"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        // The chunks are the same wherever they are saved.
        let (path, wait_ms) = (String::new(), None);
        encoded(&Chunks {
            path,
            wait_ms,
            ..*self
        })
        .map(Some)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_name("path", &self.path)?;
        if self.count.is_none() && self.wait_ms.is_none() {
            return Err("the number of chunks is missing: a saved dataset has a known number".to_owned());
        }
        Ok(())
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.scalar(Dtype::String)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(self.count.map_or(Cardinality::Unknown, Cardinality::Finite))
    }

    fn splitting(&self, graph: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(match self.count {
            Some(count) => Splitting::Counted(graph.units(count)),
            None => Splitting::Whole(
                "is being saved, and its number of chunks is unknown until the save ends: load it after the save, or \
                 read it without splits"
                    .to_owned(),
            ),
        })
    }
}

impl Dataset {
    /// Yields the paths of the `count` chunks of a saved dataset in order, as string scalars.
    /// [`Dataset::elements`] turns the paths into elements.
    ///
    /// With `wait_ms`, the dataset may still be in the process of being saved. Each chunk is then awaited for
    /// this time at most, and the number of chunks may be unknown.
    ///
    /// Works like the reader of `tf.data.Dataset.load` for a dataset of `distributed_save`.
    pub fn chunks(path: impl Into<String>, count: Option<u64>, wait_ms: Option<u64>) -> Dataset {
        let path = path.into();
        Dataset::source(Chunks { path, count, wait_ms })
    }
}
