//! The elements of one task that wait for a credit, bounded by count and bytes.
//!
//! One producer fills it, the sessions of the task's clients empty it: first come, first served. Elements can be taken
//! the moment they are written, also out of a pack that is still being filled. Refuses to know credits and links.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use millstream_element::{OpenPack, Pack};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::session::Bell;
use crate::proto::send::Ending;

/// Splits that ended and were not yet told to a client; a producer that is this far ahead waits.
const MARKS_MAX: usize = 4096;

/// How much a task may hold ready.
#[derive(Debug, Clone, Copy)]
pub struct BufferLimits {
    /// Elements at most; default 65 536.
    pub elements: u64,
    /// Bytes at most, one element excepted; default 4 MiB: some packs ahead of a fast network, and little to lose.
    pub bytes: u64,
}

impl Default for BufferLimits {
    fn default() -> Self {
        Self {
            elements: 1 << 16,
            bytes: 4 << 20,
        }
    }
}

/// A split that ended behind the task's first `position` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Elements of the task before the split's end.
    pub position: u64,
    /// The split's lease.
    pub lease: u64,
    /// Which attempt at the split this was.
    pub attempt: u32,
}

/// What [`TaskBuffer::take`] found.
#[derive(Debug)]
pub enum Take {
    /// Elements.
    Elements(Pack),
    /// Nothing is ready.
    Empty,
    /// The next element has this size; a credit is worth less, or there is none.
    NoCredit {
        /// Its size, in bytes.
        bytes: u64,
    },
    /// Everything was taken and nothing follows.
    Ended(Ending),
}

/// The elements of one task that wait for a credit.
#[derive(Debug)]
pub struct TaskBuffer {
    limits: BufferLimits,
    shared: Mutex<Shared>,
    room: Condvar,
    /// Some session found nothing and wants to hear of the next element.
    is_hungry: AtomicBool,
    taken_elements: AtomicU64,
    taken_bytes: AtomicU64,
    is_producer_waiting: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    packs: VecDeque<Arc<OpenPack>>,
    marks: VecDeque<Mark>,
    ending: Option<Ending>,
    is_started: bool,
    is_stopped: bool,
    bells: Vec<Arc<Bell>>,
}

impl TaskBuffer {
    /// An empty buffer.
    pub fn new(limits: BufferLimits) -> Self {
        Self {
            limits,
            shared: Mutex::default(),
            room: Condvar::new(),
            is_hungry: AtomicBool::new(false),
            taken_elements: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            is_producer_waiting: AtomicBool::new(false),
        }
    }

    /// Takes up to `elements` that wait, in order, none larger than `element_bytes`, all from one slot.
    pub fn take(&self, elements: u64, element_bytes: u64) -> Take {
        let mut shared = self.shared.lock();
        if elements > 0 && !shared.is_started {
            shared.is_started = true;
            self.room.notify_all();
        }
        while let Some(front) = shared.packs.front() {
            if let Some(pack) = front.take(elements as usize, element_bytes) {
                self.count_taken(&pack, shared);
                return Take::Elements(pack);
            }
            if let Some(bytes) = front.next_len() {
                return Take::NoCredit { bytes };
            }
            // Only the last pack can still be written to.
            if shared.packs.len() == 1 && shared.ending.is_none() {
                break;
            }
            shared.packs.pop_front();
        }
        match &shared.ending {
            Some(ending) if shared.marks.is_empty() => Take::Ended(ending.clone()),
            Some(_) | None => Take::Empty,
        }
    }

    /// The splits that ended within what was taken.
    pub fn take_marks(&self) -> Vec<Mark> {
        let mut shared = self.shared.lock();
        let taken = self.taken_elements.load(Ordering::Relaxed);
        let due = shared
            .marks
            .iter()
            .take_while(|mark| mark.position <= taken)
            .count();
        if due > 0 {
            self.wake_producer();
            if shared.ending.is_some() {
                ring(&shared);
            }
        }
        shared.marks.drain(..due).collect()
    }

    /// Asks to be rung when something is ready. Call, then take once more before waiting.
    pub fn ask_to_ring(&self) {
        self.is_hungry.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Adds a session that is rung.
    pub(crate) fn add_bell(&self, bell: Arc<Bell>) {
        self.shared.lock().bells.push(bell);
    }

    /// Removes it.
    pub(crate) fn remove_bell(&self, bell: &Arc<Bell>) {
        self.shared.lock().bells.retain(|other| !Arc::ptr_eq(other, bell));
    }

    /// Stops the producer; what waits can still be taken.
    pub fn stop(&self) {
        let mut shared = self.shared.lock();
        shared.is_stopped = true;
        shared.ending.get_or_insert(Ending::Exhausted);
        self.room.notify_all();
        ring(&shared);
    }

    /// Elements that left the buffer so far.
    pub fn taken_elements(&self) -> u64 {
        self.taken_elements.load(Ordering::Acquire)
    }

    /// Whether production ended and everything left the buffer.
    pub fn is_drained(&self) -> bool {
        let shared = self.shared.lock();
        shared.ending.is_some() && shared.packs.iter().all(|pack| pack.next_len().is_none())
    }

    /// The producer's side: opens a further pack, which closes the one before.
    pub(super) fn push_pack(&self, pack: Arc<OpenPack>) {
        self.shared.lock().packs.push_back(pack);
    }

    /// The producer's side: a split ended.
    pub(super) fn push_mark(&self, mark: Mark) {
        let mut shared = self.shared.lock();
        shared.marks.push_back(mark);
        ring(&shared);
    }

    /// The producer's side: nothing follows.
    pub(super) fn end(&self, ending: Ending) {
        let mut shared = self.shared.lock();
        shared.ending.get_or_insert(ending);
        ring(&shared);
    }

    /// The producer's side: something was committed.
    pub(super) fn committed(&self) {
        // Pairs with the fence of `ask_to_ring`: either this sees the hunger, or the session sees the element.
        fence(Ordering::SeqCst);
        if self.is_hungry.load(Ordering::Relaxed) && self.is_hungry.swap(false, Ordering::SeqCst) {
            ring(&self.shared.lock());
        }
    }

    /// The producer's side: waits until a client wants elements. False once the task was stopped.
    pub(super) fn wait_started(&self) -> bool {
        self.wait(|shared| shared.is_started)
    }

    /// The producer's side: whether `written` elements and bytes leave room for more, without waiting.
    pub(super) fn has_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        written_elements - self.taken_elements.load(Ordering::Acquire) < self.limits.elements
            && written_bytes - self.taken_bytes.load(Ordering::Acquire) < self.limits.bytes
    }

    /// The producer's side: waits until there is room. False once the task was stopped.
    pub(super) fn wait_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        self.wait(|shared| shared.marks.len() < MARKS_MAX && self.has_room(written_elements, written_bytes))
    }

    /// Whether the task was stopped from outside.
    pub(super) fn is_stopped(&self) -> bool {
        self.shared.lock().is_stopped
    }

    fn wait(&self, is_due: impl Fn(&Shared) -> bool) -> bool {
        let mut shared = self.shared.lock();
        self.is_producer_waiting.store(true, Ordering::Relaxed);
        while !shared.is_stopped && !is_due(&shared) {
            self.room.wait(&mut shared);
        }
        self.is_producer_waiting.store(false, Ordering::Relaxed);
        !shared.is_stopped
    }

    fn count_taken(&self, pack: &Pack, shared: MutexGuard<'_, Shared>) {
        // With the gap behind the last element, as the producer counts: what is left must come to nothing in the end.
        let bytes = pack.region().len().next_multiple_of(64) as u64;
        self.taken_bytes.fetch_add(bytes, Ordering::Release);
        self.taken_elements
            .fetch_add(pack.len() as u64, Ordering::Release);
        if shared.ending.is_some() {
            // Whoever has no credit could not see the end; this may have been the last element before it.
            ring(&shared);
        }
        drop(shared);
        self.wake_producer();
    }

    /// What the producer waits for changes only under the lock that it sleeps under, so no wake-up is missed.
    fn wake_producer(&self) {
        if self.is_producer_waiting.load(Ordering::Relaxed) {
            self.room.notify_all();
        }
    }
}

fn ring(shared: &Shared) {
    for bell in &shared.bells {
        bell.ring();
    }
}
