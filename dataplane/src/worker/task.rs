//! A task as a worker serves it: its buffer, and where each of its clients stands.
//!
//! A subscription outlives the link it was made on, so that a client that reconnects misses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

#[cfg(target_os = "linux")]
use super::alloc::TaskAlloc;
use super::buffer::TaskBuffer;
use super::mode::TaskMode;
use super::place::{Denied, Role};
use crate::proto::message::{RefusalCode, TaskId};
use crate::proto::send::{SendHalf, SendLimits};
#[cfg(target_os = "linux")]
use crate::transport::Arena;
use crate::transport::{Compression, TaskMemory};

/// Clients of one task at most, those that lost their link included: as many as a coordinated read may have
/// consumers.
const SUBSCRIPTIONS_MAX: usize = 4096;

/// Clients that the dispatcher has ended and a task remembers. A ticket is given to a living client only, so
/// the lowest go first.
const RELEASED_MAX: usize = 4096;

/// A task as it is served.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: TaskId,
    /// The specification of its elements, encoded.
    pub(super) spec: Vec<u8>,
    pub(super) element_bytes: u64,
    pub(super) buffer: Arc<TaskBuffer>,
    /// The compression of its packs on networks; empty for the server's setting.
    pub(super) compression: OnceLock<Compression>,
    /// The memory in which its elements are written.
    #[cfg(target_os = "linux")]
    pub(super) alloc: Arc<TaskAlloc>,
    subscriptions: Mutex<BTreeMap<u64, Arc<Mutex<Subscription>>>>,
    /// A client was forgotten before it acknowledged all that it was sent. Read and written under the lock
    /// above.
    has_given_up: AtomicBool,
    /// Clients that the dispatcher has ended: they are served no more. The latest, at most [`RELEASED_MAX`].
    released: Mutex<BTreeSet<u64>>,
}

/// The state of one client's subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) half: SendHalf,
    /// The session that serves it; a later link of the same client takes it over.
    pub(super) session: Option<u64>,
    /// The number of times that the client had asked for it before its latest request.
    asked_before: u64,
    detached_at: Option<Instant>,
}

/// A subscription that a session serves.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) client: u64,
    pub(super) task: Arc<Task>,
    pub(super) state: Arc<Mutex<Subscription>>,
}

/// The limits of each subscription of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubscriptionLimits {
    pub(super) send: SendLimits,
    /// The time for which a client that lost its link may stay away and still resume.
    pub(super) resume_within: Duration,
}

/// The request of a client to subscribe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attach<'a> {
    pub(super) client: u64,
    pub(super) role: Role<'a>,
    pub(super) session: u64,
    pub(super) resume_from: u64,
    pub(super) splits_from: u64,
    pub(super) asked_before: u64,
}

impl Task {
    pub(super) fn new(
        id: TaskId,
        spec: Vec<u8>,
        element_bytes: u64,
        buffer: Arc<TaskBuffer>,
        #[cfg(target_os = "linux")] alloc: Arc<TaskAlloc>,
    ) -> Self {
        Self {
            id,
            spec,
            element_bytes,
            buffer,
            compression: OnceLock::new(),
            #[cfg(target_os = "linux")]
            alloc,
            subscriptions: Mutex::default(),
            has_given_up: AtomicBool::new(false),
            released: Mutex::default(),
        }
    }

    /// Attaches a session to the client's subscription, new or resumed. A client that is refused leaves
    /// nothing behind.
    pub(super) fn attach(
        &self,
        attach: Attach<'_>,
        limits: SubscriptionLimits,
        now: Instant,
    ) -> Result<Arc<Mutex<Subscription>>, Denied> {
        if self.released.lock().contains(&attach.client) {
            return Err(Denied {
                code: RefusalCode::CannotResume,
                message: format!(
                    "task {}: the dispatcher has ended this reader, which was silent for too long",
                    self.id
                ),
            });
        }
        self.forget_absent(limits.resume_within, now);
        let mut subscriptions = self.subscriptions.lock();
        let known = subscriptions.get(&attach.client).cloned();
        if known.is_none() && subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let message = format!("task {} has {SUBSCRIPTIONS_MAX} clients already", self.id);
            return Err(Denied {
                code: RefusalCode::TooMany,
                message,
            });
        }
        let is_new = known.is_none();
        self.buffer.check_place(attach.client, attach.role, is_new)?;
        let subscription = known.unwrap_or_else(|| {
            Arc::new(Mutex::new(Subscription {
                half: SendHalf::new(self.id, limits.send),
                session: None,
                asked_before: 0,
                detached_at: None,
            }))
        });
        let mut state = subscription.lock();
        // Links are not ordered among each other: the client no longer listens on the one that this came on.
        if attach.asked_before < state.asked_before {
            return Err(Denied {
                code: RefusalCode::CannotResume,
                message: format!("task {}: the client has asked for it again since", self.id),
            });
        }
        let resumed = state.half.resume(attach.resume_from, attach.splits_from);
        resumed.map_err(|error| {
            let mut message = format!("task {}: {error}", self.id);
            if is_new {
                let within = limits.resume_within;
                message += &format!("; a client that stays away longer than {within:?} is forgotten");
            }
            Denied {
                code: RefusalCode::CannotResume,
                message,
            }
        })?;
        state.session = Some(attach.session);
        state.asked_before = attach.asked_before;
        state.detached_at = None;
        self.buffer.take_place(attach.client, attach.role);
        self.buffer.acknowledge(attach.client, attach.resume_from);
        drop(state);
        subscriptions.insert(attach.client, subscription.clone());
        Ok(subscription)
    }

    /// Returns whether everything was produced and taken, and each client has said that it wants no more: it
    /// does so when the end has reached it. Where one was given up, nobody knows here whether everything was
    /// delivered.
    pub(super) fn is_settled(&self) -> bool {
        let subscriptions = self.subscriptions.lock();
        self.buffer.is_drained()
            && subscriptions.is_empty()
            && !self.has_given_up.load(Ordering::Relaxed)
            && !self.buffer.with_debts(|debts| debts.has_missed())
    }

    /// Forgets a client that wants no more (D3.3), unless a later link than that of `session` has taken it
    /// over (D3.4). True if it took splits with it.
    pub(super) fn forget(&self, client: u64, session: u64, has_all: bool) -> bool {
        let mut subscriptions = self.subscriptions.lock();
        let state = subscriptions.get(&client);
        if state.is_none_or(|state| state.lock().session != Some(session)) {
            return false;
        }
        subscriptions.remove(&client);
        self.buffer.forget(client, has_all)
    }

    /// Forgets a client that the dispatcher has ended, for good. Returns the splits that it took with it.
    pub(super) fn release(&self, client: u64) -> Vec<u64> {
        let mut released = self.released.lock();
        released.insert(client);
        if released.len() > RELEASED_MAX {
            released.pop_first();
        }
        drop(released);
        if let Some(state) = self.subscriptions.lock().remove(&client) {
            state.lock().session = None;
        }
        self.buffer.forget(client, false);
        self.buffer.with_debts(|debts| debts.release(client))
    }

    /// Forgets the clients that lost their link longer than `resume_within` ago, and frees what was kept for
    /// them. True if one took splits with it.
    pub(super) fn forget_absent(&self, resume_within: Duration, now: Instant) -> bool {
        let mut has_missed = false;
        self.subscriptions.lock().retain(|client, subscription| {
            let state = subscription.lock();
            let stays = state
                .detached_at
                .is_none_or(|at| now.saturating_duration_since(at) < resume_within);
            if !stays {
                if state.half.acknowledged() < state.half.sent() {
                    self.has_given_up.store(true, Ordering::Relaxed);
                }
                has_missed |= self.buffer.forget(*client, false);
            }
            stays
        });
        has_missed
    }
}

impl Subscription {
    /// Leaves the subscription for a later link, unless one has taken it over already.
    pub(super) fn detach(&mut self, session: u64, now: Instant) {
        if self.session == Some(session) {
            self.session = None;
            self.detached_at = Some(now);
        }
    }
}

impl TaskMemory for Task {
    #[cfg(target_os = "linux")]
    fn arena(&self) -> Option<Arc<Arena>> {
        self.alloc.arena()
    }

    fn is_shared(&self) -> bool {
        match self.buffer.mode() {
            TaskMode::FirstCome | TaskMode::Coordinated { .. } => false,
            TaskMode::Cached => true,
        }
    }
}
