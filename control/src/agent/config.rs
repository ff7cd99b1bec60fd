//! What a worker says of itself, and how patient it is.

use std::time::Duration;

use millstream_link::TicketKey;

use crate::dispatcher::WorkerRegistration;
use crate::rpc::session::SessionConfig;
use crate::whereabouts::Whereabouts;

/// A worker's settings. Start from [`AgentConfig::new`] and change what is needed.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// What the dispatcher and the clients are told.
    pub registration: WorkerRegistration,
    /// Timeouts of the connection with the dispatcher.
    pub session: SessionConfig,
    /// A worker that had no answer from the dispatcher for this long stops its tasks; never less than four times the
    /// dispatcher's limit of silence. Default 30 s: a dispatcher that is away for less costs nothing. A long lease is safe,
    /// because readers drop the elements of a task that was given away before its splits are leased again (C6.4).
    pub lease: Duration,
    /// How long a producer waits for the answer to a request for splits. Default 300 s. A dispatcher that cannot be
    /// reached ends the worker's lease sooner, so only an overloaded one, whose answers come late, is waited for.
    pub split_deadline: Duration,
    /// How long a producer waits while its task holds as many splits as it may and no reader confirms any. Default 600 s: a
    /// trainer may pause, but a pipeline whose buffers hold them all would wait for ever.
    pub hold_deadline: Duration,
    /// Events that wait for the worker. Default 1024; while it is full no further task starts.
    pub events_max: usize,
}

impl AgentConfig {
    /// A worker that serves at `address` and whose tickets are minted with this key.
    pub fn new(address: impl Into<String>, ticket_key: TicketKey) -> AgentConfig {
        AgentConfig {
            registration: WorkerRegistration {
                address: address.into(),
                tags: Vec::new(),
                ticket_key,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                whereabouts: Whereabouts::default(),
                local_socket: None,
            },
            session: SessionConfig::default(),
            lease: Duration::from_secs(30),
            split_deadline: Duration::from_secs(300),
            hold_deadline: Duration::from_secs(600),
            events_max: 1024,
        }
    }
}
