//! Collects the elements of one batch after the other. The caller decides how the elements are joined into
//! one element.

use crate::exec::budget::Charge;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::Input;
use crate::exec::random::mix;
use crate::exec::token::{self, Marks};
use crate::exec::value::{Tensor, Value};

pub(crate) struct Rows {
    size: u64,
    drop_remainder: bool,
    pub(crate) input: Input,
    cancel: Cancel,
    pub(crate) faults: Faults,
    /// The bytes of the collected rows, until they are joined into one element.
    charge: Charge,
}

impl Rows {
    pub(crate) fn new(size: u64, drop_remainder: bool, input: Input, shared: &Shared) -> Rows {
        Rows {
            size,
            drop_remainder,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            charge: shared.budget.charge(0),
        }
    }

    /// Returns the elements of the next batch, or `None` if no batch is left.
    pub(crate) fn next(&mut self, op: &str) -> Result<Option<Vec<Item>>, ExecError> {
        let mut items = Vec::new();
        self.charge.set(0);
        while (items.len() as u64) < self.size {
            self.cancel.check(op)?;
            let Some(item) = self.input.next()? else { break };
            self.charge
                .set(self.charge.bytes().saturating_add(item.held_bytes()));
            items.push(item);
        }
        let least = if self.drop_remainder { self.size } else { 1 };
        Ok((items.len() as u64 >= least).then_some(items))
    }
}

/// Joins `items` into one element. For each component, `join` receives the rows of all items and returns
/// components of the batch. Returns `None` if joining fails and `faults` leave the batch out.
pub(crate) fn joined(
    op: &str,
    items: Vec<Item>,
    faults: &Faults,
    join: impl Fn(usize, Vec<Tensor>) -> Result<Value, String>,
) -> Result<Option<Item>, ExecError> {
    let position = items.first().map_or(0, |item| item.position);
    let mut marks = Marks::new();
    let mut columns: Vec<Vec<Tensor>> = Vec::new();
    let mut failed = None;
    for item in items {
        token::merge(&mut marks, item.marks);
        columns.resize_with(item.value.len(), Vec::new);
        for (column, tensor) in columns.iter_mut().zip(item.value) {
            match tensor.settled() {
                Ok(tensor) => column.push(tensor),
                Err(error) => failed = failed.or(Some(error.at(item.origin.as_ref()))),
            }
        }
    }
    let mut value = Value::new();
    for (index, column) in columns.into_iter().enumerate() {
        match join(index, column) {
            Ok(parts) => value.extend(parts),
            Err(reason) => {
                let message = format!("component {index}: {reason}");
                failed = failed.or(Some(ExecError::new(ErrorKind::Value, op, message)));
            }
        }
    }
    if let Some(error) = failed {
        // The functions of the same operation use the position of the first element itself.
        let batch = mix(position, 1);
        return faults
            .leave_out_at(error.at_position(position), Some(batch), &marks)
            .map(|()| None);
    }
    Ok(Some(Item::marked(value, marks, position)))
}
