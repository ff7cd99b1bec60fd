//! The properties of a QUIC link that reports show.

use millstream_link::Endpoint;
use quinn::Connection;

use crate::transport::LinkReport;

/// A reporter for one connection of an endpoint.
#[derive(Debug, Clone)]
pub struct PathReporter {
    endpoint: Endpoint,
    connection: Connection,
}

impl PathReporter {
    /// Makes a reporter for a connection that `endpoint` made or accepted.
    pub fn new(endpoint: Endpoint, connection: Connection) -> Self {
        Self { endpoint, connection }
    }

    /// Returns the connection that the reporter observes.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the properties that are in force now on the link.
    pub(super) fn report(&self, packs: u64, bytes_copied: u64) -> LinkReport {
        let path = self.endpoint.path_report(&self.connection);
        LinkReport {
            transport: "quic",
            not_better: None,
            mtu: Some(path.mtu),
            gso: path.gso,
            gro: path.gro,
            rcvbuf_bytes: Some(path.rcvbuf_bytes),
            cipher: Some(path.cipher.to_owned()),
            round_trip: Some(path.rtt),
            lost_packets: path.lost_packets,
            bytes_copied,
            packs,
        }
    }
}
