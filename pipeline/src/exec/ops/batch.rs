//! `batch`: stacks consecutive elements. The stack is not copied here: its rows are copied once, when it is
//! written.

use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::exec::value::{Tensor, Value};
use crate::graph;

pub(crate) struct Batch {
    size: usize,
    drop_remainder: bool,
    input: Input,
    cancel: Cancel,
}

impl Batch {
    pub(crate) fn new(batch: graph::Batch, input: Input, cancel: Cancel) -> Batch {
        // A graph's batches have at most 2^24 elements.
        Batch {
            size: batch.size as usize,
            drop_remainder: batch.drop_remainder,
            input,
            cancel,
        }
    }
}

impl Iterate for Batch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(first) = self.input.next()? else {
            return Ok(None);
        };
        let position = first.position;
        let mut marks = first.marks;
        // Grows with the elements, not with what a graph asks for.
        let capacity = self.size.min(1024);
        let mut columns: Vec<Vec<Tensor>> = Vec::with_capacity(first.value.len());
        for tensor in first.value {
            let mut column = Vec::with_capacity(capacity);
            column.push(tensor);
            columns.push(column);
        }
        let mut rows = 1;
        while rows < self.size {
            let Some(item) = self.input.next()? else { break };
            token::merge(&mut marks, item.marks);
            for (column, tensor) in columns.iter_mut().zip(item.value) {
                column.push(tensor);
            }
            rows += 1;
            self.cancel.check("batch")?;
        }
        if rows < self.size && self.drop_remainder {
            return Ok(None);
        }
        let value = stack(columns, &marks, position)?;
        Ok(Some(Item {
            value,
            marks,
            position,
            origin: None,
        }))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.input.restart()
    }

    fn exhausted(&self) -> bool {
        self.input.exhausted()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("batch")?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("batch")?;
        self.input.restore(state)
    }
}

fn stack(columns: Vec<Vec<Tensor>>, marks: &Marks, position: u64) -> Result<Value, ExecError> {
    let mut value = Value::with_capacity(columns.len());
    for (index, column) in columns.into_iter().enumerate() {
        value.push(Tensor::stack(column).map_err(|reason| {
            token::abandon(marks);
            let message = format!("cannot stack component {index}: {reason}; resize or pad it first");
            ExecError::new(ErrorKind::Data, "batch", message).at_position(position)
        })?);
    }
    Ok(value)
}
