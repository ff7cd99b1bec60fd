//! The probes of workers' ports: they check whether a process listens there.
//!
//! A system answers a datagram to a closed port with a message that the sender's socket reports as a
//! refused connection. A host that is gone or behind a firewall sends no such message, and then the probe
//! shows nothing.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use millstream_link::HostPort;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::id::WorkerId;

/// Maximum number of probes in progress. Further probes are skipped, and requested again with the next
/// sweep.
const PROBES_MAX: usize = 64;
/// The deadline for an answer, longer than a round trip on any network in which a service runs.
const ANSWER_DEADLINE: Duration = Duration::from_millis(200);
/// The deadline for resolving a worker's name.
const RESOLVE_DEADLINE: Duration = Duration::from_secs(1);

/// The probes in progress.
#[derive(Debug, Default)]
pub(super) struct Probes {
    under_way: JoinSet<Option<(WorkerId, bool)>>,
}

impl Probes {
    /// Begins a probe, unless too many probes are in progress.
    pub(super) fn begin(&mut self, worker: WorkerId, address: String) {
        if self.under_way.len() < PROBES_MAX {
            self.under_way
                .spawn(async move { Some((worker, is_closed(&address).await?)) });
        }
    }

    /// Returns the next finished probe: the worker, and whether its port is closed. Waits for ever if no
    /// probe is in progress. Cancel-safe.
    pub(super) async fn next(&mut self) -> (WorkerId, bool) {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(Some(probed))) => return probed,
                Some(Ok(None)) => {}
                Some(Err(error)) => tracing::error!(%error, "the task of a probe panicked"),
                None => std::future::pending().await,
            }
        }
    }
}

/// Returns whether the system at this address reports that no process listens there. `None` if the address
/// cannot be probed.
async fn is_closed(address: &str) -> Option<bool> {
    let address = HostPort::from_str(address).ok()?;
    let mut closed = None;
    for address in address.resolve(RESOLVE_DEADLINE).await.ok()? {
        match refuses(address).await {
            // A name may have an address to which this host has no route.
            None => {}
            Some(false) => return Some(false),
            Some(true) => closed = Some(true),
        }
    }
    closed
}

/// Returns whether a datagram to this address is refused.
async fn refuses(address: SocketAddr) -> Option<bool> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    socket.connect(address).await.ok()?;
    // The datagram is too short for a QUIC packet, so that a living worker drops it.
    socket.send(&[0]).await.ok()?;
    let answer = tokio::time::timeout(ANSWER_DEADLINE, socket.recv(&mut [0])).await;
    Some(matches!(answer, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_port_differs_from_an_open_one() {
        let open = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = open.local_addr().unwrap().to_string();
        assert_eq!(is_closed(&address).await, Some(false));
        drop(open);
        assert_eq!(is_closed(&address).await, Some(true));
        assert_eq!(is_closed("no address").await, None);
    }

    #[tokio::test]
    async fn probes_name_their_workers_and_have_a_limit() {
        let open = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addresses = [&open, &closed].map(|socket| socket.local_addr().unwrap().to_string());
        drop(closed);
        let mut probes = Probes::default();
        for (worker, address) in (1..).zip(addresses.iter().cycle().take(2 * PROBES_MAX)) {
            probes.begin(WorkerId(worker), address.clone());
        }
        let mut heard = 0;
        while !probes.under_way.is_empty() {
            let (worker, is_closed) = probes.next().await;
            assert_eq!(is_closed, worker.0 % 2 == 0, "{worker}");
            heard += 1;
        }
        assert_eq!(heard, PROBES_MAX);
    }
}
