//! The elements of one task that wait for a credit, bounded by count and bytes.
//!
//! One producer fills it, the sessions of the task's clients empty it; who gets which element the task's
//! [`TaskMode`] says. Elements can be taken the moment they are written, also out of a pack that is still
//! being filled. Refuses to know credits and links.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_element::{OpenPack, Pack};
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use super::bell::Bell;
use super::cache::Cache;
use super::clock;
use super::debts::{Debts, EndTold};
use super::division::Division;
use super::groups::end_of_data;
use super::mode::TaskMode;
use super::pack_limits::PackLimits;
use super::place::{Denied, Role};
use super::queue::Found;
use super::turns::Turn;
use super::wake_request::WakeRequest;
use super::window;
use crate::linger::Linger;
use crate::proto::send::Ending;

/// Splits that ended and were not yet told to a client; a producer that ends one more waits.
const MARKS_MAX: usize = 4096;

/// Elements that may wait beyond [`BufferLimits::bytes`] once a client takes them without a copy: a few,
/// whatever their size. More wait where its credits are, for as many as its rate needs.
const LOCAL_ELEMENTS: u64 = 4;

/// Bytes of those at most.
const LOCAL_BYTES: u64 = 64 << 20;

/// The elements that a task may hold ready.
#[derive(Debug, Clone, Copy)]
pub struct BufferLimits {
    /// Elements at most, in coordinated reads one group excepted; default 65 536.
    pub elements: u64,
    /// Bytes at most, one element or group excepted; default 2 MiB: some packs ahead of a fast network,
    /// within the caches, and little to lose.
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
    /// The number of the attempt at the split.
    pub attempt: u32,
}

/// The result of [`TaskBuffer::take`].
#[derive(Debug)]
pub enum Take {
    /// Elements.
    Elements(Pack),
    /// Nothing is ready.
    Empty,
    /// The ready elements are for another client, whose turn it is. The client asks again when it is rung, or
    /// at this time.
    NotYet(Instant),
    /// The next element has this size; a credit is worth less, or there is none.
    NoCredit {
        /// The size, in bytes.
        bytes: u64,
    },
    /// Everything was taken and nothing follows; unless the task failed, the ends of all splits were told.
    Ended(Ending),
}

/// Sessions that a producer steps itself at most; of more, each has a thread that the producer only wakes.
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
    /// Some client takes elements without a copy.
    is_local: AtomicBool,
    /// All clients that it had have left, and none has come.
    is_deserted: AtomicBool,
    /// The dispatcher is to hear of splits that several clients have in hand.
    is_to_share: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    division: Division,
    /// Splits that clients have in hand, where each element goes to one of them.
    debts: Debts,
    /// Every element so far named the splits that it comes from, so that none counts for another split.
    is_traced: bool,
    marks: VecDeque<Mark>,
    /// The ending of the producer. A producer that was stopped before has none, because nobody may take that
    /// for the end of the data.
    ending: Option<Ending>,
    /// Groups that must have been released before that is told.
    groups_before_ending: u64,
    is_started: bool,
    /// Whether the task is brought to its end though nobody wants it.
    goes_on_alone: bool,
    is_stopped: bool,
    /// The bells of sessions, with the client that each session serves.
    bells: Vec<(u64, Arc<Bell>)>,
}

impl TaskBuffer {
    /// An empty buffer. `cache` is what all tasks of the worker may keep for the cross-trainer cache.
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

    /// Says why a client cannot have the place that it asks for. `is_new` says that nothing is kept for it.
    pub(super) fn check_place(&self, client: u64, role: Role<'_>, is_new: bool) -> Result<(), Denied> {
        self.shared.lock().division.check_place(client, role, is_new)
    }

    /// Gives a client the place that was checked before.
    pub(super) fn take_place(&self, client: u64, role: Role<'_>) {
        self.shared.lock().division.take_place(client, role);
    }

    /// Takes up to `elements` that wait for `client`, in order, none larger than `element_bytes`, all from
    /// one slot. It owes them until it acknowledges them.
    pub fn take(&self, client: u64, elements: u64, element_bytes: u64) -> Take {
        let mut shared = self.shared.lock();
        if elements > 0 && (!shared.is_started || self.is_deserted.load(Ordering::Relaxed)) {
            shared.is_started = true;
            self.is_deserted.store(false, Ordering::Release);
            self.room.notify_all();
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
        match &shared.ending {
            // An end that waits for a client which owes elements; a failure is told at once.
            Some(Ending::Exhausted) if !shared.marks.is_empty() || shared.debts.has_missed() => Take::Empty,
            // Each consumer of a coordinated read is to fail in the same step (D7.5).
            Some(_) if shared.division.released() < shared.groups_before_ending => Take::Empty,
            Some(ending) => Take::Ended(ending.clone()),
            None => Take::Empty,
        }
    }

    /// Returns at most `most` of the splits that ended within what was taken, if no client but `client` owes
    /// or holds elements of them: a message to one client must not cover elements on their way to another
    /// (D5.2), nor those that would be lost with it (D5.6).
    pub fn take_marks(&self, client: u64, most: usize) -> Vec<Mark> {
        let mut shared = self.shared.lock();
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

    /// Books that a client's user is done with the first `handed` elements of its subscription (D5.6).
    pub(crate) fn hand_over(&self, client: u64, handed: u64) {
        let mut shared = self.shared.lock();
        if shared.debts.hand_over(client, handed) && !shared.marks.is_empty() {
            ring(&shared);
        }
    }

    /// Looks up or notes what clients have in hand, as far as it changes nothing that they wait for.
    pub(super) fn with_debts<T>(&self, look_up: impl FnOnce(&mut Debts) -> T) -> T {
        look_up(&mut self.shared.lock().debts)
    }

    /// Returns whether clients were found to share splits since this was asked last.
    pub(crate) fn is_to_share(&self) -> bool {
        self.is_to_share.load(Ordering::Relaxed) && self.is_to_share.swap(false, Ordering::Relaxed)
    }

    /// Books that the dispatcher knows of a client that has these shared splits in hand.
    pub(crate) fn note_shared(&self, client: u64, leases: &[u64]) {
        let mut shared = self.shared.lock();
        shared.debts.heard_shared(client, leases);
        ring(&shared);
    }

    /// Books that the dispatcher has heard of splits that are gone with a client: others may hear of the end.
    pub(crate) fn note_heard(&self, client: u64, leases: &[u64]) {
        let mut shared = self.shared.lock();
        shared.debts.heard(client, leases);
        ring(&shared);
    }

    /// Books that a client has the first `received` elements of its subscription.
    pub(crate) fn acknowledge(&self, client: u64, received: u64) {
        let mut shared = self.shared.lock();
        let mark = shared.marks.front().map(|mark| mark.position);
        if shared.division.acknowledge(client, received, mark) {
            self.released.store(shared.division.released(), Ordering::Release);
            ring(&shared);
        }
    }

    /// Forgets a client: what it did not acknowledge never will be. Once all have left, nothing is produced
    /// until one comes (D4.5). `has_all` says that it has received everything, so that it answers itself for
    /// what its user is not done with. True if it took splits with it that the dispatcher is to hear of.
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

    /// Books that a client was told that something is ready, for which it will grant credits: it has its turn
    /// as others do.
    pub(crate) fn await_credits(&self, client: u64) {
        self.shared.lock().division.wait(client);
    }

    /// Asks to be rung when something is ready. Call, then take once more before waiting.
    pub fn ask_to_ring(&self) {
        self.wake_request.ask();
    }

    /// Adds a session that is rung for a client.
    pub(crate) fn add_bell(&self, client: u64, bell: Arc<Bell>) {
        self.shared.lock().bells.push((client, bell));
    }

    /// Removes it.
    pub(crate) fn remove_bell(&self, bell: &Arc<Bell>) {
        self.shared
            .lock()
            .bells
            .retain(|(_, other)| !Arc::ptr_eq(other, bell));
    }

    /// Lets the producer begin though no client has asked for an element, and go on though all have left.
    pub fn begin(&self) {
        let mut shared = self.shared.lock();
        (shared.is_started, shared.goes_on_alone) = (true, true);
        self.is_deserted.store(false, Ordering::Release);
        self.room.notify_all();
    }

    /// Stops the producer; what waits can still be taken, and nothing is kept for those who come late. A task
    /// that had not ended never does (D5.5).
    pub fn stop(&self) {
        let mut shared = self.shared.lock();
        shared.is_stopped = true;
        shared.division.stop();
        self.room.notify_all();
    }

    /// Groups that every consumer has, and may therefore hand over (D7.3); 0 but in coordinated reads.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Elements that left the buffer so far.
    pub fn taken_elements(&self) -> u64 {
        self.taken_elements.load(Ordering::Acquire)
    }

    /// Returns whether production ended and everything left the buffer.
    pub fn is_drained(&self) -> bool {
        let shared = self.shared.lock();
        shared.ending.is_some() && shared.division.is_drained()
    }

    /// The producer's side: how the task's elements are divided.
    pub(super) fn mode(&self) -> TaskMode {
        self.mode
    }

    /// The producer's side: what its packs are held to.
    pub(super) fn pack_limits(&self) -> PackLimits {
        let is_local = self.is_local.load(Ordering::Relaxed);
        self.shared.lock().division.pack_limits(is_local)
    }

    /// The producer's side: opens a further pack, which closes the one before it on its lane. Has no effect
    /// once the task was stopped.
    pub(super) fn push_pack(&self, lane: usize, pack: Arc<OpenPack>) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped {
            shared.division.push(lane, pack);
        }
    }

    /// The producer's side: a split ended. Waits while very many ends are untold; has no effect once the task
    /// was stopped, and none where clients are not told of ends (D8.5).
    pub(super) fn push_mark(&self, mark: Mark) {
        if self.mode == TaskMode::Cached {
            return;
        }
        let mut shared = self.shared.lock();
        if self.wait(&mut shared, |shared| shared.marks.len() < MARKS_MAX) {
            shared.marks.push_back(mark);
            ring(&shared);
        }
    }

    /// The producer's side: nothing follows the elements written. Returns what the task's clients hear of it,
    /// if nothing did before. Has no other effect once the task was stopped.
    pub(super) fn end(&self, ending: Ending, written_elements: u64) -> Ending {
        let ending = match (self.mode, ending) {
            (TaskMode::Coordinated { .. }, Ending::Exhausted) => Ending::Failed(end_of_data()),
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

    /// The producer's side: so many bytes were committed. Its thread holds no lock of the buffer's, since it
    /// may step sessions.
    pub(super) fn committed(&self, bytes: u64) {
        if !self.wake_request.take() {
            return;
        }
        match self.stepped() {
            Some(bells) => bells.iter().for_each(|bell| bell.ring_for(bytes)),
            None => ring(&self.shared.lock()),
        }
    }

    /// The sessions that the producer may step, where they are few: that first whose client's turn it is.
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

    /// The producer's side: waits until a client wants elements. False once the task was stopped.
    pub(super) fn wait_started(&self) -> bool {
        self.wait(&mut self.shared.lock(), |shared| shared.is_started)
    }

    /// The producer's side: whether `written` elements and bytes leave room for more, without waiting. A
    /// group is completed whatever room it takes: consumers hand over nothing of one that is not.
    pub(super) fn has_room(&self, written_elements: u64, written_bytes: u64) -> bool {
        !written_elements.is_multiple_of(self.lanes)
            || !self.is_deserted.load(Ordering::Acquire)
                && self.has_room_for(
                    written_elements - self.taken_elements.load(Ordering::Acquire),
                    written_bytes - self.taken_bytes.load(Ordering::Acquire),
                )
    }

    /// Returns whether one more may wait behind these.
    fn has_room_for(&self, elements: u64, bytes: u64) -> bool {
        let limits = self.limits;
        let is_local =
            elements < LOCAL_ELEMENTS && bytes < LOCAL_BYTES && self.is_local.load(Ordering::Relaxed);
        elements < limits.elements && (bytes < limits.bytes || is_local)
    }

    /// A client takes elements without a copy: more of them may wait, whatever their size.
    pub(super) fn note_local(&self) {
        self.is_local.store(true, Ordering::Relaxed);
    }

    /// The producer's side: waits until there is room. False once the task was stopped.
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

    /// Returns whether the producer waits for a client to begin, for room or for memory.
    #[cfg(test)]
    pub(super) fn is_producer_waiting(&self) -> bool {
        // The producer sleeps once the lock it took before is free.
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
        // A client without credits could not see the end; this may have been the last element before it.
        // Others may have been put off until this client had its turn.
        if shared.ending.is_some() || shared.division.is_left_to_others(client) {
            ring(&shared);
        }
        drop(shared);
        self.wake_producer();
    }

    /// Wakes the producer. Its condition changes only under the lock that it sleeps under, so no wake-up is
    /// missed.
    fn wake_producer(&self) {
        if self.is_producer_waiting.load(Ordering::Relaxed) {
            self.room.notify_all();
        }
    }
}

impl Shared {
    /// Takes out at most `most` ends that a client may be told, of splits that ended before `reach`.
    fn take_due(&mut self, client: u64, reach: u64, most: usize) -> Vec<Mark> {
        // With two clients, one is done with its part some time. Of more, two that pause would keep the
        // others waiting.
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

/// Steps the sessions for so long that there is room. False if there is none yet.
fn look(since: Instant, limit: Duration, bells: &[Arc<Bell>], has_room: impl Fn() -> bool) -> bool {
    while !bells.is_empty() && clock::now() - since < limit {
        bells.iter().for_each(|bell| bell.look());
        if has_room() {
            return true;
        }
        // Where there are more threads than cores, what is waited for may need this one.
        std::thread::yield_now();
    }
    false
}

fn ring(shared: &Shared) {
    for (_, bell) in &shared.bells {
        bell.ring();
    }
}
