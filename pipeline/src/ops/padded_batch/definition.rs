//! The definition of `padded_batch`: consecutive elements padded to one shape and stacked.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, TensorSpec};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::batched;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::padded::{own_shapes, stacked};
use crate::graph::tree::{Given, Operation};

/// Parameters of `padded_batch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct PaddedBatch {
    /// Elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether a last batch of fewer elements is dropped.
    #[n(1)]
    pub drop_remainder: bool,
    /// The shape that each component is padded to, one a component: where a dimension is absent, to the
    /// longest in the batch. Empty = the shapes that the elements have, unknown dimensions padded.
    #[n(2)]
    pub shapes: Vec<Vec<Option<u64>>>,
    /// The padding of each component: the little-endian bytes of an item. Empty = zeros and empty strings.
    #[n(3)]
    #[serde(deserialize_with = "byte_vectors")]
    pub values: Vec<ByteVec>,
}

fn byte_vectors<'de, D: Deserializer<'de>>(values: D) -> Result<Vec<ByteVec>, D::Error> {
    let values = Vec::<Vec<u8>>::deserialize(values)?;
    Ok(values.into_iter().map(Into::into).collect())
}

impl Operation for PaddedBatch {
    fn name(&self) -> &'static str {
        "padded_batch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("batch size", self.size)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        padded_spec(self, given.input()?).map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(batched(given.count()?, self.size, self.drop_remainder))
    }

    fn batch_size(&self) -> Option<u64> {
        Some(self.size)
    }
}

/// Returns the spec of `padded_batch` over elements of `input`.
pub(crate) fn padded_spec(batch: &PaddedBatch, input: &ElementSpec) -> Result<ElementSpec, String> {
    let shapes = padded_shapes(batch, input)?;
    for (index, value) in batch.values.iter().enumerate() {
        let item = input.components().get(index).map(TensorSpec::dtype);
        let fits = item.is_some_and(|dtype| dtype.item_bytes().is_none_or(|bytes| bytes == value.len()));
        if !fits || batch.values.len() != input.components().len() {
            return Err(format!(
                "its padding values are to be one item of each component of {input}"
            ));
        }
    }
    stacked(input, &shapes, batch.drop_remainder.then_some(batch.size))
}

/// The shape that each component is padded to.
pub(crate) fn padded_shapes(
    batch: &PaddedBatch,
    input: &ElementSpec,
) -> Result<Vec<Vec<Option<u64>>>, String> {
    if batch.shapes.is_empty() {
        return own_shapes(input);
    }
    if batch.shapes.len() != input.components().len() {
        return Err(format!(
            "it pads {} components to a shape, and is given {input}",
            batch.shapes.len()
        ));
    }
    for (shape, component) in batch.shapes.iter().zip(input.components()) {
        let Some(dims) = component.dims() else { continue };
        let is_longer =
            |(dim, to): (&Option<u64>, &Option<u64>)| matches!((dim, to), (Some(dim), Some(to)) if dim > to);
        if dims.len() != shape.len() || dims.iter().zip(shape).any(is_longer) {
            return Err(format!(
                "it cannot pad {component} to {}",
                TensorSpec::with_dims(component.dtype(), shape)
            ));
        }
    }
    Ok(batch.shapes.clone())
}

impl Dataset {
    /// `size` consecutive elements stacked along a new leading dimension. Tensors with unknown dimensions are
    /// padded with zeros, strings with empty ones, to the longest in the batch.
    ///
    /// Works as `tf.data.Dataset.padded_batch`. Elements of another rank are an error of that batch.
    pub fn padded_batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.padded_batch_with(PaddedBatch {
            size,
            drop_remainder,
            shapes: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Pads and stacks as `batch` says. A tensor that is longer than it is to be padded to is an error.
    pub fn padded_batch_with(self, batch: PaddedBatch) -> Dataset {
        self.then(batch)
    }
}
