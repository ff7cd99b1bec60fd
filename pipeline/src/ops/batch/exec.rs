//! `batch`: stacks consecutive elements. The stack is not copied here: its rows are copied once, when it is
//! written. Rows whose computation was left until then hold what they are made of, a whole picture for its
//! crop; once the byte budget is spent they are computed at once. Those of a parallel map are computed by the
//! threads of its pool, straight into their places.

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

/// The room of the operation.
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
    /// Whether rows that are yet to be computed are computed in parallel.
    is_parallel: bool,
    input: Input,
    shared: Shared,
}

/// A batch, or why its rows do not make one.
struct Stacked {
    value: Result<Value, ExecError>,
    marks: Marks,
    position: u64,
}

impl Batch {
    /// `is_parallel`: whether it reads a parallel map.
    pub(crate) fn new(batch: graph::Batch, is_parallel: bool, input: Input, shared: &Shared) -> Batch {
        // A graph's batches have at most 2^24 elements.
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
    /// The next row, added to `charge`.
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

    /// The rows of the next batch, stacked; `None` when there is none.
    fn batch(&mut self) -> Result<Option<Stacked>, ExecError> {
        // Counts the rows until the batch is handed on.
        let mut charge = self.shared.budget.charge(0);
        let Some(first) = self.row(&mut charge)? else {
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
                    return Ok(Some(Item {
                        value,
                        marks,
                        position,
                        origin: None,
                    }));
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
            let message = format!("cannot stack component {index}: {reason}; resize or pad it first");
            ExecError::new(ErrorKind::Data, "batch", message)
                .at_position(position)
                .of_element()
        })?);
    }
    Ok(value)
}
