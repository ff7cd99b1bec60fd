//! The execution of `unique`, which yields the first of equal elements. Elements are equal if their
//! dtypes, dimensions and items are equal bit by bit.

use std::collections::HashSet;

use super::definition;
use crate::exec::budget::Kept;
use crate::exec::call;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, nameless};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::exec::value::Value;

/// The entry of `unique` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["unique"]],
    decode: definition::decode,
    named: Some(nameless::<definition::Unique>),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(Unique::new(opening.input()?, shared)))
    })
}

/// The memory of a key in addition to its bytes: its pointer, its length and its entry in the table.
const KEY_BYTES: usize = 48;

pub(crate) struct Unique {
    input: Input,
    shared: Shared,
    /// The keys of the distinct elements of this pass.
    seen: HashSet<Box<[u8]>>,
    /// The account of the bytes of the keys.
    kept: Kept,
}

impl Unique {
    pub(crate) fn new(input: Input, shared: &Shared) -> Unique {
        Unique {
            input,
            shared: shared.clone(),
            seen: HashSet::new(),
            kept: shared.budget.kept(),
        }
    }

    /// Remembers `key`. Returns whether `key` is new.
    fn remember(&mut self, key: Vec<u8>) -> Result<bool, ExecError> {
        if self.seen.contains(&*key) {
            return Ok(false);
        }
        if !self.kept.try_add(key.len() + KEY_BYTES) {
            let limit_bytes = self.shared.budget.limit_bytes();
            let message = format!(
                "{} distinct elements fill the rest of the pipeline's budget of {limit_bytes} bytes; map elements to \
                 smaller keys, or raise the limit",
                self.seen.len()
            );
            return Err(ExecError::new(ErrorKind::Resource, "unique", message));
        }
        self.seen.insert(key.into());
        Ok(true)
    }
}

impl Iterate for Unique {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            let item = call::settled(item)?;
            let is_new = self.remember(key(&item.value)).map_err(|error| {
                token::abandon(&item.marks);
                error.at(item.origin.as_ref()).at_position(item.position)
            })?;
            if is_new {
                return Ok(Some(item));
            }
            self.shared.cancel.check("unique")?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.seen.clear();
        self.kept.clear();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("unique")?;
        state.number(self.seen.len() as u64)?;
        self.seen.iter().try_for_each(|key| state.bytes(key))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("unique")?;
        for _ in 0..state.number()? {
            let key = state.bytes()?.to_vec();
            self.remember(key)?;
        }
        self.input.restore(state)
    }
}

/// Returns a key that differs between any two different elements of one structure, whose computations
/// are done.
fn key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    for tensor in value {
        key.extend_from_slice(&(tensor.dims().len() as u64).to_le_bytes());
        tensor
            .dims()
            .iter()
            .for_each(|dim| key.extend_from_slice(&dim.to_le_bytes()));
        if tensor.dtype().item_bytes().is_some() {
            key.extend_from_slice(tensor.contiguous().unwrap_or_default());
        } else {
            tensor.for_each_string(&mut |item| {
                key.extend_from_slice(&(item.len() as u64).to_le_bytes());
                key.extend_from_slice(item);
            });
        }
    }
    key
}
