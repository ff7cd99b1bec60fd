//! The execution of `assert_cardinality`, which compares the number of elements of every pass with the
//! stated number.

use super::definition;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::graph::codec::decode_params;

/// The entry of `assert_cardinality` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["assert_cardinality"]],
    decode: decode_params::<definition::AssertCardinality>,
    named: Some(named::<definition::AssertCardinality>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::AssertCardinality>()?;
    prepared(move |opening| {
        // A task that reads splits sees only a part of the dataset, so its number of elements proves
        // nothing.
        let is_whole = opening.shared.feed.is_none();
        Ok(Box::new(AssertCardinality::new(
            operation.count,
            is_whole,
            opening.input()?,
        )))
    })
}

pub(crate) struct AssertCardinality {
    /// The expected number of elements. `None` states that the input never ends.
    count: Option<u64>,
    /// Whether this execution reads the whole dataset.
    is_whole: bool,
    input: Input,
    /// The number of elements yielded so far in this pass.
    seen: u64,
}

impl AssertCardinality {
    pub(crate) fn new(count: Option<u64>, is_whole: bool, input: Input) -> AssertCardinality {
        AssertCardinality {
            count,
            is_whole,
            input,
            seen: 0,
        }
    }
}

impl Iterate for AssertCardinality {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let item = self.input.next()?;
        if !self.is_whole {
            return Ok(item);
        }
        let wrong = match (&item, self.count) {
            (Some(_), Some(count)) if self.seen >= count => {
                Some(format!("expected {count} elements in the dataset, found more"))
            }
            (None, Some(count)) if self.seen < count => Some(format!(
                "expected {count} elements in the dataset, found {}",
                self.seen
            )),
            (None, None) => Some(format!(
                "expected a dataset without end, found an end after {} elements",
                self.seen
            )),
            (Some(_) | None, _) => None,
        };
        if let Some(message) = wrong {
            item.iter().for_each(|item| token::abandon(&item.marks));
            return Err(ExecError::new(
                ErrorKind::Precondition,
                "assert_cardinality",
                message,
            ));
        }
        self.seen = self.seen.saturating_add(u64::from(item.is_some()));
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.seen = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("assert_cardinality")?;
        state.number(self.seen)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("assert_cardinality")?;
        self.seen = state.number()?;
        self.input.restore(state)
    }
}
