//! The definition of `tensor_slices`, which yields the slices of constant tensors in the graph.
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

/// The parameters of `tensor_slices`.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct TensorSlices {
    /// The tensors to slice along their leading dimension, which has the same size in all tensors.
    #[n(0)]
    pub constant: Constant,
}

impl Operation for TensorSlices {
    fn name(&self) -> &'static str {
        "tensor_slices"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        let constant = self.constant.without_texts();
        encoded(&TensorSlices { constant }).map(Some)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.constant.slices().map(|_| ())
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        self.constant
            .slice_spec()
            .map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let slices = self.constant.slices();
        Ok(slices.map_or(Cardinality::Unknown, Cardinality::Finite))
    }

    fn splitting(&self, graph: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(match self.constant.slices() {
            Ok(count) => Splitting::Counted(graph.units(count)),
            Err(reason) => Splitting::Whole(reason),
        })
    }
}

impl Dataset {
    /// Yields the slices of constant tensors along their common leading dimension. `spec` describes the
    /// whole tensors.
    ///
    /// Works like `tf.data.Dataset.from_tensor_slices`: slices lack the leading
    /// dimension. [`Dataset::graph`] refuses tensors without a leading dimension, and tensors whose
    /// leading dimensions differ.
    pub fn tensor_slices(spec: ElementSpec, tensors: Vec<ConstantTensor>) -> Dataset {
        Dataset::source(TensorSlices {
            constant: Constant {
                spec: SpecField(spec),
                tensors,
            },
        })
    }
}
