//! The check whether a process listens at a UDP port.
//!
//! A system answers a datagram to a closed port with a message that the sender's socket reports as a
//! refused connection. A host that is gone or behind a firewall sends no such message, and then the check
//! shows nothing.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use millstream_link::HostPort;
use tokio::net::UdpSocket;

/// The deadline for an answer, longer than a round trip on any network in which a service runs.
const ANSWER_DEADLINE: Duration = Duration::from_millis(200);
/// The deadline for resolving a name.
const RESOLVE_DEADLINE: Duration = Duration::from_secs(1);

/// Returns whether the system at this address reports that no process listens there. `None` if the address
/// cannot be probed.
pub(crate) async fn is_closed(address: &str) -> Option<bool> {
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
    // The datagram is too short for a QUIC packet, so that a living process drops it.
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
}
