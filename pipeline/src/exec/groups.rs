//! Elements collected by key until a group is full. The caller decides which key an element has and how a
//! full group is used.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::exec::budget::{Budget, Kept};
use crate::exec::call::{self, Chain};
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::exec::value::Tensor;
use crate::graph::BUFFER_MAX;

/// The groups that are not full, by key.
pub(crate) struct Groups {
    op: &'static str,
    open: BTreeMap<i64, Group>,
    /// The number of elements in all groups.
    held: u64,
    /// The byte count of all elements in the groups.
    kept: Kept,
    limit_bytes: usize,
}

struct Group {
    items: Vec<Item>,
    size: u64,
}

impl Groups {
    pub(crate) fn new(op: &'static str, budget: &Budget) -> Groups {
        Groups {
            op,
            open: BTreeMap::new(),
            held: 0,
            kept: budget.kept(),
            limit_bytes: budget.limit_bytes(),
        }
    }

    /// Adds an element, and returns its group if the group is full now. `size` returns the number of elements
    /// of a full group, and is called when a group begins.
    pub(crate) fn add(
        &mut self,
        key: i64,
        item: Item,
        size: impl FnOnce() -> Result<u64, ExecError>,
    ) -> Result<Option<Vec<Item>>, ExecError> {
        if self.held >= BUFFER_MAX {
            token::abandon(&item.marks);
            let message = format!(
                "{BUFFER_MAX} elements of {} keys are held, and no window is full: use smaller windows or fewer keys",
                self.open.len()
            );
            return Err(ExecError::new(ErrorKind::Resource, self.op, message));
        }
        if !self.kept.try_add(item.held_bytes()) {
            token::abandon(&item.marks);
            let message = format!(
                "{} elements of {} keys exceed the rest of the {} bytes that a pipeline may buffer: use smaller windows or fewer \
                 keys, or raise the limit",
                self.held,
                self.open.len(),
                self.limit_bytes
            );
            return Err(ExecError::new(ErrorKind::Resource, self.op, message));
        }
        let group = match self.open.entry(key) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(place) => {
                let size = size().inspect_err(|_| token::abandon(&item.marks))?;
                let items = Vec::new();
                place.insert(Group { items, size })
            }
        };
        group.items.push(item);
        self.held += 1;
        if (group.items.len() as u64) < group.size {
            return Ok(None);
        }
        let full = self.open.remove(&key);
        Ok(full.map(|group| self.taken(group)))
    }

    /// Removes the group with the smallest key. Returns the key, the elements, and the number of elements of
    /// a full group.
    pub(crate) fn pop_first(&mut self) -> Option<(i64, Vec<Item>, u64)> {
        let (key, group) = self.open.pop_first()?;
        let size = group.size;
        Some((key, self.taken(group), size))
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.held = 0;
        self.kept.clear();
    }

    pub(crate) fn save(&self, state: &mut StateWriter) -> Result<(), StateError> {
        state.number(self.open.len() as u64)?;
        for (key, group) in &self.open {
            state.number(key.cast_unsigned())?;
            state.number(group.size)?;
            state.number(group.items.len() as u64)?;
            group.items.iter().try_for_each(|item| state.item(item))?;
        }
        Ok(())
    }

    pub(crate) fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        for _ in 0..state.number()? {
            let key = state.number()?.cast_signed();
            let size = state.number()?;
            let mut items = Vec::new();
            for _ in 0..state.number()? {
                items.push(state.item()?);
            }
            self.held = self.held.saturating_add(items.len() as u64);
            let bytes = items.iter().map(Item::held_bytes).sum();
            if !self.kept.try_add(bytes) {
                let message = format!(
                    "the saved groups exceed the {} bytes that a pipeline may buffer: raise the limit",
                    self.limit_bytes
                );
                return Err(ExecError::new(ErrorKind::Resource, self.op, message).into());
            }
            self.open.insert(key, Group { items, size });
        }
        Ok(())
    }

    fn taken(&mut self, group: Group) -> Vec<Item> {
        self.held = self.held.saturating_sub(group.items.len() as u64);
        self.kept.remove(group.items.iter().map(Item::held_bytes).sum());
        group.items
    }
}

/// Returns the `i64` that `chain` makes from `item` in pass `pass`, for the operation `op`. Returns `None` if
/// the chain fails and `faults` leave the element out.
pub(crate) fn number(
    op: &str,
    chain: &Chain,
    item: &Item,
    pass: u64,
    faults: &Faults,
) -> Result<Option<i64>, ExecError> {
    let made = call::run(chain, item.clone(), pass, faults)?;
    if made.is_none() && faults.may_leave_out() {
        return Ok(None);
    }
    let made = made.map(call::settled).transpose()?;
    let number = made.and_then(|made| made.value.first().and_then(Tensor::as_i64));
    number.map(Some).map_or_else(
        || {
            let message = "the function returned no number for an element";
            let error = ExecError::new(ErrorKind::Value, op, message).at(item.origin.as_ref());
            let error = error.at_position(item.position);
            faults.leave_out(error, &item.marks).map(|()| None)
        },
        Ok,
    )
}
