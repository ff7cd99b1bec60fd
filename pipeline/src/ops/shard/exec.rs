//! `shard`: every n-th element of every pass. Of a split dataset, every n-th of every task.

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

/// The room of the operation.
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
    /// Elements of the input seen in this pass.
    seen: u64,
    input: Input,
    cancel: Cancel,
}

impl Shard {
    /// `None` for a hint, which has no numbers.
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

    /// The next element of the input, counted.
    fn pull(&mut self) -> Result<Option<Item>, ExecError> {
        self.cancel.check("shard")?;
        let item = self.input.next()?;
        self.seen = self.seen.saturating_add(u64::from(item.is_some()));
        Ok(item)
    }

    /// Passes over elements until every shard has had one.
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
            "its input has {} elements, which is not enough for {} shards: each worker needs one of them, a file where files \
             are divided; use fewer workers, more files or elements, or the sharding policy `dynamic`",
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
