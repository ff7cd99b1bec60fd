//! The execution of `rebatch`, which cuts batches into batches of other sizes. Rows from one input
//! batch share its bytes; other rows are copied once.

use std::collections::VecDeque;

use crate::exec::budget::Charge;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::slices;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::exec::value::{Tensor, Value};
use crate::graph;

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;
use crate::ops::unbatch::exec::opened;

/// The entry of `rebatch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["rebatch"]],
    decode: decode_params::<definition::Rebatch>,
    named: Some(named::<definition::Rebatch>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Rebatch>()?.clone();
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(Rebatch::new(
            operation.clone(),
            opening.input()?,
            shared,
        )))
    })
}

pub(crate) struct Rebatch {
    rebatch: graph::Rebatch,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    /// Input batches with remaining rows, in order.
    pending: VecDeque<Pending>,
    /// The number of remaining rows in all pending batches.
    rows: u64,
    /// The memory reserved for the pending batches.
    charge: Charge,
    /// The number of batches made in this pass.
    made: u64,
    ended: bool,
}

/// A computed batch. The rows from `next` on have not been used yet.
struct Pending {
    item: Item,
    next: u64,
    rows: u64,
}

impl Rebatch {
    pub(crate) fn new(rebatch: graph::Rebatch, input: Input, shared: &Shared) -> Rebatch {
        Rebatch {
            rebatch,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pending: VecDeque::new(),
            rows: 0,
            charge: shared.budget.charge(0),
            made: 0,
            ended: false,
        }
    }

    /// Reads batches until `size` rows are pending, or until the input ends.
    fn fill(&mut self, size: u64) -> Result<(), ExecError> {
        while self.rows < size && !self.ended {
            self.cancel.check("rebatch")?;
            match self.input.next()? {
                Some(item) => {
                    let marks = item.marks.clone();
                    match opened("rebatch", item) {
                        Ok(batch) => self.hold(batch),
                        Err(error) => self.faults.leave_out(error, &marks)?,
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }

    fn hold(&mut self, (item, next, rows): (Item, u64, u64)) {
        if next < rows {
            self.charge
                .set(self.charge.bytes().saturating_add(item.held_bytes()));
            self.rows += rows - next;
            self.pending.push_back(Pending { item, next, rows });
        }
    }

    /// Combines the next `size` pending rows into one element. Returns `None` if the rows do not fit
    /// together and the error policy skips the batch.
    fn cut(&mut self, size: u64) -> Result<Option<Item>, ExecError> {
        let mut marks = Marks::new();
        let mut columns: Vec<Vec<Tensor>> = Vec::new();
        let (mut position, mut origin, mut parts) = (0, None, 0);
        let mut left = size;
        while let Some(front) = self.pending.front_mut().filter(|_| left > 0) {
            let rows = left.min(front.rows - front.next);
            let range = front.next..front.next + rows;
            columns.resize_with(front.item.value.len(), Vec::new);
            for (column, tensor) in columns.iter_mut().zip(&front.item.value) {
                let missing = || {
                    ExecError::new(
                        ErrorKind::Internal,
                        "rebatch",
                        "a component has fewer rows than its batch",
                    )
                };
                column.push(slices::taken(tensor, range.clone()).ok_or_else(missing)?);
            }
            token::merge(&mut marks, front.item.marks.clone());
            if parts == 0 {
                (position, origin) = (mix(front.item.position, front.next), front.item.origin.clone());
            }
            parts += 1;
            left -= rows;
            self.rows -= rows;
            front.next += rows;
            if front.next == front.rows {
                let bytes = front.item.held_bytes();
                self.charge.set(self.charge.bytes().saturating_sub(bytes));
                self.pending.pop_front();
            }
        }
        let mut value = Value::new();
        for (index, column) in columns.into_iter().enumerate() {
            match slices::joined(column) {
                Ok(joined) => value.push(joined),
                Err(reason) => {
                    let message = format!("cannot join component {index} of two batches: {reason}");
                    let error = ExecError::new(ErrorKind::Value, "rebatch", message).at_position(position);
                    return self.faults.leave_out(error, &marks).map(|()| None);
                }
            }
        }
        Ok(Some(Item {
            origin: origin.filter(|_| parts == 1),
            ..Item::marked(value, marks, position)
        }))
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.rows = 0;
        self.charge.set(0);
    }
}

impl Iterate for Rebatch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            let size = self.rebatch.size(self.made);
            self.fill(size)?;
            if self.rows < size && self.rebatch.drop_remainder {
                self.clear();
            }
            if self.rows == 0 {
                return Ok(None);
            }
            self.made = self.made.wrapping_add(1);
            if let Some(batch) = self.cut(size.min(self.rows))? {
                return Ok(Some(batch));
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.clear();
        (self.made, self.ended) = (0, false);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("rebatch")?;
        state.number(self.made)?;
        state.flag(self.ended)?;
        state.number(self.pending.len() as u64)?;
        for pending in &self.pending {
            state.item(&pending.item)?;
            state.number(pending.next)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("rebatch")?;
        self.made = state.number()?;
        self.ended = state.flag()?;
        for _ in 0..state.number()? {
            let (item, _, rows) = opened("rebatch", state.item()?)?;
            let next = state.number()?;
            self.hold((item, next, rows));
        }
        self.input.restore(state)
    }
}
