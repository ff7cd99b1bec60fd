//! `tensor_slices`: the rows of tensors embedded in the graph.

use bytes::Bytes;

use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::Iterate;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::Constant;

pub(crate) struct TensorSlices {
    tensors: Vec<Tensor>,
    cursor: Cursor,
}

/// The tensors of a constant as values, whose rows share their bytes.
pub(crate) fn tensors(constant: &Constant) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for (spec, data) in constant.spec.0.components().iter().zip(&constant.tensors) {
        let dims: Option<Vec<u64>> = spec.dims().and_then(|dims| dims.iter().copied().collect());
        let dims = dims.ok_or_else(|| "a tensor has unknown dimensions".to_owned())?;
        tensors.push(match spec.dtype().item_bytes() {
            Some(_) => Tensor::fixed(spec.dtype(), &dims, data.fixed.clone())?,
            None => {
                let items = data
                    .items
                    .iter()
                    .map(|item| Bytes::copy_from_slice(item))
                    .collect();
                Tensor::strings(spec.dtype(), &dims, items)?
            }
        });
    }
    Ok(tensors)
}

impl TensorSlices {
    pub(crate) fn new(tensors: Vec<Tensor>, cursor: Cursor) -> TensorSlices {
        TensorSlices { tensors, cursor }
    }
}

impl Iterate for TensorSlices {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(position) = self.cursor.next()? else {
            return Ok(None);
        };
        let value: Option<Value> = self.tensors.iter().map(|tensor| tensor.row(position)).collect();
        let missing = || ExecError::new(ErrorKind::Internal, "tensor_slices", "a tensor lacks a row");
        let marks = self.cursor.marks(position, self.cursor.is_last());
        Ok(Some(Item {
            value: value.ok_or_else(missing)?,
            marks,
            position,
            origin: None,
        }))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.cursor.restart();
        Ok(())
    }

    fn exhausted(&self) -> bool {
        self.cursor.exhausted()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("tensor_slices")?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("tensor_slices")?;
        self.cursor.restore(state)
    }
}
