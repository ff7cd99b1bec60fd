//! The definition of `ragged_batch`, which combines consecutive elements into ragged tensors.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::batched;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `ragged_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct RaggedBatch {
    /// The number of elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether to drop a last batch that has fewer elements.
    #[n(1)]
    pub drop_remainder: bool,
}

impl Operation for RaggedBatch {
    fn name(&self) -> &'static str {
        "ragged_batch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("batch size", self.size)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        ragged_spec(*self, given.input()?).map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(batched(given.count()?, self.size, self.drop_remainder))
    }

    fn is_alike_on_splits(&self, count: Option<u64>) -> bool {
        count.is_some_and(|count| count.is_multiple_of(self.size))
    }

    fn drops_remainder(&self) -> bool {
        self.drop_remainder
    }

    fn batch_size(&self) -> Option<u64> {
        Some(self.size)
    }
}

/// Returns the spec of `ragged_batch` over elements of the spec `input`.
pub(crate) fn ragged_spec(batch: RaggedBatch, input: &ElementSpec) -> Result<ElementSpec, String> {
    let size = batch.drop_remainder.then_some(batch.size);
    // The call to `batched` also refuses composite tensors and ranks that are too high.
    let dense = input.batched(size).map_err(|error| error.to_string())?;
    let mut components = Vec::new();
    let mut ranks = Vec::new();
    for (component, dense) in input.components().iter().zip(dense.components()) {
        let rank = ragged_rank(component)?;
        ranks.push(rank);
        if rank == 0 {
            components.push(dense.clone());
            continue;
        }
        let dims = component.dims().unwrap_or_default();
        let inner = dims.get(usize::from(rank)..).unwrap_or_default();
        let values: Vec<Option<u64>> = std::iter::once(None).chain(inner.iter().copied()).collect();
        components.push(TensorSpec::with_dims(component.dtype(), &values));
        components.push(TensorSpec::with_dims(Dtype::I64, &[size.map(|size| size + 1)]));
        components.extend((1..rank).map(|_| TensorSpec::with_dims(Dtype::I64, &[None])));
    }
    let structure = with_ragged(input.structure(), &mut ranks.iter().copied());
    ElementSpec::new(structure, components).map_err(|error| error.to_string())
}

/// Returns the number of ragged dimensions in a batch of tensors with the spec `component`. The
/// dimensions up to the last unknown one are ragged, so a known shape has 0.
pub(crate) fn ragged_rank(component: &TensorSpec) -> Result<u8, String> {
    let dims = component
        .dims()
        .ok_or_else(|| format!("cannot make a ragged tensor from {component}, whose rank is unknown"))?;
    let last = dims.iter().rposition(Option::is_none);
    // A tensor has at most 16 dimensions, so the rank fits.
    Ok(last.map_or(0, |last| last as u8 + 1))
}

/// Returns `structure` with its leaves replaced by ragged tensors of the given ranks.
fn with_ragged(structure: &Structure, ranks: &mut impl Iterator<Item = u8>) -> Structure {
    match structure {
        Structure::Leaf => match ranks.next() {
            None | Some(0) => Structure::Leaf,
            Some(ragged_rank) => Structure::Ragged { ragged_rank },
        },
        Structure::Tuple(items) => {
            Structure::Tuple(items.iter().map(|item| with_ragged(item, ranks)).collect())
        }
        Structure::List(items) => {
            Structure::List(items.iter().map(|item| with_ragged(item, ranks)).collect())
        }
        Structure::Dict(entries) => {
            let entries = entries.iter();
            let ragged = entries.map(|(name, item)| (name.clone(), with_ragged(item, ranks)));
            Structure::Dict(ragged.collect())
        }
        Structure::Ragged { .. } | Structure::Sparse | Structure::None => structure.clone(),
    }
}

impl Dataset {
    /// Combines every `size` consecutive elements. Stacks tensors of known shapes along a new leading
    /// dimension, and turns other tensors into ragged tensors with `i64` row splits. The dimensions up
    /// to the last unknown one become ragged.
    ///
    /// Works like `tf.data.Dataset.ragged_batch`.
    pub fn ragged_batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.then(RaggedBatch { size, drop_remainder })
    }
}
