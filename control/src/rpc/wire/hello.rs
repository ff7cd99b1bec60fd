//! The first messages on the long-lived stream, and the heartbeats that follow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::id::{BootId, ClientId, SessionId, TaskId};
use crate::job::DeploymentMode;
use crate::links::{ClientLinks, LinkCounts};
use crate::load::WorkerLoad;
use crate::pace::{Measures, Pace};
use crate::stage::StagePace;

/// The protocol's name and version in the handshake (C1.1).
pub const ALPN: &str = "millstream-control/1";

/// The protocol version that both sides must share, in addition to the name in the handshake.
pub(crate) const PROTOCOL_VERSION: u32 = 2;

/// The close code for a service that was shut down (C12.3). The reason names the process that asked for the
/// shutdown.
pub(crate) const CLOSE_SHUT_DOWN: u32 = 5;

/// The close code with which a process ends its connection together with its session (C7.4). The process
/// does not use the session again.
pub(crate) const CLOSE_GOODBYE: u32 = 6;

/// The close code of a dispatcher that does not lead (C17.4). The reason is the address of the leader, or
/// empty.
pub(crate) const CLOSE_NOT_LEADER: u32 = 7;

/// The first message of a process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Hello {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) session: SessionId,
    /// The leader whose address the process knows already. A dispatcher that does not lead answers once
    /// another one leads (C17.4).
    #[n(2)]
    pub(crate) known_leader: Option<String>,
}

/// The first message of the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Welcome {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) boot: BootId,
    /// The time between two heartbeats of the process.
    #[n(2)]
    pub(crate) heartbeat_ms: u64,
    /// The silence after which the other side counts as gone.
    #[n(3)]
    pub(crate) liveness_ms: u64,
    /// The placement of trainers and workers.
    #[cbor(n(4), default)]
    pub(crate) deployment_mode: DeploymentMode,
    /// The silence after which a client is released (C4.4), if the dispatcher states it.
    #[n(5)]
    pub(crate) client_timeout_ms: Option<u64>,
}

/// A heartbeat of a process, with the clients that the process still owns.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Beat {
    #[n(0)]
    pub(crate) sequence: u64,
    #[n(1)]
    pub(crate) clients: Vec<ClientId>,
    /// The paces of some tasks of the process.
    #[cbor(n(2), default)]
    pub(crate) task_paces: Vec<(TaskId, Pace)>,
    /// The paces of some clients of the process.
    #[cbor(n(3), default)]
    pub(crate) client_paces: Vec<(ClientId, Pace)>,
    /// The kinds of a worker's links with its readers.
    #[n(4)]
    pub(crate) links: Option<LinkCounts>,
    /// The bottlenecks of some tasks of the process.
    #[cbor(n(5), default)]
    pub(crate) bottlenecks: Vec<(TaskId, String)>,
    /// The recent work of the stages of some tasks of the process.
    #[cbor(n(6), default)]
    pub(crate) stages: Vec<(TaskId, Vec<StagePace>)>,
    /// The load of a worker.
    #[n(7)]
    pub(crate) load: Option<WorkerLoad>,
    /// The links of some clients of the process.
    #[cbor(n(8), default)]
    pub(crate) client_links: Vec<(ClientId, ClientLinks)>,
}

impl Beat {
    pub(crate) fn new(sequence: u64, clients: Vec<ClientId>, measures: Measures) -> Beat {
        Beat {
            sequence,
            clients,
            task_paces: measures.tasks,
            client_paces: measures.clients,
            links: measures.links,
            bottlenecks: measures.bottlenecks,
            stages: measures.stages,
            load: measures.load,
            client_links: measures.client_links,
        }
    }

    /// Returns the clients that the heartbeat names, and the measurements that it carries.
    pub(crate) fn into_domain(self) -> (Vec<ClientId>, Measures) {
        let measures = Measures {
            tasks: self.task_paces,
            clients: self.client_paces,
            links: self.links,
            bottlenecks: self.bottlenecks,
            stages: self.stages,
            load: self.load,
            client_links: self.client_links,
        };
        (self.clients, measures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::wire::{Envelope, WireRequest};

    /// Tests that unknown fields are skipped and missing optional fields have defaults (C1.1).
    #[test]
    fn later_fields_are_skipped_and_missing_ones_default() {
        let hello: Hello = minicbor::decode(b"\x84\x01\x05\x63new\x80").unwrap();
        assert_eq!((hello.version, hello.session), (1, SessionId(5)));
        // A job for dataset "7" without the fields for its name, its consumers and its cache.
        let bytes = b"\x83\x01\x01\x82\x02\x84\xf6\x617\x01\x00";
        let envelope: Envelope = minicbor::decode(bytes).unwrap();
        let WireRequest::CreateJob {
            num_consumers,
            cross_trainer_cache,
            exactly_once,
            ..
        } = envelope.request
        else {
            panic!("{envelope:?}")
        };
        assert_eq!((num_consumers, cross_trainer_cache), (None, None));
        assert_eq!(exactly_once, None);
    }

    #[test]
    fn a_missing_required_field_is_an_error() {
        assert!(minicbor::decode::<Hello>(b"\x81\x01").is_err());
    }
}
