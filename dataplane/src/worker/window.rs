//! The cross-trainer cache of one task: a sliding window over the produced elements, and the place of each
//! trainer in the window.
//! The window owns the order of the elements and the places of trainers. Elements are shared, never copied: a
//! part of a pack keeps the pack's memory, even after the window has moved on. Threads, links and other tasks
//! are unknown to the window.
//!
//! Invariant: the window stays within its bytes. No trainer's next element is beyond the end of the window,
//! and trainers with a client are never forgotten.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use millstream_element::OpenPack;

use super::queue::Found;
use crate::proto::message::Failure;

/// Maximum number of remembered trainers of a task. The trainer without a client that was unused for longest
/// is forgotten first.
pub(super) const TRAINERS_MAX: usize = 1024;

/// Maximum length of a trainer's id, in bytes. The limit is the same as for other names, and has room for a
/// path.
pub const TRAINER_ID_BYTES_MAX: usize = 256;

/// Returns the failure that trainers receive when the pipeline of their task ends (D8.4).
pub(super) fn end_of_data() -> Failure {
    let message = "end of data in the cross-trainer cache, which requires an infinite dataset: repeat it";
    Failure::new("caller", message, "", "")
}

/// The window of a task's cache. Positions count the task's elements from 0.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The packs that the task wrote, oldest first, without gaps. The last pack can still grow.
    packs: VecDeque<Stretch>,
    /// The position of the oldest kept element.
    start: u64,
    /// The position after the newest element that any trainer had. Later elements wait for the first trainer
    /// that wants them, within the limits of the task's buffer.
    end: u64,
    /// The number of bytes from `start` to `end`, including the gaps between elements.
    kept_bytes: u64,
    trainers: BTreeMap<Arc<str>, Place>,
    clients: BTreeMap<u64, Arc<str>>,
    /// The counter of uses, which shows which trainer was unused for longest.
    uses: u64,
}

/// A pack and its position in the task.
#[derive(Debug)]
struct Stretch {
    first: u64,
    pack: Arc<OpenPack>,
}

/// The place of a trainer in the window.
#[derive(Debug, Default)]
struct Place {
    /// The position of the trainer's next element, unless the element is no longer kept.
    next: u64,
    used: u64,
    clients: usize,
}

impl Window {
    /// Checks that an id is valid for a trainer. Returns the reason if not.
    pub(super) fn check_trainer(id: &str) -> Result<(), String> {
        if id.is_empty() || id.len() > TRAINER_ID_BYTES_MAX {
            let found = id.len();
            return Err(format!(
                "expected a trainer_id of 1 to {TRAINER_ID_BYTES_MAX} bytes, found {found} bytes"
            ));
        }
        Ok(())
    }

    /// Makes a client read as this trainer from now on. A trainer that is not remembered begins at the oldest
    /// kept element (D8.2).
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

    /// Forgets a client whose subscription ended. The client's trainer keeps its place.
    pub(super) fn forget(&mut self, client: u64) {
        let trainer = self.clients.remove(&client);
        if let Some(place) = trainer.and_then(|id| self.trainers.get_mut(&id)) {
            place.clients -= 1;
        }
    }

    /// Adds a pack, which closes the pack before it.
    pub(super) fn push(&mut self, pack: Arc<OpenPack>) {
        let first = self.packs.back().map_or(self.end, Stretch::upto);
        self.packs.push_back(Stretch { first, pack });
    }

    /// Takes the next elements of the client's trainer: up to `elements`, in order, each of at most
    /// `element_bytes`, all from one slot.
    ///
    /// The first trainer that takes an element brings it into the window. After a new element, the oldest
    /// elements leave until the window holds at most `capacity_bytes` (D8.2, D8.3).
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
        // The length is read before the elements are taken. Otherwise an element that is finished in between
        // would look like one for which a credit is too small.
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

    /// Returns the number of bytes kept, including the gaps between elements. The memory of a pack is freed
    /// with the last of its elements.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Returns whether every written element was given to some trainer.
    pub(super) fn is_at_end(&self) -> bool {
        self.packs.back().is_none_or(|last| last.upto() <= self.end)
    }

    /// Drops all elements kept for late trainers. Elements that no trainer had stay.
    pub(super) fn clear(&mut self) {
        self.shrink_to(0);
    }

    /// Drops the oldest elements until the window holds at most `capacity_bytes`.
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
        // The last pack can still be written, so it stays.
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

    /// Checks the invariants. Only this crate's tests walk the whole window.
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
            assert!(
                pairs.all(|(one, other)| one.upto() == other.first),
                "two packs of the window are not adjacent"
            );
        }
    }
}

impl Stretch {
    /// Returns the position after the last written element.
    fn upto(&self) -> u64 {
        self.first + self.pack.finished() as u64
    }

    /// Returns the bytes of a written element, including the gap after it.
    fn stride(&self, index: usize) -> u64 {
        let bytes = self.pack.element_len(index);
        bytes.unwrap_or_default().next_multiple_of(64)
    }
}
