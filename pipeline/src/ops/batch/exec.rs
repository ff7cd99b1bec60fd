//! The execution of `batch`, which stacks consecutive elements. The batch copies no rows itself: each
//! row is copied once, when the batch is written.
//!
//! A row whose computation was deferred holds its input until the batch is written. For example, a
//! deferred crop holds the whole picture. Once the byte budget is spent, the batch computes deferred
//! rows at once. If the input is a parallel map, the threads of the map's pool compute the rows
//! directly in the memory of the batch.

use super::definition;
use crate::exec::budget::Charge;
use crate::exec::call;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::spread::Spread;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::exec::value::{Tensor, Value};
use crate::graph;
use crate::graph::codec::decode_params;

/// The entry of `batch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["batch"]],
    decode: decode_params::<definition::Batch>,
    named: Some(named::<definition::Batch>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Batch>()?;
    prepared(move |opening| {
        let input = opening.input()?;
        let is_filled = opening.is_filled();
        Ok(Box::new(Batch::new(
            operation,
            is_filled,
            input,
            &opening.own_shared(),
        )))
    })
}

pub(crate) struct Batch {
    size: usize,
    drop_remainder: bool,
    /// Whether several threads compute the deferred rows.
    is_parallel: bool,
    input: Input,
    shared: Shared,
}

/// The outcome of stacking one batch: the stacked value, or the reason why the rows do not stack.
struct Stacked {
    value: Result<Value, ExecError>,
    marks: Marks,
    position: u64,
}

impl Batch {
    /// Makes the iterator of a batch. `is_parallel` states whether the input is a parallel map.
    pub(crate) fn new(batch: graph::Batch, is_parallel: bool, input: Input, shared: &Shared) -> Batch {
        // The graph's checks limit batches to 2^24 elements.
        Batch {
            size: batch.size as usize,
            drop_remainder: batch.drop_remainder,
            is_parallel,
            input,
            shared: shared.clone(),
        }
    }
}

impl Batch {
    /// Returns the next row, and adds its bytes to `charge`.
    fn row(&mut self, charge: &mut Charge) -> Result<Option<Item>, ExecError> {
        let Some(mut item) = self.input.next()? else {
            return Ok(None);
        };
        if self.shared.budget.is_spent() {
            item = call::settled(item)?;
        }
        charge.set(charge.bytes().saturating_add(item.held_bytes()));
        Ok(Some(item))
    }

    /// Returns the next batch of stacked rows, or `None` at the end of the input.
    fn batch(&mut self) -> Result<Option<Stacked>, ExecError> {
        // The charge counts the bytes of the rows until this function returns the batch.
        let mut charge = self.shared.budget.charge(0);
        let Some(first) = self.row(&mut charge)? else {
            return Ok(None);
        };
        let position = first.position;
        let mut marks = first.marks;
        // A graph may state a huge batch size, so the memory grows with the rows that arrive.
        let capacity = self.size.min(1024);
        let mut columns: Vec<Vec<Tensor>> = Vec::with_capacity(first.value.len());
        for tensor in first.value {
            let mut column = Vec::with_capacity(capacity);
            column.push(tensor);
            columns.push(column);
        }
        let mut rows = 1;
        while rows < self.size {
            let Some(item) = self.row(&mut charge)? else { break };
            token::merge(&mut marks, item.marks);
            for (column, tensor) in columns.iter_mut().zip(item.value) {
                column.push(tensor);
            }
            rows += 1;
            self.shared.cancel.check("batch")?;
        }
        if rows < self.size && self.drop_remainder {
            return Ok(None);
        }
        let spread = |tensor| Spread::of(tensor, &self.shared.pool, &self.shared.cancel);
        let mut value = stack(columns, position);
        if self.is_parallel {
            value = value.map(|value| value.into_iter().map(spread).collect());
        }
        Ok(Some(Stacked {
            value,
            marks,
            position,
        }))
    }
}

impl Iterate for Batch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(Stacked {
            value,
            marks,
            position,
        }) = self.batch()?
        {
            match value {
                Ok(value) => {
                    return Ok(Some(Item::marked(value, marks, position)));
                }
                Err(error) => self.shared.faults().leave_out(error, &marks)?,
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
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

fn stack(columns: Vec<Vec<Tensor>>, position: u64) -> Result<Value, ExecError> {
    let mut value = Value::with_capacity(columns.len());
    for (index, column) in columns.into_iter().enumerate() {
        value.push(Tensor::stack(column).map_err(|reason| {
            let message = format!(
                "cannot stack component {index}: {reason}; resize or pad the elements before the batch"
            );
            ExecError::new(ErrorKind::Value, "batch", message)
                .at_position(position)
                .of_element()
        })?);
    }
    Ok(value)
}
