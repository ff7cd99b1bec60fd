//! Constants in an expression. Plain numbers and texts take the dtype of the other operands; tensors have a
//! dtype of their own.

use half::{bf16, f16};
use millstream_element::{Dtype, ElementSpec, TensorSpec};
use minicbor::{Decode, Encode};

use super::dtype_field::DtypeField;
use crate::graph::constant::{Constant, ConstantTensor};
use crate::graph::params::SpecField;

/// A constant in an expression.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Literal {
    /// An integer, which is an `i64` by default. Next to other operands the integer takes any numeric dtype
    /// that can represent it.
    #[n(0)]
    Int(#[n(0)] i64),
    /// A floating-point number, which is an `f64` by default. Next to other floats the number takes their
    /// dtype.
    #[n(1)]
    Float(#[n(0)] f64),
    /// A boolean, whose dtype is always `bool`.
    #[n(2)]
    Bool(#[n(0)] bool),
    /// A text, which is a string by default, and a byte string next to byte strings.
    #[n(3)]
    Text(#[n(0)] String),
    /// A tensor, which has a fixed dtype.
    #[n(4)]
    Tensor(#[n(0)] Tensor),
}

/// A constant tensor.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Tensor {
    /// The dtype of the items.
    #[n(0)]
    pub dtype: DtypeField,
    /// The dimensions of the tensor.
    #[n(1)]
    pub dims: Vec<u64>,
    /// The items of the tensor.
    #[n(2)]
    pub data: ConstantTensor,
}

impl Tensor {
    /// Returns the spec of the literal.
    pub(crate) fn spec(&self) -> TensorSpec {
        TensorSpec::fixed(self.dtype.0, &self.dims)
    }

    /// Converts the tensor to a constant of the same dtype.
    ///
    /// # Errors
    /// The reason, as text, if dtype, dimensions and data do not match.
    pub(crate) fn constant(&self) -> Result<Constant, String> {
        let spec = ElementSpec::single(self.spec()).map_err(|error| error.to_string())?;
        let constant = Constant {
            spec: SpecField(spec),
            tensors: vec![self.data.clone()],
        };
        constant.check()?;
        Ok(constant)
    }
}

impl Literal {
    /// Checks that the data of the literal matches its dtype and dimensions.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Literal::Tensor(tensor) => tensor.constant().map(|_| ()),
            Literal::Int(_) | Literal::Float(_) | Literal::Bool(_) | Literal::Text(_) => Ok(()),
        }
    }

    /// Returns whether the literal takes the dtype of the other operands.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Literal::Tensor(_))
    }

    /// Returns the default dtype of the literal.
    pub(crate) fn dtype(&self) -> Dtype {
        match self {
            Literal::Int(_) => Dtype::I64,
            Literal::Float(_) => Dtype::F64,
            Literal::Bool(_) => Dtype::Bool,
            Literal::Text(_) => Dtype::String,
            Literal::Tensor(tensor) => tensor.dtype.0,
        }
    }

    /// Converts the literal to a tensor of `dtype`.
    ///
    /// # Errors
    /// The reason, as text, if `dtype` cannot represent the literal.
    pub(crate) fn of(&self, dtype: Dtype) -> Result<Tensor, String> {
        let scalar = |data| Tensor {
            dtype: DtypeField(dtype),
            dims: Vec::new(),
            data,
        };
        let data = match self {
            Literal::Int(value) => ConstantTensor::fixed(int_bytes(*value, dtype)?),
            Literal::Float(value) => ConstantTensor::fixed(float_bytes(*value, dtype)?),
            Literal::Bool(value) if dtype == Dtype::Bool => ConstantTensor::fixed([u8::from(*value)]),
            Literal::Text(value) if matches!(dtype, Dtype::String | Dtype::Bytes) => {
                ConstantTensor::items([value.as_bytes()])
            }
            Literal::Tensor(tensor) if tensor.dtype.0 == dtype => return Ok(tensor.clone()),
            Literal::Bool(_) | Literal::Text(_) | Literal::Tensor(_) => {
                return Err(format!("the constant {self:?} cannot be {dtype}"));
            }
        };
        Ok(scalar(data))
    }
}

fn int_bytes(value: i64, dtype: Dtype) -> Result<Vec<u8>, String> {
    fn fitting<T: TryFrom<i64>>(value: i64, dtype: Dtype) -> Result<T, String> {
        T::try_from(value).map_err(|_| format!("the number {value} does not fit {dtype}"))
    }
    Ok(match dtype {
        Dtype::I8 => fitting::<i8>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::I16 => fitting::<i16>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::I32 => fitting::<i32>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::I64 => value.to_le_bytes().to_vec(),
        Dtype::U8 => fitting::<u8>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::U16 => fitting::<u16>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::U32 => fitting::<u32>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::U64 => fitting::<u64>(value, dtype)?.to_le_bytes().to_vec(),
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => float_bytes(value as f64, dtype)?,
        Dtype::Bool
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => {
            return Err(format!(
                "the number {value} cannot be combined with {dtype}: cast one of them"
            ));
        }
    })
}

fn float_bytes(value: f64, dtype: Dtype) -> Result<Vec<u8>, String> {
    Ok(match dtype {
        Dtype::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
        Dtype::F64 => value.to_le_bytes().to_vec(),
        Dtype::Bool
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::F8E4M3
        | Dtype::F8E5M2
        | Dtype::C64
        | Dtype::C128
        | Dtype::String
        | Dtype::Bytes => {
            return Err(format!(
                "the number {value:?} cannot be combined with {dtype}: cast one of them"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_become_fitting_types_only() {
        let int = |value| Literal::Int(value);
        assert_eq!(int(-1).of(Dtype::I8).unwrap().data.fixed, [255]);
        assert_eq!(int(3).of(Dtype::F32).unwrap().data.fixed, 3f32.to_le_bytes());
        assert!(int(-1).of(Dtype::U8).unwrap_err().contains("does not fit"));
        assert!(int(300).of(Dtype::U8).unwrap_err().contains("does not fit"));
        assert!(int(1).of(Dtype::Bool).unwrap_err().contains("cast"));
        assert!(
            Literal::Float(1.0)
                .of(Dtype::I64)
                .unwrap_err()
                .contains("cast one")
        );
        assert!(
            Literal::Text("a".to_owned())
                .of(Dtype::Bytes)
                .unwrap()
                .dims
                .is_empty()
        );
        assert!(Literal::Bool(true).of(Dtype::I64).is_err());
    }
}
