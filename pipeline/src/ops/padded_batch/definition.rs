//! The definition of `padded_batch`, which pads consecutive elements to one shape and stacks them.
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

/// The parameters of `padded_batch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct PaddedBatch {
    /// The number of elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether to drop a last batch that has fewer elements.
    #[n(1)]
    pub drop_remainder: bool,
    /// The target shape of each component. A dimension of `None` is padded to the longest element of
    /// the batch. An empty list pads the unknown dimensions of every component.
    #[n(2)]
    pub shapes: Vec<Vec<Option<u64>>>,
    /// The padding value of each component, as the little-endian bytes of one item. An empty list pads
    /// with zeros and empty strings.
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

/// Returns the spec of `padded_batch` over elements of the spec `input`.
pub(crate) fn padded_spec(batch: &PaddedBatch, input: &ElementSpec) -> Result<ElementSpec, String> {
    let shapes = padded_shapes(batch, input)?;
    for (index, value) in batch.values.iter().enumerate() {
        let item = input.components().get(index).map(TensorSpec::dtype);
        let fits = item.is_some_and(|dtype| dtype.item_bytes().is_none_or(|bytes| bytes == value.len()));
        if !fits || batch.values.len() != input.components().len() {
            return Err(format!(
                "expected one padding value of the right size for each component of {input}"
            ));
        }
    }
    stacked(input, &shapes, batch.drop_remainder.then_some(batch.size))
}

/// Returns the target shape of each component.
pub(crate) fn padded_shapes(
    batch: &PaddedBatch,
    input: &ElementSpec,
) -> Result<Vec<Vec<Option<u64>>>, String> {
    if batch.shapes.is_empty() {
        return own_shapes(input);
    }
    if batch.shapes.len() != input.components().len() {
        return Err(format!(
            "expected one target shape per component of {input}, found {} shapes",
            batch.shapes.len()
        ));
    }
    for (shape, component) in batch.shapes.iter().zip(input.components()) {
        let Some(dims) = component.dims() else { continue };
        let is_longer =
            |(dim, to): (&Option<u64>, &Option<u64>)| matches!((dim, to), (Some(dim), Some(to)) if dim > to);
        if dims.len() != shape.len() || dims.iter().zip(shape).any(is_longer) {
            return Err(format!(
                "cannot pad {component} to {}",
                TensorSpec::with_dims(component.dtype(), shape)
            ));
        }
    }
    Ok(batch.shapes.clone())
}

impl Dataset {
    /// Stacks every `size` consecutive elements along a new leading dimension. Pads unknown dimensions
    /// to the longest element of the batch, with zeros or empty strings.
    ///
    /// Works like `tf.data.Dataset.padded_batch`. If an element has another rank, its batch fails.
    pub fn padded_batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.padded_batch_with(PaddedBatch {
            size,
            drop_remainder,
            shapes: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Pads and stacks elements according to `batch`. A tensor that is longer than its target shape is
    /// an error.
    pub fn padded_batch_with(self, batch: PaddedBatch) -> Dataset {
        self.then(batch)
    }
}
