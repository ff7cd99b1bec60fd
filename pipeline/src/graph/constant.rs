//! Tensors embedded in a graph, which are the data of `tensors` and `tensor_slices`. Tensors are checked when
//! the graph is made and when it is decoded.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};

use super::params::SpecField;

/// A few tensors with a structure, embedded in a graph.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Constant {
    /// The structure and shapes: every dimension is known. If the constant is to be sliced, all components
    /// have the same leading dimension.
    #[n(0)]
    pub spec: SpecField,
    /// The data of the tensors, one for each component of the spec.
    #[n(1)]
    pub tensors: Vec<ConstantTensor>,
}

/// The data of one embedded tensor.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ConstantTensor {
    /// The items of a dtype of fixed size, little-endian, in row-major order.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub fixed: Vec<u8>,
    /// The items of a dtype of variable length, in row-major order.
    #[n(1)]
    pub items: Vec<minicbor::bytes::ByteVec>,
}

impl Constant {
    /// Returns the constant without the contents of its strings, which are often paths.
    pub(crate) fn without_texts(&self) -> Constant {
        let mut constant = self.clone();
        for item in constant.tensors.iter_mut().flat_map(|tensor| &mut tensor.items) {
            *item = Vec::new().into();
        }
        constant
    }
}

impl ConstantTensor {
    /// Makes a tensor of fixed-size items from their little-endian bytes.
    pub fn fixed(bytes: impl Into<Vec<u8>>) -> ConstantTensor {
        ConstantTensor {
            fixed: bytes.into(),
            items: Vec::new(),
        }
    }

    /// Makes a tensor of strings or byte strings.
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

    /// Checks that the data matches the spec.
    ///
    /// # Errors
    /// The reason, as text, if the data and the spec do not match, or if the constant has no tensors.
    pub fn check(&self) -> Result<(), String> {
        self.dims().map(|_| ())
    }

    /// Returns the number of slices, which is the leading dimension that all components share.
    ///
    /// # Errors
    /// The reason, as text, if the data does not match the spec, or the components do not share a leading
    /// dimension.
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

    /// Returns the spec of one slice: every component without its leading dimension.
    ///
    /// # Errors
    /// The errors of [`Constant::slices`].
    pub fn slice_spec(&self) -> Result<ElementSpec, String> {
        self.slices()?;
        super::spec::without_leading(&self.spec.0)
    }

    /// Returns the dimensions of every tensor, after checking that the data has the size that they say.
    fn dims(&self) -> Result<Vec<Vec<u64>>, String> {
        let components = self.spec.0.components();
        if components.is_empty() || components.len() != self.tensors.len() {
            return Err(format!(
                "has {} tensors for {} components",
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

/// Returns the dimensions if all of them are known.
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
                    "found {} bytes for {items} items of {dtype}",
                    tensor.fixed.len()
                ));
            }
        }
        None => {
            if items != tensor.items.len() as u64 || !tensor.fixed.is_empty() {
                return Err(format!("found {} strings for {items} items", tensor.items.len()));
            }
        }
    }
    Ok(())
}
