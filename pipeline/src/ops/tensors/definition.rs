//! The definition of `tensors`, which yields one constant element in the graph.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::params::SpecField;
use crate::graph::registry::Registry;
use crate::graph::tree::Graph;
use crate::graph::tree::{Given, Operation};
use crate::graph::units::Splitting;
use std::ops::RangeInclusive;

/// The parameters of `tensors`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Tensors {
    /// The element to yield.
    #[n(0)]
    pub constant: Constant,
}

impl Operation for Tensors {
    fn name(&self) -> &'static str {
        "tensors"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        let constant = self.constant.without_texts();
        encoded(&Tensors { constant }).map(Some)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.constant.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let checked = self.constant.check().map(|()| self.constant.spec.0.clone());
        checked.map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(Cardinality::Finite(1))
    }

    fn splitting(&self, graph: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(Splitting::Counted(graph.units(1)))
    }
}

impl Dataset {
    /// Yields one element that consists of `tensors`, which `spec` describes. A sparse or ragged tensor
    /// can enter a dataset in this way.
    ///
    /// Works like `tf.data.Dataset.from_tensors`. [`Dataset::graph`] refuses bytes that do not match
    /// `spec`.
    pub fn tensors(spec: ElementSpec, tensors: Vec<ConstantTensor>) -> Dataset {
        Dataset::source(Tensors {
            constant: Constant {
                spec: SpecField(spec),
                tensors,
            },
        })
    }
}
