//! The turns of the datasets in an `interleave`. Each open dataset has a slot; after one ends, the next
//! element's dataset takes the slot at that slot's turn. Knows nothing of how a dataset is read.

use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Cycle;

pub(crate) struct Turns<T> {
    cycle: Cycle,
    /// At most as many as the cycle is long; none of them is empty once the input has ended.
    slots: Vec<Option<T>>,
    /// Slot whose turn it is; one beyond the last for a slot that is not there yet.
    turn: usize,
    /// Elements of this turn.
    taken: u64,
    /// Slots that are not empty.
    open: usize,
    input_ended: bool,
}

/// Content of the slot whose turn it is.
pub(crate) enum Turn<'t, T> {
    /// A dataset.
    Open(&'t mut T),
    /// Nothing: the next element's dataset is wanted.
    Vacant,
    /// Nothing, and nothing will ever be in any slot.
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

    /// Returns how many slots there are, empty ones too.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns how many datasets are open.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// The datasets that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Returns the open datasets, to be changed.
    pub(crate) fn open_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Takes all of them out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> {
        self.open = 0;
        self.slots.drain(..).flatten()
    }

    /// An element was taken from the dataset whose turn it is.
    pub(crate) fn took(&mut self) {
        self.taken = self.taken.saturating_add(1);
        if self.taken >= self.cycle.block {
            self.pass_on();
        }
    }

    /// On to the next slot.
    pub(crate) fn pass_on(&mut self) {
        self.taken = 0;
        self.turn += 1;
        let slots = if self.input_ended {
            self.slots.len()
        } else {
            // A cycle has at most 4096 slots.
            self.cycle.length as usize
        };
        // A slot that is not there yet follows the last one that is: those beyond it are as empty.
        if self.turn >= slots || self.turn > self.slots.len() {
            self.turn = 0;
        }
    }

    /// Empties the slot whose dataset has ended. No other comes in its place when the input has ended too.
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

    /// Puts the dataset of the next element into the slot whose turn it is; `None` when the input has ended.
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

    /// Begins again, without any dataset.
    pub(crate) fn restart(&mut self) {
        self.slots.clear();
        (self.turn, self.taken, self.open, self.input_ended) = (0, 0, 0, false);
    }

    /// Writes what it knows and, by `save`, the datasets.
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

    /// Reads what [`Turns::save`] wrote.
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
                "turn {turn} of {slots} datasets, of which {} may be open",
                self.cycle.length
            );
            return Err(StateError::Malformed(reason));
        }
        // At most 4096, as is the length of a cycle.
        self.turn = turn as usize;
        for _ in 0..slots {
            let open = state.flag()?.then(|| restore(state)).transpose()?;
            self.open += usize::from(open.is_some());
            self.slots.push(open);
        }
        Ok(())
    }
}
