//! The state of a session that its connection and its callers share.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_link::{Endpoint, HostPort};
use parking_lot::Mutex;
use quinn::Connection;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::SessionConfig;
use super::numbers::Numbers;
use super::paces::Paces;
use super::tries::Tries;
use crate::error::Error;
use crate::id::{BootId, ClientId, SessionId};
use crate::job::DeploymentMode;
use crate::rpc::wire::WirePush;

/// The state of the link to the dispatcher.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    /// Not connected. Absent before the first attempt has ended: why the last one failed.
    Waiting(Option<String>),
    /// Connected to this life of the dispatcher.
    Up(Connection, BootId),
    /// Given up for good.
    Failed(Error),
}

/// An event that a session reports to its owner.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// The session is connected, for the first time or again.
    Up,
    /// The dispatcher has forgotten everything (C1.8). The session has failed: nothing was asked of the new
    /// one.
    Restarted,
    /// The dispatcher says something.
    Push(WirePush),
    /// The connection is lost; another is sought. With the dispatcher's reason if it closed it.
    Down(String),
}

#[derive(Debug)]
pub(super) struct SessionShared {
    pub(super) id: SessionId,
    pub(super) endpoint: Endpoint,
    pub(super) address: HostPort,
    pub(super) config: SessionConfig,
    pub(super) state: watch::Sender<LinkState>,
    /// The clients that heartbeats mention.
    pub(super) clients: Mutex<BTreeSet<ClientId>>,
    /// The figures of tasks and clients for the next heartbeats.
    pub(super) paces: Mutex<Paces>,
    /// The process that has ended the service, once the dispatcher has said so.
    pub(super) shut_down_by: Mutex<Option<String>>,
    /// The attempts to reach the dispatcher.
    pub(super) tries: Mutex<Tries>,
    /// When the latest answered heartbeat was sent.
    pub(super) heard: Mutex<Option<Instant>>,
    /// After which silence the dispatcher gives this process up, as it said when it last welcomed us.
    pub(super) liveness: Mutex<Duration>,
    /// When the latest heartbeat was sent that was answered behind what the dispatcher says of this process'
    /// clients.
    pub(super) confirmed: Mutex<Option<Instant>>,
    /// After which silence the dispatcher releases clients, if it says so.
    pub(super) client_timeout: Mutex<Option<Duration>>,
    /// The way in which trainers and workers are placed, as the dispatcher said last.
    pub(super) deployment_mode: Mutex<DeploymentMode>,
    pub(super) numbers: Mutex<Numbers>,
    /// A number was settled: the window may have moved.
    pub(super) settled: Notify,
}
