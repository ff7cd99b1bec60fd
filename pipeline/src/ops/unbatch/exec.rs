//! The execution of `unbatch`, which yields the rows of every element one by one. Rows share the bytes
//! of their element.

use super::definition;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::mix;
use crate::exec::room::{Room, nameless};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;

/// The entry of `unbatch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["unbatch"]],
    decode: definition::decode,
    named: Some(nameless::<definition::Unbatch>),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(Unbatch::new(opening.input()?, shared.faults())))
    })
}

pub(crate) struct Unbatch {
    input: Input,
    faults: Faults,
    /// The element whose rows are being yielded, the index of the next row, and the number of rows.
    current: Option<(Item, u64, u64)>,
}

impl Unbatch {
    pub(crate) fn new(input: Input, faults: Faults) -> Unbatch {
        Unbatch {
            input,
            faults,
            current: None,
        }
    }
}

impl Iterate for Unbatch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            if let Some((item, next, rows)) = &mut self.current {
                if *next < *rows {
                    let row = row(item, *next)?;
                    *next += 1;
                    return Ok(Some(row));
                }
                self.current = None;
            }
            let Some(item) = self.input.next()? else {
                return Ok(None);
            };
            let marks = item.marks.clone();
            match opened("unbatch", item) {
                Ok(opened) => self.current = Some(opened),
                Err(error) => self.faults.leave_out(error, &marks)?,
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = None;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("unbatch")?;
        state.flag(self.current.is_some())?;
        if let Some((item, next, _)) = &self.current {
            state.item(item)?;
            state.number(*next)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("unbatch")?;
        if state.flag()? {
            let (item, _, rows) = opened("unbatch", state.item()?)?;
            self.current = Some((item, state.number()?, rows));
        }
        self.input.restore(state)
    }
}

/// Runs the deferred computations of `item`, and checks that its components have the same number of
/// rows. Returns the item, the index 0 of its next row, and the number of rows.
pub(crate) fn opened(op: &str, mut item: Item) -> Result<(Item, u64, u64), ExecError> {
    let fail = |item: &Item, error: ExecError| error.at(item.origin.as_ref()).at_position(item.position);
    let settled: Result<Value, ExecError> = item.value.iter().map(|tensor| tensor.settled()).collect();
    item.value = settled.map_err(|error| fail(&item, error))?;
    let mut leading = item.value.iter().map(|tensor| tensor.dims().first().copied());
    let rows = leading.next().flatten();
    match rows {
        Some(rows) if leading.all(|other| other == Some(rows)) => Ok((item, 0, rows)),
        Some(_) | None => {
            let message = "expected the same number of rows in all components of an element";
            Err(fail(&item, ExecError::new(ErrorKind::Value, op, message)))
        }
    }
}

fn row(item: &Item, index: u64) -> Result<Item, ExecError> {
    let value: Option<Value> = item.value.iter().map(|tensor| tensor.row(index)).collect();
    let missing = || {
        ExecError::new(
            ErrorKind::Internal,
            "unbatch",
            "a component has fewer rows than its element",
        )
    };
    Ok(Item {
        origin: item.origin.clone(),
        ..Item::marked(
            value.ok_or_else(missing)?,
            item.marks.clone(),
            mix(item.position, index),
        )
    })
}
