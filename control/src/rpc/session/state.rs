//! The state of a session that its connection and its callers share.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_link::{Endpoint, HostPort, HostPorts};
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
    /// Not connected. The text is the reason for which the last attempt failed, absent until an attempt has
    /// failed.
    Waiting(Option<String>),
    /// Connected to this life of the dispatcher.
    Up(Connection, BootId),
    /// Given up for good, with the error.
    Failed(Error),
}

/// An event that a session reports to its owner.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// The session is connected, for the first time or again.
    Up,
    /// The dispatcher has lost its whole state (C1.8). The session has failed, and has sent no request to
    /// the new dispatcher.
    Restarted,
    /// A push of the dispatcher.
    Push(WirePush),
    /// The connection is lost, and the session reconnects. The text is the reason, which the dispatcher
    /// gave if it closed the connection.
    Down(String),
}

#[derive(Debug)]
pub(super) struct SessionShared {
    pub(super) id: SessionId,
    pub(super) endpoint: Endpoint,
    pub(super) address: HostPorts,
    /// The address that led the last time, if there are several addresses.
    pub(super) leader: Mutex<Option<HostPort>>,
    pub(super) config: SessionConfig,
    pub(super) state: watch::Sender<LinkState>,
    /// The clients that heartbeats name.
    pub(super) clients: Mutex<BTreeSet<ClientId>>,
    /// The measurements of tasks and clients for the next heartbeats.
    pub(super) paces: Mutex<Paces>,
    /// The name of the process that asked for the shutdown, once the dispatcher has announced the shutdown.
    pub(super) shut_down_by: Mutex<Option<String>>,
    /// The attempts to reach the dispatcher.
    pub(super) tries: Mutex<Tries>,
    /// The time at which the latest answered heartbeat was sent.
    pub(super) heard: Mutex<Option<Instant>>,
    /// The silence after which the dispatcher gives this process up, from its latest welcome.
    pub(super) liveness: Mutex<Duration>,
    /// The time at which the latest confirmed heartbeat was sent. The answer to that heartbeat arrived
    /// after every push about this process's clients.
    pub(super) confirmed: Mutex<Option<Instant>>,
    /// The silence after which the dispatcher releases clients, from its latest welcome; `None` if unknown.
    pub(super) client_timeout: Mutex<Option<Duration>>,
    /// The placement of trainers and workers, from the dispatcher's latest welcome.
    pub(super) deployment_mode: Mutex<DeploymentMode>,
    pub(super) numbers: Mutex<Numbers>,
    /// Notifies waiting requests that a number was settled, so that another number may be available.
    pub(super) settled: Notify,
}
