//! Tensors embedded in a graph, the data of `tensors` and `tensor_slices`: checked when they are made and
//! when they are read back.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};

use super::params::SpecField;

/// A few tensors with a structure, embedded in a graph.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Constant {
    /// Structure and shapes: every component static; to be sliced, with the same leading dimension.
    #[n(0)]
    pub spec: SpecField,
    /// One per component of the spec.
    #[n(1)]
    pub tensors: Vec<ConstantTensor>,
}

/// The data of one embedded tensor.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ConstantTensor {
    /// Items of a fixed size, little-endian, in row-major order.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub fixed: Vec<u8>,
    /// Items of variable length, in row-major order.
    #[n(1)]
    pub items: Vec<minicbor::bytes::ByteVec>,
}

impl ConstantTensor {
    /// A tensor of fixed-size items from their little-endian bytes.
    pub fn fixed(bytes: impl Into<Vec<u8>>) -> ConstantTensor {
        ConstantTensor {
            fixed: bytes.into(),
            items: Vec::new(),
        }
    }

    /// A tensor of strings or byte strings.
    pub fn items<T: Into<Vec<u8>>>(items: impl IntoIterator<Item = T>) -> ConstantTensor {
        let items = items.into_iter().map(|item| item.into().into()).collect();
        ConstantTensor {
            fixed: Vec::new(),
            items,
        }
    }
}

impl Constant {
    /// Makes a constant of these tensors, which `spec` describes.
    pub fn new(spec: ElementSpec, tensors: Vec<ConstantTensor>) -> Constant {
        let spec = SpecField(spec);
        Constant { spec, tensors }
    }

    /// Holds the data against the spec.
    ///
    /// # Errors
    /// The reason, as text, when they do not describe the same tensors, or there are none.
    pub fn check(&self) -> Result<(), String> {
        self.dims().map(|_| ())
    }

    /// Returns how many slices there are: the leading dimension all components share.
    ///
    /// # Errors
    /// The reason, as text, when the data and the spec do not describe such tensors.
    pub fn slices(&self) -> Result<u64, String> {
        let mut slices = None;
        for (index, dims) in self.dims()?.iter().enumerate() {
            let leading = *dims
                .first()
                .ok_or_else(|| format!("component {index} is a scalar, which has no slices"))?;
            match slices {
                None => slices = Some(leading),
                Some(first) if first == leading => {}
                Some(first) => {
                    return Err(format!(
                        "component {index} has {leading} slices, component 0 has {first}"
                    ));
                }
            }
        }
        slices.ok_or_else(|| "no components".to_owned())
    }

    /// The spec of one slice: every component without its leading dimension.
    ///
    /// # Errors
    /// As [`Constant::slices`].
    pub fn slice_spec(&self) -> Result<ElementSpec, String> {
        self.slices()?;
        super::spec::without_leading(&self.spec.0)
    }

    /// The dimensions of every tensor, having checked that it has that size.
    fn dims(&self) -> Result<Vec<Vec<u64>>, String> {
        let components = self.spec.0.components();
        if components.is_empty() || components.len() != self.tensors.len() {
            return Err(format!(
                "{} tensors for {} components",
                self.tensors.len(),
                components.len()
            ));
        }
        let pairs = components.iter().zip(&self.tensors).enumerate();
        pairs
            .map(|(index, (spec, tensor))| {
                let dims =
                    static_dims(spec).ok_or_else(|| format!("component {index} has unknown dimensions"))?;
                check_size(spec.dtype(), &dims, tensor)
                    .map_err(|reason| format!("component {index}: {reason}"))?;
                Ok(dims)
            })
            .collect()
    }
}

/// The dimensions, when all are known.
fn static_dims(spec: &TensorSpec) -> Option<Vec<u64>> {
    spec.dims()?.iter().copied().collect()
}

fn check_size(dtype: Dtype, dims: &[u64], tensor: &ConstantTensor) -> Result<(), String> {
    let items = dims
        .iter()
        .try_fold(1u64, |product, dim| product.checked_mul(*dim))
        .ok_or_else(|| "the product of its dimensions is too large".to_owned())?;
    match dtype.item_bytes() {
        Some(item_bytes) => {
            let expected = items.checked_mul(item_bytes as u64);
            if expected != Some(tensor.fixed.len() as u64) || !tensor.items.is_empty() {
                return Err(format!(
                    "{} bytes for {items} items of {dtype}",
                    tensor.fixed.len()
                ));
            }
        }
        None => {
            if items != tensor.items.len() as u64 || !tensor.fixed.is_empty() {
                return Err(format!("{} strings for {items} items", tensor.items.len()));
            }
        }
    }
    Ok(())
}
