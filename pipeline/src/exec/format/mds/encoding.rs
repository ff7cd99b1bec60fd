//! The values of a column, in the encoding that the shard names for the column.

use bytes::Bytes;
use millstream_element::{Dtype, TensorSpec};

use crate::exec::format::parse::{inline, scalar};
use crate::exec::value::Tensor;

/// Maximum number of dimensions of a tensor.
const RANK_MAX: usize = 16;

/// The encoding of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A scalar of fixed size, in binary form.
    Scalar(Dtype),
    /// A scalar written as decimal text.
    Decimal(Dtype),
    /// A text in UTF-8.
    Text,
    /// Bytes of any content.
    Bytes,
    /// A tensor with a known type and shape. If the type or the shape is `None`, each value states its own.
    Array(Option<Dtype>, Option<Vec<u64>>),
}

impl Encoding {
    /// Returns the encoding with the name `name`.
    pub(crate) fn named(name: &str) -> Result<Encoding, String> {
        let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
        Ok(match kind {
            "bytes" | "jpeg" | "png" => Encoding::Bytes,
            "str" | "json" | "str_decimal" => Encoding::Text,
            "int" => Encoding::Scalar(Dtype::I64),
            "str_int" => Encoding::Decimal(Dtype::I64),
            "str_float" => Encoding::Decimal(Dtype::F64),
            "ndarray" => {
                return Encoding::array(rest).ok_or_else(|| format!("has the invalid encoding {name:?}"));
            }
            "pkl" => return Err(
                "is pickled, and unpickling runs code from the file: write the shards with another encoding"
                    .to_owned(),
            ),
            _ => match number(kind) {
                Some(dtype) => Encoding::Scalar(dtype),
                None => return Err(format!("has the unsupported encoding {name:?}")),
            },
        })
    }

    fn array(rest: &str) -> Option<Encoding> {
        let (dtype, shape) = rest.split_once(':').unwrap_or((rest, ""));
        let dtype = if dtype.is_empty() {
            None
        } else {
            Some(number(dtype)?)
        };
        if shape.is_empty() {
            return Some(Encoding::Array(dtype, None));
        }
        let shape: Option<Vec<u64>> = shape.split(',').map(|dim| dim.trim().parse().ok()).collect();
        let shape = shape.filter(|shape| shape.len() <= RANK_MAX)?;
        Some(Encoding::Array(dtype, Some(shape)))
    }

    /// Returns the spec of the values. `sample` is one of the values, for encodings whose values state their
    /// type.
    pub(crate) fn spec(&self, sample: Option<&Bytes>) -> Result<TensorSpec, String> {
        Ok(match self {
            Encoding::Scalar(dtype) | Encoding::Decimal(dtype) => TensorSpec::scalar(*dtype),
            Encoding::Text => TensorSpec::scalar(Dtype::String),
            Encoding::Bytes => TensorSpec::scalar(Dtype::Bytes),
            Encoding::Array(Some(dtype), Some(shape)) => TensorSpec::fixed(*dtype, shape),
            Encoding::Array(dtype, shape) => {
                let sample = sample.ok_or(
                    "takes its type from the first sample, but the shard has no samples: declare the columns",
                )?;
                let found = self.tensor(sample.clone())?;
                match shape {
                    Some(shape) => TensorSpec::fixed(found.dtype(), shape),
                    // The dimensions may differ from sample to sample, so they are unknown; the rank is
                    // assumed to be constant.
                    None => {
                        TensorSpec::with_dims(dtype.unwrap_or(found.dtype()), &vec![None; found.dims().len()])
                    }
                }
            }
        })
    }

    /// Decodes a value to a tensor.
    pub(crate) fn tensor(&self, bytes: Bytes) -> Result<Tensor, String> {
        match self {
            Encoding::Scalar(dtype) => inline(*dtype, &bytes),
            Encoding::Decimal(dtype) => scalar(*dtype, &bytes),
            Encoding::Text => scalar(Dtype::String, &bytes),
            Encoding::Bytes => Ok(Tensor::bytes(bytes)),
            Encoding::Array(dtype, shape) => array(bytes, *dtype, shape.as_deref()),
        }
    }
}

/// Decodes a tensor: its type and its shape if they are not known, and its items.
fn array(mut bytes: Bytes, dtype: Option<Dtype>, shape: Option<&[u64]>) -> Result<Tensor, String> {
    let cut = || "an array is truncated".to_owned();
    let mut take = |count: usize| {
        (count <= bytes.len())
            .then(|| bytes.split_to(count))
            .ok_or_else(cut)
    };
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => {
            let code = take(1)?[0];
            coded(code).ok_or_else(|| format!("an array has the unknown type {code}"))?
        }
    };
    let shape: Vec<u64> = match shape {
        Some(shape) => shape.to_vec(),
        None => {
            let byte = take(1)?[0];
            let (rank, width) = (usize::from(byte >> 2), 1usize << (byte & 3));
            if rank > RANK_MAX {
                return Err(format!("an array has {rank} dimensions, the limit is {RANK_MAX}"));
            }
            let dims = take(rank * width)?;
            let dim = |dim: &[u8]| {
                dim.iter()
                    .rev()
                    .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
            };
            dims.chunks_exact(width).map(dim).collect()
        }
    };
    Tensor::fixed(dtype, &shape, bytes)
}

fn number(name: &str) -> Option<Dtype> {
    Some(match name {
        "uint8" => Dtype::U8,
        "uint16" => Dtype::U16,
        "uint32" => Dtype::U32,
        "uint64" => Dtype::U64,
        "int8" => Dtype::I8,
        "int16" => Dtype::I16,
        "int32" => Dtype::I32,
        "int64" => Dtype::I64,
        "float16" => Dtype::F16,
        "float32" => Dtype::F32,
        "float64" => Dtype::F64,
        _ => return None,
    })
}

/// Returns the type that the code at the start of an array stands for.
fn coded(code: u8) -> Option<Dtype> {
    Some(match code {
        8 => Dtype::U8,
        9 => Dtype::I8,
        16 => Dtype::U16,
        17 => Dtype::I16,
        18 => Dtype::F16,
        32 => Dtype::U32,
        33 => Dtype::I32,
        34 => Dtype::F32,
        64 => Dtype::U64,
        65 => Dtype::I64,
        66 => Dtype::F64,
        _ => return None,
    })
}
