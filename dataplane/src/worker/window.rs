//! The cross-trainer cache of one task: a window over what the task produced that slides forward, and where
//! each trainer stands in it.
//!
//! Owns the order of the elements and the trainers' places. Elements are shared, never copied: a part of a
//! pack that a trainer is given keeps the pack's memory whatever the window does. Refuses to know threads,
//! links and other tasks.
//!
//! Invariant: the window keeps within its bytes. No trainer's next element lies beyond the end of the window,
//! and trainers that have a client are never forgotten.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use millstream_element::OpenPack;

use super::queue::Found;
use crate::proto::message::Failure;

/// Trainers of a task that are remembered; of those without a client the longest unused is forgotten first.
/// As many as a task may have clients, so that one without a client can always be found.
pub(super) const TRAINERS_MAX: usize = 1024;

/// Longest id of a trainer, in bytes: as long as names are elsewhere, and room for a path.
pub const TRAINER_ID_BYTES_MAX: usize = 256;

/// Returns the failure that trainers hear of a task whose pipeline came to its end (D8.4).
pub(super) fn end_of_data() -> Failure {
    let message = "end of data in the cross-trainer cache, which requires an infinite dataset: repeat it";
    Failure::new("caller", message, "", "")
}

/// The window. Positions count the task's elements from 0.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The packs that the task wrote, oldest first, without gaps; the last can still grow.
    packs: VecDeque<Stretch>,
    /// The oldest element kept.
    start: u64,
    /// Behind the newest element that some trainer had. What is written behind it waits for the first who
    /// wants it, and is bounded as what waits in other tasks is.
    end: u64,
    /// Bytes from `start` to `end`, the gaps between elements included.
    kept_bytes: u64,
    trainers: BTreeMap<Arc<str>, Place>,
    clients: BTreeMap<u64, Arc<str>>,
    /// Counts uses, to tell which is the oldest.
    uses: u64,
}

/// A pack in its place.
#[derive(Debug)]
struct Stretch {
    first: u64,
    pack: Arc<OpenPack>,
}

/// The place of a trainer in the window.
#[derive(Debug, Default)]
struct Place {
    /// The next element, unless that is no longer kept.
    next: u64,
    used: u64,
    clients: usize,
}

impl Window {
    /// Returns whether a trainer may be called that; else why not.
    pub(super) fn check_trainer(id: &str) -> Result<(), String> {
        if id.is_empty() || id.len() > TRAINER_ID_BYTES_MAX {
            let found = id.len();
            return Err(format!(
                "a trainer_id has 1 to {TRAINER_ID_BYTES_MAX} bytes, this one has {found}"
            ));
        }
        Ok(())
    }

    /// A client reads as this trainer from now on. One that is not remembered begins at the oldest element
    /// kept (D8.2).
    pub(super) fn admit(&mut self, client: u64, trainer: &str) {
        self.forget(client);
        if !self.trainers.contains_key(trainer) && self.trainers.len() >= TRAINERS_MAX {
            self.forget_a_trainer();
        }
        let id: Arc<str> = match self.trainers.get_key_value(trainer) {
            Some((id, _)) => id.clone(),
            None => trainer.into(),
        };
        self.uses += 1;
        let place = self.trainers.entry(id.clone()).or_default();
        place.used = self.uses;
        place.clients += 1;
        self.clients.insert(client, id);
        self.check_invariants();
    }

    /// A client's subscription is no more; its trainer keeps its place.
    pub(super) fn forget(&mut self, client: u64) {
        let trainer = self.clients.remove(&client);
        if let Some(place) = trainer.and_then(|id| self.trainers.get_mut(&id)) {
            place.clients -= 1;
        }
    }

    /// Adds a pack, which closes the one before.
    pub(super) fn push(&mut self, pack: Arc<OpenPack>) {
        let first = self.packs.back().map_or(self.end, Stretch::upto);
        self.packs.push_back(Stretch { first, pack });
    }

    /// Takes the client's next elements: up to `elements` of its trainer's, in order, none larger than
    /// `element_bytes`, all from one slot.
    ///
    /// The first trainer that takes an element brings it into the window; the oldest leave until the window
    /// holds at most `capacity_bytes` (D8.2, D8.3).
    pub(super) fn take(
        &mut self,
        client: u64,
        elements: u64,
        element_bytes: u64,
        capacity_bytes: u64,
    ) -> Found {
        let place = self.clients.get(&client).and_then(|id| self.trainers.get_mut(id));
        let Some(place) = place else {
            return Found::NoPlace;
        };
        let next = place.next.max(self.start);
        let behind = self.packs.partition_point(|stretch| stretch.first <= next);
        let Some(stretch) = behind.checked_sub(1).and_then(|at| self.packs.get(at)) else {
            return Found::Nothing;
        };
        let index = (next - stretch.first) as usize;
        // Looked at first: an element that is finished in between is no reason to say that a credit is worth
        // less.
        let Some(bytes) = stretch.pack.element_len(index) else {
            return Found::Nothing;
        };
        let Some(pack) = stretch.pack.part(index, elements as usize, element_bytes) else {
            return Found::NoCredit { bytes };
        };
        let upto = next + pack.len() as u64;
        self.uses += 1;
        (place.next, place.used) = (upto, self.uses);
        let fresh_elements = upto.saturating_sub(self.end);
        let fresh = index + pack.len() - fresh_elements as usize..index + pack.len();
        let fresh_bytes = fresh.map(|index| stretch.stride(index)).sum();
        if fresh_elements > 0 {
            self.end = upto;
            self.kept_bytes += fresh_bytes;
            self.shrink_to(capacity_bytes);
        }
        Found::Elements {
            pack,
            fresh_elements,
            fresh_bytes,
        }
    }

    /// Bytes kept, the gaps between elements included. The memory of a pack is freed with the last of its
    /// elements.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Returns whether nothing was written that nobody had.
    pub(super) fn is_at_end(&self) -> bool {
        self.packs.back().is_none_or(|last| last.upto() <= self.end)
    }

    /// Keeps nothing for those who come late; what was written and nobody had stays.
    pub(super) fn clear(&mut self) {
        self.shrink_to(0);
    }

    /// Lets the oldest go until what is kept takes no more than this.
    fn shrink_to(&mut self, capacity_bytes: u64) {
        while self.kept_bytes > capacity_bytes
            && let Some(oldest) = self.packs.front()
        {
            if oldest.upto() <= self.start {
                self.packs.pop_front();
                continue;
            }
            self.kept_bytes -= oldest.stride((self.start - oldest.first) as usize);
            self.start += 1;
        }
        // The last pack can still be written to.
        while self.packs.len() > 1
            && self
                .packs
                .front()
                .is_some_and(|oldest| oldest.upto() <= self.start)
        {
            self.packs.pop_front();
        }
        self.check_invariants();
    }

    fn forget_a_trainer(&mut self) {
        let unused = self.trainers.iter().filter(|(_, place)| place.clients == 0);
        let oldest = unused
            .min_by_key(|(_, place)| place.used)
            .map(|(id, _)| id.clone());
        if let Some(id) = oldest {
            self.trainers.remove(&id);
        }
    }

    /// This crate's tests walk everything; others rely on it.
    fn check_invariants(&self) {
        debug_assert!(self.start <= self.end);
        if cfg!(test) {
            let of = |position: u64| {
                let at = self.packs.partition_point(|stretch| stretch.first <= position) - 1;
                self.packs[at].stride((position - self.packs[at].first) as usize)
            };
            let kept: u64 = (self.start..self.end).map(of).sum();
            assert_eq!(kept, self.kept_bytes);
            assert!(self.trainers.values().all(|place| place.next <= self.end));
            let clients: usize = self.trainers.values().map(|place| place.clients).sum();
            assert_eq!(clients, self.clients.len());
            let mut pairs = self.packs.iter().zip(self.packs.iter().skip(1));
            assert!(pairs.all(|(one, other)| one.upto() == other.first), "a gap");
        }
    }
}

impl Stretch {
    /// Behind the last element written.
    fn upto(&self) -> u64 {
        self.first + self.pack.finished() as u64
    }

    /// Bytes of a written element and the gap behind it.
    fn stride(&self, index: usize) -> u64 {
        let bytes = self.pack.element_len(index);
        bytes.unwrap_or_default().next_multiple_of(64)
    }
}
