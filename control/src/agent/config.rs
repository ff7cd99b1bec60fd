//! The registration of a worker, and its patience.

use std::time::Duration;

use millstream_link::TicketKey;

use crate::dispatcher::WorkerRegistration;
use crate::rpc::session::SessionConfig;
use crate::whereabouts::Whereabouts;

/// A worker's settings. Start from [`AgentConfig::new`] and change what is needed.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The facts that the dispatcher and the clients learn of the worker.
    pub registration: WorkerRegistration,
    /// Timeouts of the connection with the dispatcher.
    pub session: SessionConfig,
    /// A worker that had no answer from the dispatcher for this long stops its tasks; never less than four
    /// times the dispatcher's limit of silence. Default 30 s: a dispatcher that is away for less costs
    /// nothing. A long lease is safe, because readers drop the elements of a task that was given away before
    /// its splits are leased again (C6.4).
    pub lease: Duration,
    /// The time for which a producer waits for splits that it asked for. Default 300 s. A dispatcher that is
    /// out of reach ends the worker's lease sooner, so only an overloaded one takes longer.
    pub split_deadline: Duration,
    /// The time for which a producer waits while its task holds as many splits as it may and no reader
    /// confirms any. Default 600 s: a trainer may pause, but a pipeline that buffers all of them would wait
    /// for ever.
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
