//! The state of a worker's data plane that all its sessions share: the tasks, and the key with which tickets
//! are checked.
//!
//! The module owns the admission of clients to tasks. Sessions are unknown to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use millstream_link::ticket::{Ticket, TicketKey};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

#[cfg(target_os = "linux")]
use super::alloc::Arenas;
use super::cache::Cache;
use super::compress::CompressPool;
use super::place::{Denied, Role};
use super::server_config::ServerConfig;
use super::task::{Attach, Attached, SubscriptionLimits, Task};
use crate::proto::message::{RefusalCode, Subscribe, TaskId};
use crate::proto::send::SendLimits;
use crate::transport::LinkReport;

/// The totals of a server since its start.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// The number of elements that left the buffers.
    pub elements: AtomicU64,
    /// The number of bytes of the elements that left the buffers.
    pub bytes: AtomicU64,
    /// The number of packs in which elements left the buffers.
    pub packs: AtomicU64,
    /// The number of payload bytes that this end copied for all links, as counted by
    /// [`LinkReport::bytes_copied`].
    pub bytes_copied: AtomicU64,
    /// The number of sessions served in total.
    pub sessions: AtomicU64,
}

/// The tasks of a worker, and the resources that serve them.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) config: ServerConfig,
    pub(super) key: TicketKey,
    pub(super) tasks: RwLock<BTreeMap<TaskId, Arc<Task>>>,
    pub(super) counters: ServerCounters,
    /// Notified when a client left with splits, and when several clients hold a split that holds up other
    /// clients.
    pub(super) missed: Notify,
    pub(super) cache: Arc<Cache>,
    #[cfg(target_os = "linux")]
    pub(super) arenas: Arc<Arenas>,
    /// The latest report of each live session about its link.
    pub(super) links: Mutex<BTreeMap<u64, LinkReport>>,
    pub(super) compress: CompressPool,
}

impl ServerState {
    /// Checks a ticket and attaches the session to the client's subscription (D3.2).
    pub(super) fn attach(
        &self,
        subscribe: &Subscribe,
        session: u64,
        now: Instant,
    ) -> Result<Attached, Denied> {
        let bad = |message: String| Denied {
            code: RefusalCode::BadTicket,
            message,
        };
        let ticket = Ticket::from_bytes(&subscribe.ticket).map_err(|error| bad(error.to_string()))?;
        let claims = self.key.verify(&ticket).map_err(|error| bad(error.to_string()))?;
        if claims.task != subscribe.task.0 {
            return Err(bad(format!(
                "expected a ticket for task {1}, found a ticket for task {0}",
                claims.task, subscribe.task
            )));
        }
        let Some(task) = self.tasks.read().get(&subscribe.task).cloned() else {
            let message = format!("this worker has no task {}", subscribe.task);
            return Err(Denied {
                code: RefusalCode::UnknownTask,
                message,
            });
        };
        let (resume_from, splits_from) = (subscribe.resume_from, subscribe.splits_from);
        let attach = Attach {
            client: claims.client,
            role: Role {
                consumer: claims.consumer,
                trainer: subscribe.trainer_id.as_deref(),
            },
            session,
            resume_from,
            splits_from,
            asked_before: subscribe.asked_before,
        };
        let limits = SubscriptionLimits {
            send: SendLimits {
                patience: self.config.patience,
                unacknowledged_bytes: self.config.unacknowledged_bytes,
            },
            resume_within: self.config.resume_within,
        };
        let subscription = task.attach(attach, limits, now)?;
        Ok(Attached {
            client: claims.client,
            task,
            state: subscription,
        })
    }
}
