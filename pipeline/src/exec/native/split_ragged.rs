//! The call of `split_ragged`, which splits strings into ragged parts.

use bytes::Bytes;
use millstream_element::{Dtype, ElementSpec};

use crate::exec::call::{Call, Place};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expr::parts;
use crate::exec::value::{Dims, Tensor, Value};
use crate::graph::{Split, SplitRagged, column_of};

use super::made;

const OP: &str = "split_ragged";

pub(crate) struct SplitRaggedCall {
    component: usize,
    split: Split,
}

impl SplitRaggedCall {
    pub(crate) fn new(split: &SplitRagged, input: &ElementSpec) -> Result<SplitRaggedCall, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, OP, reason);
        Ok(SplitRaggedCall {
            component: column_of(&split.component, input).map_err(refused)?,
            split: split.split.clone(),
        })
    }
}

impl Call for SplitRaggedCall {
    fn name(&self) -> &str {
        OP
    }

    fn call(&self, mut value: Value, _: &Place<'_>) -> Result<Option<Value>, ExecError> {
        let failed = |reason| ExecError::new(ErrorKind::Value, OP, reason);
        let tensor = made::taken(OP, &mut value, self.component)?;
        let dtype = tensor.dtype();
        let rows = made::items(&tensor);
        let mut all: Vec<Bytes> = Vec::new();
        let mut splits = Vec::with_capacity(8 * (rows.len() + 1));
        splits.extend(0u64.to_le_bytes());
        for row in &rows {
            all.extend(parts(row, &self.split, dtype == Dtype::String));
            splits.extend((all.len() as u64).to_le_bytes());
        }
        value.push(Tensor::strings(dtype, &[all.len() as u64], all).map_err(failed)?);
        let dims = Dims::from_slice(&[rows.len() as u64 + 1]);
        value.push(made::fixed(Dtype::I64, dims, splits).map_err(failed)?);
        Ok(Some(value))
    }
}
