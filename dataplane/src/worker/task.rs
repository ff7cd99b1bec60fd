//! A task as a worker serves it: its buffer, and where each of its clients stands.
//!
//! A subscription outlives the link it was made on, so that a client that reconnects misses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::buffer::TaskBuffer;
use crate::proto::message::{RefusalCode, TaskId};
use crate::proto::send::SendHalf;

/// Clients of one task at most, those that lost their link included.
const SUBSCRIPTIONS_MAX: usize = 1024;

/// A task as it is served.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: TaskId,
    /// The specification of its elements, encoded.
    pub(super) spec: Vec<u8>,
    pub(super) element_bytes: u64,
    pub(super) buffer: Arc<TaskBuffer>,
    subscriptions: Mutex<BTreeMap<u64, Arc<Mutex<Subscription>>>>,
}

/// Where one client stands.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) half: SendHalf,
    /// The session that serves it; a later link of the same client takes it over.
    pub(super) session: Option<u64>,
    detached_at: Option<Instant>,
}

/// A subscription that a session serves.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) client: u64,
    pub(super) task: Arc<Task>,
    pub(super) state: Arc<Mutex<Subscription>>,
}

/// Why a client cannot subscribe.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) code: RefusalCode,
    pub(super) message: String,
}

/// What a client asks to subscribe with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attach {
    pub(super) client: u64,
    pub(super) session: u64,
    pub(super) resume_from: u64,
    pub(super) splits_from: u64,
}

impl Task {
    pub(super) fn new(id: TaskId, spec: Vec<u8>, element_bytes: u64, buffer: Arc<TaskBuffer>) -> Self {
        Self {
            id,
            spec,
            element_bytes,
            buffer,
            subscriptions: Mutex::default(),
        }
    }

    /// Attaches a session to the client's subscription, new or resumed.
    pub(super) fn attach(
        &self,
        attach: Attach,
        patience: Duration,
        resume_within: Duration,
        now: Instant,
    ) -> Result<Arc<Mutex<Subscription>>, Denied> {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.retain(|_, subscription| {
            subscription
                .lock()
                .detached_at
                .is_none_or(|at| now.duration_since(at) < resume_within)
        });
        if subscriptions.len() >= SUBSCRIPTIONS_MAX && !subscriptions.contains_key(&attach.client) {
            let message = format!("task {} has {SUBSCRIPTIONS_MAX} clients already", self.id);
            return Err(Denied {
                code: RefusalCode::TooMany,
                message,
            });
        }
        let subscription = subscriptions.entry(attach.client).or_insert_with(|| {
            let half = SendHalf::new(self.id, patience);
            Arc::new(Mutex::new(Subscription {
                half,
                session: None,
                detached_at: None,
            }))
        });
        let mut state = subscription.lock();
        state
            .half
            .resume(attach.resume_from, attach.splits_from)
            .map_err(|error| Denied {
                code: RefusalCode::CannotResume,
                message: format!(
                    "task {}: {error}; it stayed away longer than {resume_within:?}",
                    self.id
                ),
            })?;
        state.session = Some(attach.session);
        state.detached_at = None;
        drop(state);
        Ok(subscription.clone())
    }

    /// Whether everything was produced, taken and acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        self.buffer.is_drained()
            && self
                .subscriptions
                .lock()
                .values()
                .all(|each| each.lock().half.is_settled())
    }

    /// Forgets a client that wants no more.
    pub(super) fn forget(&self, client: u64) {
        self.subscriptions.lock().remove(&client);
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
