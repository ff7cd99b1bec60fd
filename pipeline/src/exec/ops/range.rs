//! `range`: integers, computed from their positions.

use crate::exec::cursor::Cursor;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::Iterate;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph;

pub(crate) struct Range {
    range: graph::Range,
    cursor: Cursor,
}

impl Range {
    pub(crate) fn new(range: graph::Range, cursor: Cursor) -> Range {
        Range { range, cursor }
    }
}

impl Iterate for Range {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(position) = self.cursor.next()? else {
            return Ok(None);
        };
        let value = Value::from_buf([Tensor::i64(self.range.value(position))]);
        let marks = self.cursor.marks(position, self.cursor.is_last());
        Ok(Some(Item {
            value,
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
        state.begin("range")?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("range")?;
        self.cursor.restore(state)
    }
}
