//! The kinds of dtypes that the rules of expressions distinguish.

use millstream_element::{Dtype, TensorSpec};

use super::shapes::tensor;

/// Returns whether expressions compute with numbers of this dtype.
pub(crate) fn is_number(dtype: Dtype) -> bool {
    is_integer(dtype) || is_float(dtype)
}

pub(crate) fn is_integer(dtype: Dtype) -> bool {
    is_signed(dtype) || matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64)
}

pub(crate) fn is_signed(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
}

pub(crate) fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64)
}

pub(crate) fn is_text(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::String | Dtype::Bytes)
}

pub(crate) fn wants(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// Returns a spec with the shape of `spec` and the dtype `dtype`.
pub(crate) fn with_dtype(spec: &TensorSpec, dtype: Dtype) -> TensorSpec {
    tensor(dtype, spec.dims().map(<[Option<u64>]>::to_vec))
}
