//! The first words on the long-lived stream, and the heartbeats that follow.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::id::{BootId, ClientId, SessionId, TaskId};
use crate::job::DeploymentMode;
use crate::links::LinkCounts;
use crate::pace::{Measures, Pace};

/// The protocol's name and version in the handshake (C1.1).
pub const ALPN: &str = "millstream-control/1";

/// The version that both ends must share beyond the handshake's protocol name.
pub(crate) const PROTOCOL_VERSION: u32 = 2;

/// The code of a connection that is closed because the service was shut down (C12.3). The reason names who
/// has asked for it.
pub(crate) const CLOSE_SHUT_DOWN: u32 = 5;

/// The code of a connection that a process closes together with its session: it does not come back under it
/// (C7.4).
pub(crate) const CLOSE_GOODBYE: u32 = 6;

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Hello {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) session: SessionId,
}

/// The dispatcher's first message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Welcome {
    #[n(0)]
    pub(crate) version: u32,
    #[n(1)]
    pub(crate) boot: BootId,
    /// The time between two heartbeats of the client.
    #[n(2)]
    pub(crate) heartbeat_ms: u64,
    /// After which silence the other end is gone.
    #[n(3)]
    pub(crate) liveness_ms: u64,
    /// The way in which trainers and workers are placed.
    #[cbor(n(4), default)]
    pub(crate) deployment_mode: DeploymentMode,
    /// After which silence a client is released, if the dispatcher says so (C4.4).
    #[n(5)]
    pub(crate) client_timeout_ms: Option<u64>,
}

/// The client lives, and so do these of its iterations' clients.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Beat {
    #[n(0)]
    pub(crate) sequence: u64,
    #[n(1)]
    pub(crate) clients: Vec<ClientId>,
    /// The pace of some of the process' tasks.
    #[cbor(n(2), default)]
    pub(crate) task_paces: Vec<(TaskId, Pace)>,
    /// The pace of some of its clients.
    #[cbor(n(3), default)]
    pub(crate) client_paces: Vec<(ClientId, Pace)>,
    /// The kinds of its links with readers, from a worker.
    #[n(4)]
    pub(crate) links: Option<LinkCounts>,
    /// The bottleneck of some of its tasks.
    #[cbor(n(5), default)]
    pub(crate) bottlenecks: Vec<(TaskId, String)>,
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
        }
    }

    /// The clients that it names, and what it says of them and others.
    pub(crate) fn into_domain(self) -> (Vec<ClientId>, Measures) {
        let measures = Measures {
            tasks: self.task_paces,
            clients: self.client_paces,
            links: self.links,
            bottlenecks: self.bottlenecks,
        };
        (self.clients, measures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::wire::{Envelope, WireRequest};

    /// C1.1
    #[test]
    fn later_fields_are_skipped_and_missing_ones_default() {
        let hello: Hello = minicbor::decode(b"\x84\x01\x05\x63new\x80").unwrap();
        assert_eq!((hello.version, hello.session), (1, SessionId(5)));
        // A job for dataset "7": name, consumers and cache were left out.
        let bytes = b"\x83\x01\x01\x82\x02\x84\xf6\x617\x01\x00";
        let envelope: Envelope = minicbor::decode(bytes).unwrap();
        let WireRequest::CreateJob {
            num_consumers,
            cross_trainer_cache,
            ..
        } = envelope.request
        else {
            panic!("{envelope:?}")
        };
        assert_eq!((num_consumers, cross_trainer_cache), (None, None));
    }

    #[test]
    fn a_missing_required_field_is_an_error() {
        assert!(minicbor::decode::<Hello>(b"\x81\x01").is_err());
    }
}
