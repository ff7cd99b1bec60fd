//! The facts of the network: a round trip on loopback, the buffers of a UDP socket, and the MTU of a route.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};

use millstream::link::{EndpointConfig, HostPorts, probe_buffers};

/// The size of a datagram in the test, which is that of a first packet of QUIC.
const DATAGRAM_BYTES: usize = 1200;
/// The number of datagrams that are sent there and back, of which the fastest counts.
const ROUNDS: usize = 5;
/// The time within which a datagram must return.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
/// An address for documentation (RFC 5737), which only a default route leads to. No packet is sent there.
const ELSEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5050);

/// The buffers of a UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct BufferFacts {
    /// The size that an endpoint requests.
    pub(in super::super) wanted_bytes: usize,
    /// The granted size of the receive buffer.
    pub(in super::super) receive_bytes: usize,
    /// The granted size of the send buffer.
    pub(in super::super) send_bytes: usize,
}

/// The route to another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct RouteFacts {
    /// The destination in words.
    pub(in super::super) towards: String,
    /// The name of the network interface, if it is known.
    pub(in super::super) device: Option<String>,
    /// The largest packet, in bytes.
    pub(in super::super) mtu_bytes: u32,
}

/// Sends datagrams to a socket on loopback and back, and returns the shortest round trip.
pub(in super::super) fn loopback_round_trip() -> Result<Duration, String> {
    let here = (Ipv4Addr::LOCALHOST, 0);
    let open = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind(here)?;
        socket.set_read_timeout(Some(ROUND_TRIP_MAX))?;
        Ok(socket)
    };
    let round = |one: &UdpSocket, other: &UdpSocket| -> std::io::Result<Duration> {
        let (sent, begun) = ([7; DATAGRAM_BYTES], Instant::now());
        let mut received = [0; DATAGRAM_BYTES];
        one.send_to(&sent, other.local_addr()?)?;
        let (_, from) = other.recv_from(&mut received)?;
        other.send_to(&received, from)?;
        one.recv_from(&mut received)?;
        Ok(begun.elapsed())
    };
    let fastest = open().and_then(|one| {
        let other = open()?;
        let mut fastest = round(&one, &other)?;
        for _ in 1..ROUNDS {
            fastest = fastest.min(round(&one, &other)?);
        }
        Ok(fastest)
    });
    fastest.map_err(|error| error.to_string())
}

/// Requests the buffers of an endpoint, and returns what the kernel grants.
pub(in super::super) fn buffers() -> Result<BufferFacts, String> {
    let wanted_bytes = EndpointConfig::default().socket_buffer_bytes;
    let (receive_bytes, send_bytes) = probe_buffers(wanted_bytes).map_err(|error| error.to_string())?;
    Ok(BufferFacts {
        wanted_bytes,
        receive_bytes,
        send_bytes,
    })
}

/// Returns the route to the first of these dispatchers, or the default route. Returns `None` without a route.
/// Sends no packet.
pub(in super::super) fn route(dispatcher: Option<&str>) -> Result<Option<RouteFacts>, String> {
    let (towards, address) = match dispatcher {
        None => ("other networks (default route)".to_owned(), ELSEWHERE),
        Some(addresses) => {
            let addresses = HostPorts::from_str(addresses).map_err(|error| error.to_string())?;
            let first = addresses.first();
            let resolved = (first.host(), first.port()).to_socket_addrs();
            let mut resolved = resolved.map_err(|error| format!("{}: {error}", first.host()))?;
            let address = resolved.next();
            let address = address.ok_or_else(|| format!("{} has no address", first.host()))?;
            (format!("the dispatcher at {first}"), address)
        }
    };
    route_to(towards, address)
}

#[cfg(target_os = "linux")]
fn route_to(towards: String, address: SocketAddr) -> Result<Option<RouteFacts>, String> {
    use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).map_err(|error| error.to_string())?;
    if let Err(error) = socket.connect(address) {
        let has_no_route = matches!(
            error.kind(),
            std::io::ErrorKind::NetworkUnreachable | std::io::ErrorKind::HostUnreachable
        );
        return if has_no_route {
            Ok(None)
        } else {
            Err(error.to_string())
        };
    }
    let mtu = if address.is_ipv4() {
        ip_mtu(&socket)
    } else {
        ipv6_mtu(&socket)
    };
    let is_here = socket.local_addr().is_ok_and(|own| own.ip() == address.ip());
    let device = match address {
        _ if is_here => Some("lo".to_owned()),
        SocketAddr::V4(v4) => std::fs::read_to_string("/proc/net/route")
            .ok()
            .and_then(|table| device_towards(&table, *v4.ip())),
        SocketAddr::V6(_) => None,
    };
    Ok(Some(RouteFacts {
        towards,
        device,
        mtu_bytes: mtu.map_err(|error| error.to_string())?,
    }))
}

#[cfg(not(target_os = "linux"))]
fn route_to(_: String, _: SocketAddr) -> Result<Option<RouteFacts>, String> {
    Ok(None)
}

/// Returns the interface of the longest matching prefix in the kernel's table of routes (`/proc/net/route`).
#[cfg(target_os = "linux")]
fn device_towards(table: &str, target: Ipv4Addr) -> Option<String> {
    // The table shows addresses as native integers in network byte order.
    let address = |digits: &str| {
        let native = u32::from_str_radix(digits, 16).ok()?;
        Some(u32::from_be_bytes(native.to_ne_bytes()))
    };
    let target = u32::from(target);
    let matching = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (device, destination) = (columns.first()?, address(columns.get(1)?)?);
        let mask = address(columns.get(7)?)?;
        (target & mask == destination).then(|| (mask, (*device).to_owned()))
    });
    let longest = matching.max_by_key(|(mask, _)| *mask);
    longest.map(|(_, device)| device)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_names_the_interface() {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |device: &str, to: [u8; 4], mask: [u8; 4]| {
            format!(
                "{device}\t{}\t0\t0003\t0\t0\t0\t{}\t0\t0\t0\n",
                hex(to),
                hex(mask)
            )
        };
        let default = line("eth0", [0; 4], [0; 4]);
        let table = format!("Iface\n{default}{}", line("ib0", [10, 1, 0, 0], [255, 255, 0, 0]));
        let device = |target| device_towards(&table, target);
        assert_eq!(device(Ipv4Addr::new(10, 1, 2, 3)), Some("ib0".to_owned()));
        assert_eq!(device(Ipv4Addr::new(10, 2, 2, 3)), Some("eth0".to_owned()));
        assert_eq!(device_towards("Iface\n", Ipv4Addr::new(10, 2, 2, 3)), None);
    }

    #[test]
    fn loopback_has_an_interface() {
        assert!(loopback_round_trip().unwrap() < ROUND_TRIP_MAX * 2);
        let route = route(Some("127.0.0.1:5050")).unwrap().expect("a route");
        assert_eq!(route.device.as_deref(), Some("lo"));
        assert!(route.mtu_bytes >= 1280, "{route:?}");
        assert!(super::route(Some("nonsense")).is_err());
    }
}
