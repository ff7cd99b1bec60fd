//! The turns of the datasets in an `interleave`. Each open dataset has a slot. After a dataset ends, the
//! dataset of the next element takes the slot at the slot's turn. This module does not know how a dataset is
//! read.

use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Cycle;

pub(crate) struct Turns<T> {
    cycle: Cycle,
    /// The slots, at most as many as the cycle is long. No slot is empty once the input has ended.
    slots: Vec<Option<T>>,
    /// The index of the slot whose turn it is. The index one beyond the last slot is a slot that does not
    /// exist yet.
    turn: usize,
    /// The number of elements taken in this turn.
    taken: u64,
    /// The number of slots that hold a dataset.
    open: usize,
    input_ended: bool,
}

/// The content of the slot whose turn it is.
pub(crate) enum Turn<'t, T> {
    /// The slot holds an open dataset.
    Open(&'t mut T),
    /// The slot is empty, and should get the dataset of the next element.
    Vacant,
    /// All slots are empty, and no further dataset will arrive.
    Over,
}

impl<T> Turns<T> {
    pub(crate) fn new(cycle: Cycle) -> Turns<T> {
        Turns {
            cycle,
            slots: Vec::new(),
            turn: 0,
            taken: 0,
            open: 0,
            input_ended: false,
        }
    }

    pub(crate) fn now(&mut self) -> Turn<'_, T> {
        match self.slots.get_mut(self.turn) {
            Some(Some(open)) => Turn::Open(open),
            Some(None) | None if self.input_ended => Turn::Over,
            Some(None) | None => Turn::Vacant,
        }
    }

    /// Returns the number of slots, including empty slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of open datasets.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// Returns the open datasets.
    pub(crate) fn open(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Returns mutable references to the open datasets.
    pub(crate) fn open_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Removes and returns all open datasets.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> {
        self.open = 0;
        self.slots.drain(..).flatten()
    }

    /// Counts an element that was taken from the dataset whose turn it is.
    pub(crate) fn took(&mut self) {
        self.taken = self.taken.saturating_add(1);
        if self.taken >= self.cycle.block {
            self.pass_on();
        }
    }

    /// Moves on to the next slot.
    pub(crate) fn pass_on(&mut self) {
        self.taken = 0;
        self.turn += 1;
        let slots = if self.input_ended {
            self.slots.len()
        } else {
            // The conversion keeps the value: a cycle has at most 4096 slots.
            self.cycle.length as usize
        };
        // A slot that does not exist yet follows the last existing slot. All slots beyond it are empty too.
        if self.turn >= slots || self.turn > self.slots.len() {
            self.turn = 0;
        }
    }

    /// Empties the slot whose dataset has ended. If the input has ended too, the slot is removed.
    pub(crate) fn close(&mut self) {
        self.open -= 1;
        if !self.input_ended {
            self.slots[self.turn] = None;
            return self.pass_on();
        }
        self.slots.remove(self.turn);
        self.taken = 0;
        if self.turn == self.slots.len() {
            self.turn = 0;
        }
    }

    /// Puts the dataset of the next element into the slot whose turn it is. `None` means that the input has
    /// ended.
    pub(crate) fn fill(&mut self, next: Option<T>) {
        if next.is_some() {
            self.open += 1;
            match self.slots.get_mut(self.turn) {
                Some(slot) => *slot = next,
                None => self.slots.push(next),
            }
            return;
        }
        self.input_ended = true;
        let open_before = self.slots.iter().take(self.turn).flatten().count();
        self.slots.retain(Option::is_some);
        self.turn = if open_before == self.slots.len() {
            0
        } else {
            open_before
        };
    }

    /// Restarts the turns without any dataset.
    pub(crate) fn restart(&mut self) {
        self.slots.clear();
        (self.turn, self.taken, self.open, self.input_ended) = (0, 0, 0, false);
    }

    /// Writes the turns, and writes each dataset by calling `save`.
    pub(crate) fn save(
        &mut self,
        state: &mut StateWriter,
        mut save: impl FnMut(&mut T, &mut StateWriter) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        state.number(self.turn as u64)?;
        state.number(self.taken)?;
        state.flag(self.input_ended)?;
        state.number(self.slots.len() as u64)?;
        for slot in &mut self.slots {
            state.flag(slot.is_some())?;
            if let Some(open) = slot {
                save(open, state)?;
            }
        }
        Ok(())
    }

    /// Reads the turns that [`Turns::save`] wrote.
    pub(crate) fn restore(
        &mut self,
        state: &mut StateReader<'_>,
        mut restore: impl FnMut(&mut StateReader<'_>) -> Result<T, StateError>,
    ) -> Result<(), StateError> {
        let turn = state.number()?;
        self.taken = state.number()?;
        self.input_ended = state.flag()?;
        let slots = state.number()?;
        if slots > self.cycle.length || turn > slots || turn >= self.cycle.length {
            let reason = format!(
                "expected turns of at most {} datasets, found turn {turn} of {slots} datasets",
                self.cycle.length
            );
            return Err(StateError::Malformed(reason));
        }
        // The conversion keeps the value: the length of a cycle is at most 4096.
        self.turn = turn as usize;
        for _ in 0..slots {
            let open = state.flag()?.then(|| restore(state)).transpose()?;
            self.open += usize::from(open.is_some());
            self.slots.push(open);
        }
        Ok(())
    }
}
