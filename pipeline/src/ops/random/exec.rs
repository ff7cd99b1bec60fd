//! The execution of `random`, which computes each random integer from its position.

use super::definition;
use crate::exec::cursor::Cursor;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::Seeds;
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::codec::decode_params;

/// The entry of `random` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["random"]],
    decode: decode_params::<definition::Random>,
    named: Some(named::<definition::Random>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Random>()?;
    prepared(move |opening| {
        let seeds = opening
            .shared
            .seeds(opening.drawn(), operation.seed)
            .fixed_if(operation.fixed);
        Ok(Box::new(Random::new(seeds, opening.cursor(u64::MAX))))
    })
}

/// The exclusive upper bound of the values.
const BOUND: u64 = 1 << 32;

pub(crate) struct Random {
    seeds: Seeds,
    /// The number of restarts of the operation so far.
    pass: u64,
    cursor: Cursor,
}

impl Random {
    pub(crate) fn new(seeds: Seeds, cursor: Cursor) -> Random {
        Random {
            seeds,
            pass: 0,
            cursor,
        }
    }
}

impl Iterate for Random {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(position) = self.cursor.next()? else {
            return Ok(None);
        };
        let drawn = self.seeds.draws(self.pass).below(position, BOUND);
        let marks = self.cursor.marks(position, self.cursor.is_last());
        Ok(Some(Item::marked(
            Value::from_buf([Tensor::i64(drawn as i64)]),
            marks,
            position,
        )))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pass = self.pass.wrapping_add(1);
        self.cursor.restart()
    }

    fn further(&self) -> Further {
        self.cursor.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("random")?;
        state.number(self.pass)?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("random")?;
        self.pass = state.number()?;
        self.cursor.restore(state)
    }
}
