//! The execution of `shard`, which keeps every n-th element of a pass. If the dataset is distributed in
//! splits, each task counts its own elements.

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::unprepared;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::graph;
use crate::graph::codec::decode_params;

/// The entry of `shard` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["shard"]],
    decode: decode_params::<definition::Shard>,
    named: Some(named::<definition::Shard>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Shard>()?;
    if operation.count.is_none() {
        return Err(OpenError::ShardHint);
    }
    prepared(move |opening| {
        let shard = Shard::new(operation, opening.input()?, opening.shared.cancel.clone());
        Ok(Box::new(shard.ok_or_else(|| unprepared("shard"))?))
    })
}

pub(crate) struct Shard {
    count: u64,
    index: u64,
    require_non_empty: bool,
    /// The number of input elements read in this pass.
    seen: u64,
    input: Input,
    cancel: Cancel,
}

impl Shard {
    /// Makes the iterator of a shard. Returns `None` for a hint, whose numbers are unknown.
    pub(crate) fn new(shard: graph::Shard, input: Input, cancel: Cancel) -> Option<Shard> {
        Some(Shard {
            count: shard.count?,
            index: shard.index,
            require_non_empty: shard.require_non_empty,
            seen: 0,
            input,
            cancel,
        })
    }

    /// Returns the next element of the input, and counts the element.
    fn pull(&mut self) -> Result<Option<Item>, ExecError> {
        self.cancel.check("shard")?;
        let item = self.input.next()?;
        self.seen = self.seen.saturating_add(u64::from(item.is_some()));
        Ok(item)
    }

    /// Skips elements until every shard has had at least one element.
    fn look_ahead(&mut self) -> Result<(), ExecError> {
        while self.seen < self.count {
            if self.pull()?.is_none() {
                return Err(self.too_few());
            }
        }
        Ok(())
    }

    fn too_few(&self) -> ExecError {
        let message = format!(
            "the input has {} elements, which is not enough for {} shards: each worker needs at least one element, \
             or one file if the files are divided; use fewer workers, more files or elements, or the sharding policy \
             `dynamic`",
            self.seen, self.count
        );
        ExecError::new(ErrorKind::Caller, "shard", message)
    }
}

impl Iterate for Shard {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while self.seen % self.count != self.index {
            if self.pull()?.is_none() {
                return Ok(None);
            }
        }
        let Some(item) = self.pull()? else {
            return Ok(None);
        };
        if self.require_non_empty {
            self.look_ahead().inspect_err(|_| token::abandon(&item.marks))?;
        }
        Ok(Some(item))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.seen = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("shard")?;
        state.number(self.seen)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("shard")?;
        self.seen = state.number()?;
        self.input.restore(state)
    }
}
