//! The elements of one task that wait for a credit, bounded by count and bytes.
//!
//! One producer fills it, the sessions of the task's clients empty it: first come, first served. Elements can be taken
//! the moment they are written, also out of a pack that is still being filled. Refuses to know credits and links.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use millstream_element::{OpenPack, Pack};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::owed::Owed;
use super::session::Bell;
use crate::proto::send::Ending;

/// Splits that ended and were not yet told to a client; a producer that ends one more waits.
const MARKS_MAX: usize = 4096;

/// How much a task may hold ready.
#[derive(Debug, Clone, Copy)]
pub struct BufferLimits {
    /// Elements at most; default 65 536.
    pub elements: u64,
    /// Bytes at most, one element excepted; default 2 MiB: some packs ahead of a fast network, within the caches,
    /// and little to lose.
    pub bytes: u64,
}

impl Default for BufferLimits {
    fn default() -> Self {
        Self {
            elements: 1 << 16,
            bytes: 2 << 20,
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
    /// Everything was taken and nothing follows; unless the task failed, the ends of all splits were told.
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
    owed: Owed,
    /// How the producer ended. One that was stopped before has no ending: nobody is to take that for the end of the data.
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

    /// Takes up to `elements` that wait, in order, none larger than `element_bytes`, all from one slot. `client` owes them
    /// until it acknowledges them.
    pub fn take(&self, client: u64, elements: u64, element_bytes: u64) -> Take {
        let mut shared = self.shared.lock();
        if elements > 0 && !shared.is_started {
            shared.is_started = true;
            self.room.notify_all();
        }
        while let Some(front) = shared.packs.front() {
            if let Some(pack) = front.take(elements as usize, element_bytes) {
                self.count_taken(client, &pack, shared);
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
            // An end that waits for a client which owes elements; a failure is told at once.
            Some(Ending::Exhausted) if !shared.marks.is_empty() => Take::Empty,
            Some(ending) => Take::Ended(ending.clone()),
            None => Take::Empty,
        }
    }

    /// At most `most` of the splits that ended within what was taken and of which no client but `client` owes elements:
    /// what one client is told must not stand for elements on their way to another (D5.2).
    pub fn take_marks(&self, client: u64, most: usize) -> Vec<Mark> {
        let mut shared = self.shared.lock();
        let taken = self.taken_elements.load(Ordering::Relaxed);
        if shared.marks.front().is_none_or(|mark| mark.position > taken) {
            return Vec::new();
        }
        let reach = taken.min(shared.owed.first_of_others(client));
        let is_due = |mark: &&Mark| mark.position <= reach;
        let due = shared.marks.iter().take(most).take_while(is_due).count();
        let marks = shared.marks.drain(..due).collect();
        if due > 0 {
            self.wake_producer();
            if shared.ending.is_some() && shared.marks.is_empty() {
                ring(&shared);
            }
        }
        marks
    }

    /// Books that a client has the first `received` elements of its subscription.
    pub(crate) fn acknowledge(&self, client: u64, received: u64) {
        let mut shared = self.shared.lock();
        let passed = shared.owed.acknowledge(client, received);
        // Others may now be told of a split that this client owed elements of.
        if shared
            .marks
            .front()
            .is_some_and(|mark| passed.start < mark.position && !passed.is_empty())
        {
            ring(&shared);
        }
    }

    /// Forgets a client: what it did not acknowledge never will be.
    pub(crate) fn forget(&self, client: u64) {
        let mut shared = self.shared.lock();
        shared.owed.forget(client);
        if !shared.marks.is_empty() {
            ring(&shared);
        }
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

    /// Stops the producer; what waits can still be taken. A task that had not ended never does (D5.5).
    pub fn stop(&self) {
        let mut shared = self.shared.lock();
        shared.is_stopped = true;
        self.room.notify_all();
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

    /// The producer's side: opens a further pack, which closes the one before. Has no effect once the task was stopped.
    pub(super) fn push_pack(&self, pack: Arc<OpenPack>) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped {
            shared.packs.push_back(pack);
        }
    }

    /// The producer's side: a split ended. Waits while very many ends are untold; has no effect once the task was stopped.
    pub(super) fn push_mark(&self, mark: Mark) {
        let mut shared = self.shared.lock();
        if self.wait(&mut shared, |shared| shared.marks.len() < MARKS_MAX) {
            shared.marks.push_back(mark);
            ring(&shared);
        }
    }

    /// The producer's side: nothing follows. Has no effect once the task was stopped.
    pub(super) fn end(&self, ending: Ending) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped {
            shared.ending.get_or_insert(ending);
            ring(&shared);
        }
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
        self.wait(&mut self.shared.lock(), |shared| shared.is_started)
    }

    /// The producer's side: whether `written` elements and bytes leave room for more, without waiting.
    pub(super) fn has_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        written_elements - self.taken_elements.load(Ordering::Acquire) < self.limits.elements
            && written_bytes - self.taken_bytes.load(Ordering::Acquire) < self.limits.bytes
    }

    /// The producer's side: waits until there is room. False once the task was stopped.
    pub(super) fn wait_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        self.wait(&mut self.shared.lock(), |_| {
            self.has_room(written_elements, written_bytes)
        })
    }

    /// The producer's side: waits for something that nobody announces. False once the task was stopped.
    pub(super) fn wait_a_moment(&self, moment: Duration) -> bool {
        let mut shared = self.shared.lock();
        self.is_producer_waiting.store(true, Ordering::Relaxed);
        if !shared.is_stopped {
            self.room.wait_for(&mut shared, moment);
        }
        self.is_producer_waiting.store(false, Ordering::Relaxed);
        !shared.is_stopped
    }

    /// The producer's side: whether a client asked for a first element.
    pub(super) fn is_started(&self) -> bool {
        self.shared.lock().is_started
    }

    /// Whether the producer waits for a client to begin, for room or for memory.
    #[cfg(test)]
    pub(super) fn is_producer_waiting(&self) -> bool {
        // The producer sleeps once the lock it took before is free.
        let _asleep = self.shared.lock();
        self.is_producer_waiting.load(Ordering::Relaxed)
    }

    /// Whether the task was stopped from outside.
    pub(super) fn is_stopped(&self) -> bool {
        self.shared.lock().is_stopped
    }

    fn wait(&self, shared: &mut MutexGuard<'_, Shared>, is_due: impl Fn(&Shared) -> bool) -> bool {
        self.is_producer_waiting.store(true, Ordering::Relaxed);
        while !shared.is_stopped && !is_due(shared) {
            self.room.wait(shared);
        }
        self.is_producer_waiting.store(false, Ordering::Relaxed);
        !shared.is_stopped
    }

    fn count_taken(&self, client: u64, pack: &Pack, mut shared: MutexGuard<'_, Shared>) {
        // With the gap behind the last element, as the producer counts: what is left must come to nothing in the end.
        let bytes = pack.region().len().next_multiple_of(64) as u64;
        self.taken_bytes.fetch_add(bytes, Ordering::Release);
        let elements = pack.len() as u64;
        let first = self.taken_elements.fetch_add(elements, Ordering::Release);
        shared.owed.take(client, first..first + elements);
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
