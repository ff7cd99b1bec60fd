//! A task as a worker serves it: the buffer of its elements, and the state of each client's subscription.
//!
//! A subscription outlives its link, so that a client that reconnects misses nothing.

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

/// Maximum number of clients of one task, including clients without a link. The maximum equals the number of
/// consumers that a coordinated read may have.
const SUBSCRIPTIONS_MAX: usize = 4096;

/// Maximum number of clients ended by the dispatcher that a task remembers. Tickets are issued to live
/// clients only, so the lowest numbers are forgotten first.
const RELEASED_MAX: usize = 4096;

/// A task that the worker serves.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: TaskId,
    /// The encoded specification of the task's elements.
    pub(super) spec: Vec<u8>,
    pub(super) element_bytes: u64,
    pub(super) buffer: Arc<TaskBuffer>,
    /// The compression of the task's packs on networks. Empty if the server's setting applies.
    pub(super) compression: OnceLock<Compression>,
    /// The allocator of the memory in which the task's elements are written.
    #[cfg(target_os = "linux")]
    pub(super) alloc: Arc<TaskAlloc>,
    subscriptions: Mutex<BTreeMap<u64, Arc<Mutex<Subscription>>>>,
    /// True if a client was forgotten before it acknowledged all elements sent to it. Read and written under
    /// the lock of `subscriptions`.
    has_given_up: AtomicBool,
    /// The clients that the dispatcher has ended and that are no longer served, at most [`RELEASED_MAX`] of
    /// the latest.
    released: Mutex<BTreeSet<u64>>,
}

/// The state of one client's subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) half: SendHalf,
    /// The session that serves the subscription. A later link of the same client replaces the session.
    pub(super) session: Option<u64>,
    /// The number of the client's requests before its latest request.
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
    /// The time for which a client without a link can still resume.
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

    /// Attaches a session to the client's new or resumed subscription. A refused client leaves no state
    /// behind.
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
            let message = format!(
                "task {} already has {SUBSCRIPTIONS_MAX} clients, the maximum",
                self.id
            );
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
        // Links are not ordered among each other. The client no longer receives on the link of this older
        // request.
        if attach.asked_before < state.asked_before {
            return Err(Denied {
                code: RefusalCode::CannotResume,
                message: format!("task {}: the client has sent a later request", self.id),
            });
        }
        let resumed = state.half.resume(attach.resume_from, attach.splits_from);
        resumed.map_err(|error| {
            let mut message = format!("task {}: {error}", self.id);
            if is_new {
                let within = limits.resume_within;
                message += &format!("; a client without a link for longer than {within:?} is forgotten");
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

    /// Returns whether everything was produced and taken, and each client has cancelled, which it does after
    /// it received the end. Returns false if a client was given up, because its elements may not have been
    /// delivered.
    pub(super) fn is_settled(&self) -> bool {
        let subscriptions = self.subscriptions.lock();
        self.buffer.is_drained()
            && subscriptions.is_empty()
            && !self.has_given_up.load(Ordering::Relaxed)
            && !self.buffer.with_debts(|debts| debts.has_missed())
    }

    /// Forgets a client that cancelled (D3.3), unless a later session than `session` serves the client
    /// (D3.4). Returns whether splits were lost with the client.
    pub(super) fn forget(&self, client: u64, session: u64, has_all: bool) -> bool {
        let mut subscriptions = self.subscriptions.lock();
        let state = subscriptions.get(&client);
        if state.is_none_or(|state| state.lock().session != Some(session)) {
            return false;
        }
        subscriptions.remove(&client);
        self.buffer.forget(client, has_all)
    }

    /// Forgets a client that the dispatcher has ended, and never serves it again. Returns the splits that
    /// were lost with the client.
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

    /// Forgets the clients that lost their link more than `resume_within` ago, and frees the elements kept
    /// for these clients. Returns whether splits were lost with any client.
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
    /// Detaches a session, so that a later link can resume. Has no effect if another session serves the
    /// subscription already.
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
