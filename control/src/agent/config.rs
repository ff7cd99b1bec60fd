//! The registration of a worker, and its timeouts.

use std::time::Duration;

use millstream_link::TicketKey;
use millstream_trace::Tracer;

use crate::dispatcher::WorkerRegistration;
use crate::rpc::session::SessionConfig;
use crate::whereabouts::Whereabouts;

/// The settings of a worker's agent. Start from [`AgentConfig::new`] and change what is needed.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The facts with which the worker registers.
    pub registration: WorkerRegistration,
    /// The timeouts of the connection with the dispatcher.
    pub session: SessionConfig,
    /// The time without an answer from the dispatcher after which a worker stops its tasks, at least four
    /// times the dispatcher's liveness limit. Default 30 s, so that a shorter absence of the dispatcher
    /// costs nothing. A long lease is safe: readers drop the elements of a removed task before its splits
    /// are leased again (C6.4).
    pub lease: Duration,
    /// The time for which a producer waits for the splits that it requested. Default 300 s. An unreachable
    /// dispatcher ends the worker's lease sooner, so only an overloaded dispatcher takes longer.
    pub split_deadline: Duration,
    /// The time for which a producer waits while its task holds the maximum of unconfirmed splits. Default
    /// 600 s: a trainer may pause, but a pipeline that buffers all splits would wait for ever.
    pub hold_deadline: Duration,
    /// Maximum number of events that wait for the worker. Default 1024. While the queue is full, no further
    /// task starts.
    pub events_max: usize,
    /// The tracer of the requests for splits. Default off.
    pub tracer: Tracer,
}

impl AgentConfig {
    /// Returns the settings of a worker that serves at `address` and whose tickets are signed with this
    /// key.
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
            tracer: Tracer::default(),
        }
    }
}
