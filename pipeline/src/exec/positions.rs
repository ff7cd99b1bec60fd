//! Sources whose elements are computed from their positions, such as `range` and `tensor_slices`.

use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::order::Order;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};

pub(crate) struct Positions<F> {
    op: &'static str,
    /// The function that returns the element at a position. The function has an element for every position of
    /// the cursor.
    value: F,
    cursor: Cursor,
    /// The order in which the positions are read.
    order: Order,
}

impl<F: Fn(u64) -> Option<Value> + Send> Positions<F> {
    pub(crate) fn new(op: &'static str, value: F, cursor: Cursor, order: Order) -> Positions<F> {
        Positions {
            op,
            value,
            cursor,
            order,
        }
    }
}

impl<F: Fn(u64) -> Option<Value> + Send> Iterate for Positions<F> {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(position) = self.cursor.next()? else {
            return Ok(None);
        };
        let missing = || {
            ExecError::new(
                ErrorKind::Internal,
                self.op,
                "a position of the source has no element",
            )
        };
        let place = self.order.place(self.cursor.pass(), position);
        let value = (self.value)(place).ok_or_else(missing)?;
        let marks = self.cursor.marks(position, self.cursor.is_last());
        Ok(Some(Item::marked(value, marks, place)))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.cursor.restart()
    }

    fn further(&self) -> Further {
        self.cursor.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(self.op)?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(self.op)?;
        self.cursor.restore(state)
    }
}

/// Opens a source whose elements are numbers computed from their positions.
pub(crate) fn numbers(
    op: &'static str,
    value: impl Fn(u64) -> i64 + Send + 'static,
    cursor: Cursor,
    order: Order,
) -> Input {
    let value = move |position| Some(Value::from_buf([Tensor::i64(value(position))]));
    Box::new(Positions::new(op, value, cursor, order))
}
