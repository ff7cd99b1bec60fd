//! The address that a worker advertises to readers if its settings name none, and the check that the worker's
//! socket can reach the dispatcher.

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

/// Checks that a worker bound to `bound` can reach its dispatcher. A socket of the loopback interface sends
/// to addresses of this host only. Logs a warning if the dispatcher serves other hosts, whose readers cannot
/// reach the worker. A worker that advertises another address (`is_advertised`) causes no warning.
///
/// An unresolved name passes, because the session with the dispatcher resolves the name again.
///
/// # Errors
/// The text for the caller: the dispatcher is on another host.
pub(super) async fn check_reach(
    bound: SocketAddr,
    is_advertised: bool,
    dispatcher: HostPort,
) -> Result<(), String> {
    if !bound.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let dispatchers = dispatcher.resolve(RESOLVE_DEADLINE).await.unwrap_or_default();
    let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    if dispatchers.is_empty() || dispatchers.iter().any(is_loopback) {
        return Ok(());
    }
    let is_of_this_host = |address: &SocketAddr| address_towards(*address) == Some(address.ip());
    if !dispatchers.iter().any(is_of_this_host) {
        return Err(format!(
            "the worker is bound to {}, from which the dispatcher at {dispatcher} cannot be reached: bind an address of the \
             network, as with --bind 0.0.0.0:0",
            bound.ip()
        ));
    }
    if !is_advertised {
        tracing::warn!(
            %bound,
            %dispatcher,
            "the worker is bound to the loopback interface: readers on other hosts cannot reach the worker; for such \
             readers, bind an address of the network, as with --bind 0.0.0.0:0"
        );
    }
    Ok(())
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

    async fn reach(bound: &str, dispatcher: &str) -> Result<(), String> {
        check_reach(bound.parse().unwrap(), false, dispatcher.parse().unwrap()).await
    }

    #[tokio::test]
    async fn loopback_workers_refuse_dispatchers_of_other_hosts() {
        let refusal = reach("127.0.0.1:5051", "198.51.100.7:5050").await.unwrap_err();
        assert!(
            refusal.contains(
                "bound to 127.0.0.1, from which the dispatcher at 198.51.100.7:5050 cannot be reached"
            ) && refusal.contains("--bind 0.0.0.0:0"),
            "{refusal}"
        );
        for (bound, dispatcher) in [
            ("0.0.0.0:5051", "198.51.100.7:5050"),
            ("127.0.0.1:5051", "127.0.0.1:5050"),
            ("127.0.0.1:5051", "127.0.0.9:5050"),
        ] {
            assert_eq!(reach(bound, dispatcher).await, Ok(()), "{bound} {dispatcher}");
        }
    }

    #[tokio::test]
    async fn no_worker_tells_an_unspecified_address() {
        let told = told(None, "0.0.0.0:5051", "127.0.0.1:5050").await;
        assert_eq!(told, "127.0.0.1:5051");
    }
}
