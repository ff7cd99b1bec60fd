//! The address that a worker advertises to readers if its settings name none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use millstream_link::HostPort;

/// The time within which the resolver must resolve the dispatcher's name.
const RESOLVE_DEADLINE: Duration = Duration::from_secs(5);
/// An address for documentation (RFC 5737), which no machine has. The route to this address is the default
/// route.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// Returns `wanted` with the bound port in place of `%port%`, or the bound address if `wanted` is `None`.
///
/// An unspecified address such as 0.0.0.0 cannot be reached. For a worker that binds an unspecified address,
/// returns the address from which this machine reaches the dispatcher.
pub(super) async fn advertised(wanted: Option<String>, bound: SocketAddr, dispatcher: HostPort) -> String {
    if let Some(address) = wanted {
        return address.replace("%port%", &bound.port().to_string());
    }
    if !bound.ip().is_unspecified() {
        return bound.to_string();
    }
    let dispatchers = dispatcher.resolve(RESOLVE_DEADLINE).await.unwrap_or_default();
    let targets = dispatchers.into_iter().chain([ELSEWHERE]);
    let mut reachable = targets.filter(|target| bound.is_ipv6() || target.is_ipv4());
    let own = reachable.find_map(address_towards).unwrap_or(bound.ip());
    SocketAddr::new(own, bound.port()).to_string()
}

/// Returns the address from which this machine would send to `target`, or `None` without a route to `target`.
/// Sends nothing.
fn address_towards(target: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_unspecified()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(wanted: Option<&str>, bound: &str, dispatcher: &str) -> String {
        let wanted = wanted.map(str::to_owned);
        advertised(wanted, bound.parse().unwrap(), dispatcher.parse().unwrap()).await
    }

    #[tokio::test]
    async fn a_given_address_is_told() {
        let told = told(Some("node7:%port%"), "0.0.0.0:5051", "127.0.0.1:5050").await;
        assert_eq!(told, "node7:5051");
    }

    #[tokio::test]
    async fn a_bound_address_is_told() {
        let told = told(None, "127.0.0.3:5051", "127.0.0.1:5050").await;
        assert_eq!(told, "127.0.0.3:5051");
    }

    #[tokio::test]
    async fn no_worker_tells_an_unspecified_address() {
        let told = told(None, "0.0.0.0:5051", "127.0.0.1:5050").await;
        assert_eq!(told, "127.0.0.1:5051");
    }
}
