//! The elements of one task that wait for a credit, limited by count and bytes.
//!
//! One producer fills the buffer, and the sessions of the task's clients empty it. The task's [`TaskMode`]
//! decides which client gets which element. Elements can be taken once they are written, even from a pack
//! that is still being filled. Credits and links are unknown to the buffer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_element::{OpenPack, Pack};
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use super::bell::Bell;
use super::buffer_limits::BufferLimits;
use super::cache::Cache;
use super::clock;
use super::debts::{Debts, EndTold};
use super::division::Division;
use super::mode::TaskMode;
use super::pack_limits::PackLimits;
use super::place::{Denied, Role};
use super::queue::Found;
use super::turns::Turn;
use super::wake_request::WakeRequest;
use super::window;
use crate::linger::Linger;
use crate::proto::send::Ending;

/// Maximum number of ended splits that no client was told of. At the maximum the producer waits.
const MARKS_MAX: usize = 4096;

/// Maximum number of elements of any size that may wait beyond [`BufferLimits::bytes`] if a client takes
/// elements without a copy.
const LOCAL_ELEMENTS: u64 = 4;

/// Maximum bytes of the elements that may wait beyond [`BufferLimits::bytes`].
const LOCAL_BYTES: u64 = 64 << 20;

/// A split that ended after the task's first `position` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the task's elements before the end of the split.
    pub position: u64,
    /// The lease of the split.
    pub lease: u64,
    /// The attempt number of the split.
    pub attempt: u32,
}

/// The result of [`TaskBuffer::take`].
#[derive(Debug)]
pub enum Take {
    /// Elements.
    Elements(Pack),
    /// Nothing is ready.
    Empty,
    /// The ready elements are for another client. The client asks again after a ring, or at this time.
    NotYet(Instant),
    /// The next element has this size, but no credit is large enough, or no credit is left.
    NoCredit {
        /// The size, in bytes.
        bytes: u64,
    },
    /// Everything was taken and nothing follows. Unless the task failed, all ends of splits were told.
    Ended(Ending),
}

/// Maximum number of sessions that a producer steps itself. With more sessions, the producer only wakes each
/// session's thread.
const STEPPED_MAX: usize = 4;

/// The elements of one task that wait for a credit.
#[derive(Debug)]
pub struct TaskBuffer {
    limits: BufferLimits,
    mode: TaskMode,
    /// The result of [`TaskMode::lanes`].
    lanes: u64,
    shared: Mutex<Shared>,
    room: Condvar,
    wake_request: WakeRequest,
    taken_elements: AtomicU64,
    taken_bytes: AtomicU64,
    released: AtomicU64,
    is_producer_waiting: AtomicBool,
    /// True if a client takes elements without a copy.
    is_local: AtomicBool,
    /// True after all clients have left, until a new client asks.
    is_deserted: AtomicBool,
    /// True if the dispatcher must be told of splits held by several clients.
    is_to_share: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    division: Division,
    /// The splits held by clients, if each element goes to one client.
    debts: Debts,
    /// True while every element named its splits, so that no element counts for a wrong split.
    is_traced: bool,
    marks: VecDeque<Mark>,
    /// The ending of the producer. A producer that was stopped before its end has none, so that the stop is
    /// not taken for the end of the data.
    ending: Option<Ending>,
    /// The number of groups that must be released before the ending is told.
    groups_before_ending: u64,
    is_started: bool,
    /// True if the task runs to its end even without clients.
    goes_on_alone: bool,
    is_stopped: bool,
    /// The bells of sessions, each with the client that its session serves.
    bells: Vec<(u64, Arc<Bell>)>,
}

impl TaskBuffer {
    /// Makes an empty buffer. `cache` limits what all tasks of the worker keep for the cross-trainer cache.
    pub(super) fn new(limits: BufferLimits, mode: TaskMode, cache: &Arc<Cache>) -> Self {
        let shared = Shared {
            division: Division::new(mode, cache),
            debts: Debts::default(),
            is_traced: true,
            marks: VecDeque::new(),
            ending: None,
            groups_before_ending: 0,
            is_started: false,
            goes_on_alone: false,
            is_stopped: false,
            bells: Vec::new(),
        };
        Self {
            limits,
            mode,
            lanes: mode.lanes() as u64,
            shared: Mutex::new(shared),
            room: Condvar::new(),
            wake_request: WakeRequest::new(),
            taken_elements: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            released: AtomicU64::new(0),
            is_producer_waiting: AtomicBool::new(false),
            is_local: AtomicBool::new(false),
            is_deserted: AtomicBool::new(false),
            is_to_share: AtomicBool::new(false),
        }
    }

    /// Checks that a client can have the place that it asks for. `is_new` is true if the client has no
    /// subscription yet.
    pub(super) fn check_place(&self, client: u64, role: Role<'_>, is_new: bool) -> Result<(), Denied> {
        self.shared.lock().division.check_place(client, role, is_new)
    }

    /// Gives a client the place that [`Self::check_place`] allowed.
    pub(super) fn take_place(&self, client: u64, role: Role<'_>) {
        self.shared.lock().division.take_place(client, role);
    }

    /// Takes up to `elements` that wait for `client`, in order, each of at most `element_bytes`, all from one
    /// slot. The client owes the elements until it acknowledges them.
    pub fn take(&self, client: u64, elements: u64, element_bytes: u64) -> Take {
        let mut shared = self.shared.lock();
        if elements > 0 && (!shared.is_started || self.is_deserted.load(Ordering::Relaxed)) {
            shared.is_started = true;
            self.is_deserted.store(false, Ordering::Release);
            self.room.notify_all();
        }
        if shared.is_over_in_step() {
            return shared.told_ending();
        }
        let has_ended = shared.ending.is_some();
        let may_take = match shared.division.turn(client, elements, clock::now) {
            Turn::Take(may_take) => may_take,
            Turn::Wait(until) => return Take::NotYet(until),
        };
        match shared.division.take(client, may_take, element_bytes, has_ended) {
            Found::Elements {
                pack,
                fresh_elements,
                fresh_bytes,
            } => {
                if self.mode == TaskMode::FirstCome && !shared.debts.give(client, &pack) {
                    shared.is_traced = false;
                }
                self.count_taken(client, fresh_elements, fresh_bytes, shared);
                return Take::Elements(pack);
            }
            Found::NoCredit { bytes } => {
                if elements > 0 {
                    shared.division.wait(client);
                }
                return Take::NoCredit { bytes };
            }
            Found::NoPlace => return Take::Empty,
            Found::Nothing if elements > 0 => shared.division.wait(client),
            Found::Nothing => {}
        }
        shared.told_ending()
    }

    /// Returns at most `most` ended splits whose elements were all taken, if no other client owes or holds
    /// elements of them. A message to one client must not cover elements in flight to another client (D5.2).
    /// The message must not cover elements that would be lost with another client either (D5.6).
    pub fn take_marks(&self, client: u64, most: usize) -> Vec<Mark> {
        let mut shared = self.shared.lock();
        if shared.is_over_in_step() {
            return shared.take_due(client, u64::MAX, most);
        }
        let taken = self.taken_elements.load(Ordering::Relaxed);
        if shared.marks.front().is_none_or(|mark| mark.position > taken) {
            return Vec::new();
        }
        let reach = match self.mode {
            TaskMode::FirstCome if shared.is_traced => taken,
            TaskMode::FirstCome | TaskMode::Coordinated { .. } | TaskMode::Cached => {
                shared.division.reach(client, taken)
            }
        };
        let due = shared.take_due(client, reach, most);
        if shared.debts.has_unsaid() {
            self.is_to_share.store(true, Ordering::Relaxed);
        }
        if !due.is_empty() {
            self.wake_producer();
            if shared.ending.is_some() && shared.marks.is_empty() {
                ring(&shared);
            }
        }
        due
    }

    /// Records that a client's user has finished with the first `handed` elements of its subscription (D5.6).
    pub(crate) fn hand_over(&self, client: u64, handed: u64) {
        let mut shared = self.shared.lock();
        if shared.debts.hand_over(client, handed) && !shared.marks.is_empty() {
            ring(&shared);
        }
    }

    /// Calls `look_up` with the splits held by clients. The call must not affect what clients wait for.
    pub(super) fn with_debts<T>(&self, look_up: impl FnOnce(&mut Debts) -> T) -> T {
        look_up(&mut self.shared.lock().debts)
    }

    /// Returns whether clients were found to share splits since the last call.
    pub(crate) fn is_to_share(&self) -> bool {
        self.is_to_share.load(Ordering::Relaxed) && self.is_to_share.swap(false, Ordering::Relaxed)
    }

    /// Records that the dispatcher knows that a client holds these shared splits.
    pub(crate) fn note_shared(&self, client: u64, leases: &[u64]) {
        let mut shared = self.shared.lock();
        shared.debts.heard_shared(client, leases);
        ring(&shared);
    }

    /// Records that the dispatcher knows of splits lost with a client, so that others may be told their end.
    pub(crate) fn note_heard(&self, client: u64, leases: &[u64]) {
        let mut shared = self.shared.lock();
        shared.debts.heard(client, leases);
        ring(&shared);
    }

    /// Records that a client has the first `received` elements of its subscription.
    pub(crate) fn acknowledge(&self, client: u64, received: u64) {
        let mut shared = self.shared.lock();
        let mark = shared.marks.front().map(|mark| mark.position);
        if shared.division.acknowledge(client, received, mark) {
            self.released.store(shared.division.released(), Ordering::Release);
            ring(&shared);
        }
    }

    /// Forgets a client and the elements that it did not acknowledge. Without clients, nothing is produced
    /// until a client asks (D4.5). `has_all` is true if the client received everything, so that it reports
    /// unfinished elements itself. Returns whether splits were lost of which the dispatcher must be told.
    pub(crate) fn forget(&self, client: u64, has_all: bool) -> bool {
        let mut shared = self.shared.lock();
        shared.division.forget(client);
        let has_missed = !has_all && shared.debts.miss(client);
        shared.debts.end(client);
        shared.debts.leave(client);
        if self.mode == TaskMode::FirstCome && shared.bells.is_empty() && !shared.goes_on_alone {
            self.is_deserted.store(true, Ordering::Release);
        }
        if !shared.marks.is_empty() {
            ring(&shared);
        }
        has_missed
    }

    /// Records that a client was told of a ready element and will grant credits. The client takes its turn
    /// like the others.
    pub(crate) fn await_credits(&self, client: u64) {
        self.shared.lock().division.wait(client);
    }

    /// Asks for a ring when elements are ready. The caller must call [`Self::take`] again before it waits.
    pub fn ask_to_ring(&self) {
        self.wake_request.ask();
    }

    /// Adds the bell of a session that serves a client.
    pub(crate) fn add_bell(&self, client: u64, bell: Arc<Bell>) {
        self.shared.lock().bells.push((client, bell));
    }

    /// Removes the wake-up bell of a session that no longer waits.
    pub(crate) fn remove_bell(&self, bell: &Arc<Bell>) {
        self.shared
            .lock()
            .bells
            .retain(|(_, other)| !Arc::ptr_eq(other, bell));
    }

    /// Lets the producer begin without a client's request, and continue after all clients have left.
    pub fn begin(&self) {
        let mut shared = self.shared.lock();
        (shared.is_started, shared.goes_on_alone) = (true, true);
        self.is_deserted.store(false, Ordering::Release);
        self.room.notify_all();
    }

    /// Stops the producer. Waiting elements can still be taken, and nothing is kept for late trainers. A task
    /// that had not ended never ends (D5.5).
    pub fn stop(&self) {
        let mut shared = self.shared.lock();
        shared.is_stopped = true;
        shared.division.stop();
        self.room.notify_all();
    }

    /// Returns the number of groups that every consumer has, and may hand over (D7.3). The number is 0
    /// outside coordinated reads.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Returns the number of elements that left the buffer so far.
    pub fn taken_elements(&self) -> u64 {
        self.taken_elements.load(Ordering::Acquire)
    }

    /// Returns whether production ended and everything left the buffer.
    pub fn is_drained(&self) -> bool {
        let shared = self.shared.lock();
        shared.ending.is_some() && (shared.is_over_in_step() || shared.division.is_drained())
    }

    /// Returns the way in which the task's elements are divided. For the producer.
    pub(super) fn mode(&self) -> TaskMode {
        self.mode
    }

    /// Returns the limits of the producer's packs. For the producer.
    pub(super) fn pack_limits(&self) -> PackLimits {
        let is_local = self.is_local.load(Ordering::Relaxed);
        self.shared.lock().division.pack_limits(is_local)
    }

    /// Opens a further pack, which closes the pack before it on its lane. Has no effect after the task was
    /// stopped. For the producer.
    pub(super) fn push_pack(&self, lane: usize, pack: Arc<OpenPack>) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped {
            shared.division.push(lane, pack);
        }
    }

    /// Records that a split ended. Blocks while 4096 ends are untold. Has no effect after the task was
    /// stopped, or if clients are not told of ends (D8.5). For the producer.
    pub(super) fn push_mark(&self, mark: Mark) {
        if self.mode == TaskMode::Cached {
            return;
        }
        let mut shared = self.shared.lock();
        if self.wait(&mut shared, |shared| shared.marks.len() < MARKS_MAX) {
            shared.marks.push_back(mark);
            // A session that takes the elements before the end looks for ends afterwards.
            if self.taken_elements.load(Ordering::Relaxed) >= mark.position {
                ring(&shared);
            }
        }
    }

    /// Records that nothing follows the written elements. Returns the ending that clients receive, unless the
    /// task had ended or was stopped before. For the producer.
    pub(super) fn end(&self, ending: Ending, written_elements: u64) -> Ending {
        let ending = match (self.mode, ending) {
            // D8.4
            (TaskMode::Cached, Ending::Exhausted) => Ending::Failed(window::end_of_data()),
            (TaskMode::FirstCome | TaskMode::Coordinated { .. } | TaskMode::Cached, ending) => ending,
        };
        let mut shared = self.shared.lock();
        if !shared.is_stopped && shared.ending.is_none() {
            shared.ending = Some(ending.clone());
            shared.groups_before_ending = shared.division.groups_in(written_elements);
            ring(&shared);
        }
        ending
    }

    /// Notifies sessions of `bytes` committed bytes. The caller must hold no lock of the buffer, because the
    /// call may step sessions. For the producer.
    pub(super) fn committed(&self, bytes: u64) {
        if !self.wake_request.take() {
            return;
        }
        match self.stepped() {
            Some(bells) => bells.iter().for_each(|bell| bell.ring_for(bytes)),
            None => ring(&self.shared.lock()),
        }
    }

    /// Returns the sessions that the producer may step, in the order of their clients' turns. Returns `None`
    /// if the sessions are too many.
    fn stepped(&self) -> Option<SmallVec<[Arc<Bell>; STEPPED_MAX]>> {
        let mut shared = self.shared.lock();
        let Shared { bells, division, .. } = &mut *shared;
        if bells.len() > STEPPED_MAX {
            return None;
        }
        if bells.len() > 1 {
            bells.sort_by_key(|(client, _)| division.rank(*client));
        }
        Some(bells.iter().map(|(_, bell)| bell.clone()).collect())
    }

    /// Blocks until a client wants elements. Returns false after the task was stopped. For the producer.
    pub(super) fn wait_started(&self) -> bool {
        self.wait(&mut self.shared.lock(), |shared| shared.is_started)
    }

    /// Returns whether `written` elements and bytes leave room for more, without blocking. A group is always
    /// completed, because consumers hand over only complete groups. For the producer.
    pub(super) fn has_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        !written_elements.is_multiple_of(self.lanes)
            || !self.is_deserted.load(Ordering::Acquire)
                && self.has_room_for(
                    written_elements - self.taken_elements.load(Ordering::Acquire),
                    written_bytes - self.taken_bytes.load(Ordering::Acquire),
                )
    }

    /// Returns whether one more element may wait in addition to `elements` waiting elements.
    fn has_room_for(&self, elements: u64, bytes: u64) -> bool {
        let limits = self.limits;
        let is_local =
            elements < LOCAL_ELEMENTS && bytes < LOCAL_BYTES && self.is_local.load(Ordering::Relaxed);
        elements < limits.elements && (bytes < limits.bytes || is_local)
    }

    /// Records that a client takes elements without a copy, so that more elements may wait.
    pub(super) fn note_local(&self) {
        self.is_local.store(true, Ordering::Relaxed);
    }

    /// Blocks until the buffer has room. Returns false after the task was stopped. For the producer.
    pub(super) fn wait_room(&self, written_elements: u64, written_bytes: u64, linger: &mut Linger) -> bool {
        let since = clock::now();
        let has_room = || self.has_room(written_elements, written_bytes);
        let is_local = self.is_local.load(Ordering::Relaxed);
        let bells = self.stepped().filter(|_| is_local).unwrap_or_default();
        let found = look(since, linger.look_for(), &bells, has_room) || {
            bells.iter().for_each(|bell| bell.note_producer_sleeps());
            self.wait(&mut self.shared.lock(), |_| has_room())
        };
        linger.note(clock::now() - since);
        found
    }

    /// Blocks for a moment, for an unannounced condition. Returns false after a stop. For the producer.
    pub(super) fn wait_a_moment(&self, moment: Duration) -> bool {
        let mut shared = self.shared.lock();
        self.is_producer_waiting.store(true, Ordering::Relaxed);
        if !shared.is_stopped {
            self.room.wait_for(&mut shared, moment);
        }
        self.is_producer_waiting.store(false, Ordering::Relaxed);
        !shared.is_stopped
    }

    /// Returns whether a client asked for a first element. For the producer.
    pub(super) fn is_started(&self) -> bool {
        self.shared.lock().is_started
    }

    /// Returns whether the producer waits for a first client, for room or for memory.
    #[cfg(test)]
    pub(super) fn is_producer_waiting(&self) -> bool {
        // While this lock is held, the producer sleeps or has not begun to wait.
        let _asleep = self.shared.lock();
        self.is_producer_waiting.load(Ordering::Relaxed)
    }

    /// Returns whether the task was stopped from outside.
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

    fn count_taken(
        &self,
        client: u64,
        fresh_elements: u64,
        fresh_bytes: u64,
        mut shared: MutexGuard<'_, Shared>,
    ) {
        self.taken_bytes.fetch_add(fresh_bytes, Ordering::Release);
        let first = self.taken_elements.fetch_add(fresh_elements, Ordering::Release);
        shared.division.took(client, first, fresh_elements);
        // A client without credits could not see the end, and this element may have been the last before it.
        // Other clients may have waited for this client's turn.
        if shared.ending.is_some() || shared.division.is_left_to_others(client) {
            ring(&shared);
        }
        drop(shared);
        self.wake_producer();
    }

    /// Wakes the producer. Its condition changes only under its lock, so no wake-up is missed.
    fn wake_producer(&self) {
        if self.is_producer_waiting.load(Ordering::Relaxed) {
            self.room.notify_all();
        }
    }
}

impl Shared {
    /// Returns whether every consumer of a coordinated read has all complete groups of an ended task. The
    /// elements of the incomplete group are never handed over, so nothing waits for them (D7.5).
    fn is_over_in_step(&self) -> bool {
        let is_coordinated = matches!(self.division, Division::Coordinated(_));
        is_coordinated && self.ending.is_some() && self.division.released() >= self.groups_before_ending
    }

    /// Returns the ending for a client without further elements, if the client may be told.
    fn told_ending(&self) -> Take {
        match &self.ending {
            // The end waits for the ends of splits, which may wait for other clients. A failure is told at
            // once.
            Some(Ending::Exhausted) if !self.marks.is_empty() || self.debts.has_missed() => Take::Empty,
            // The task must end in the same step for every consumer of a coordinated read (D7.5).
            Some(_) if self.division.released() < self.groups_before_ending => Take::Empty,
            Some(ending) => Take::Ended(ending.clone()),
            None => Take::Empty,
        }
    }

    /// Takes out at most `most` ends of splits before `reach` that a client may be told.
    fn take_due(&mut self, client: u64, reach: u64, most: usize) -> Vec<Mark> {
        // With two clients, each finishes its part some time. With more, two paused clients would hold up the
        // others.
        let has_ended = self.ending.is_some() && self.division.is_drained();
        let is_pressed = self.bells.len() > 2 && (has_ended || self.marks.len() > MARKS_MAX / 2);
        let debts = &mut self.debts;
        let mut due = Vec::new();
        self.marks.retain(|mark| {
            if due.len() >= most || mark.position > reach {
                return true;
            }
            let told = debts.tell_end(client, mark.lease, is_pressed);
            due.extend(matches!(told, EndTold::ToLast | EndTold::ToOthersToo).then_some(*mark));
            matches!(told, EndTold::NotNow | EndTold::ToOthersToo)
        });
        due
    }
}

/// Steps the sessions until the buffer has room, for at most `limit`. Returns false if it has no room then.
fn look(since: Instant, limit: Duration, bells: &[Arc<Bell>], has_room: impl Fn() -> bool) -> bool {
    while !bells.is_empty() && clock::now() - since < limit {
        bells.iter().for_each(|bell| bell.look());
        if has_room() {
            return true;
        }
        // If threads outnumber cores, the awaited thread may need this core.
        std::thread::yield_now();
    }
    false
}

fn ring(shared: &Shared) {
    for (_, bell) in &shared.bells {
        bell.ring();
    }
}
