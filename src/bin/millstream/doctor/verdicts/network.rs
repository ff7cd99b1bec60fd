//! The verdicts on UDP, its buffers, and the MTU. Pure.

use std::time::Duration;

use super::super::facts::network::{BufferFacts, RouteFacts};
use super::super::finding::Finding;

/// The smallest MTU that QUIC can use, in bytes: a payload of 1200, an IPv6 header of 40, and a UDP header
/// of 8.
const MTU_MIN: u32 = 1248;
/// The MTU below which a network is unusual, in bytes. Tunnels leave at least 1400 of the usual 1500.
const MTU_USUAL: u32 = 1400;

/// Judges the round trip of a datagram on loopback.
pub(in super::super) fn udp(round_trip: &Result<Duration, String>) -> Finding {
    const CHECK: &str = "udp";
    match round_trip {
        Ok(time) => Finding::ok(
            CHECK,
            format!("a datagram on 127.0.0.1 returned in {}", time_text(*time)),
        ),
        Err(error) => Finding::problem(
            CHECK,
            format!("a datagram on 127.0.0.1 did not return: {error}"),
            "Allow UDP on loopback in the firewall, or in the sandbox that runs this command.",
        ),
    }
}

/// Judges the granted buffers of a UDP socket.
pub(in super::super) fn buffers(buffers: &Result<BufferFacts, String>) -> Finding {
    const CHECK: &str = "udp-buffers";
    let facts = match buffers {
        Ok(facts) => facts,
        Err(error) => {
            return Finding::problem(
                CHECK,
                format!("the system refuses a UDP socket: {error}"),
                "Allow UDP sockets in the sandbox that runs this command.",
            );
        }
    };
    let wanted = facts.wanted_bytes;
    let found = format!(
        "the kernel grants {} bytes to receive and {} bytes to send; wanted are {wanted} bytes each",
        facts.receive_bytes, facts.send_bytes
    );
    if facts.receive_bytes.min(facts.send_bytes) >= wanted {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        found,
        format!(
            "Fast networks lose bursts: run `sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}` on the host as root."
        ),
    )
}

/// Judges the MTU of a route.
pub(in super::super) fn mtu(route: &Result<Option<RouteFacts>, String>) -> Finding {
    const CHECK: &str = "mtu";
    let route = match route {
        Ok(Some(route)) => route,
        Ok(None) => {
            return Finding::ok(
                CHECK,
                "no route to other networks was found, so only loopback is used",
            );
        }
        Err(error) => {
            return Finding::problem(
                CHECK,
                format!("the route to the dispatcher cannot be determined: {error}"),
                "Check the address in --dispatcher, and whether this machine resolves its host name.",
            );
        }
    };
    let (towards, mtu) = (&route.towards, route.mtu_bytes);
    let device = route.device.as_deref();
    let place = device.map_or_else(String::new, |device| format!(" through {device}"));
    let found = format!("packets to {towards}{place} may have {mtu} bytes");
    let device = device.unwrap_or("DEVICE");
    if mtu < MTU_MIN {
        return Finding::problem(
            CHECK,
            format!("{found}, but QUIC needs {MTU_MIN}"),
            format!(
                "Raise the MTU of the interface and of all tunnels on the way: `ip link set dev {device} mtu 1500`."
            ),
        );
    }
    if mtu < MTU_USUAL {
        return Finding::warning(
            CHECK,
            format!("{found}, fewer than the usual {MTU_USUAL} to 9000"),
            format!(
                "Small packets cost processor time: raise the MTU with `ip link set dev {device} mtu 1500` if the network allows it."
            ),
        );
    }
    Finding::ok(CHECK, found)
}

/// Formats a short time.
pub(in super::super) fn time_text(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if milliseconds < 1.0 {
        format!("{} µs", time.as_micros())
    } else if milliseconds < 1000.0 {
        format!("{milliseconds:.1} ms")
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Level;
    use super::*;

    #[test]
    fn udp_works_or_is_a_problem() {
        let good = udp(&Ok(Duration::from_micros(50)));
        assert_eq!(
            (good.level, good.found.contains("50 µs")),
            (Level::Ok, true),
            "{good:?}"
        );
        let bad = udp(&Err("timed out".to_owned()));
        assert_eq!(
            (bad.level, bad.found.contains("timed out")),
            (Level::Problem, true)
        );
    }

    #[test]
    fn small_buffers_name_the_setting() {
        let facts = |receive_bytes| {
            Ok(BufferFacts {
                wanted_bytes: 4 << 20,
                receive_bytes,
                send_bytes: 8 << 20,
            })
        };
        assert_eq!(buffers(&facts(8 << 20)).level, Level::Ok);
        let small = buffers(&facts(425_984));
        assert_eq!(small.level, Level::Warning);
        assert!(small.found.contains("425984"), "{small:?}");
        assert!(
            small
                .cure
                .contains("net.core.rmem_max=4194304 net.core.wmem_max=4194304"),
            "{small:?}"
        );
        assert_eq!(buffers(&Err("refused".to_owned())).level, Level::Problem);
    }

    #[test]
    fn the_mtu_has_two_bounds() {
        let route = |mtu_bytes| {
            mtu(&Ok(Some(RouteFacts {
                towards: "the dispatcher at head:5050".to_owned(),
                device: Some("eth0".to_owned()),
                mtu_bytes,
            })))
        };
        for (mtu_bytes, level) in [
            (1000, Level::Problem),
            (1247, Level::Problem),
            (1248, Level::Warning),
            (1399, Level::Warning),
            (1400, Level::Ok),
            (9000, Level::Ok),
        ] {
            let finding = route(mtu_bytes);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(
                finding
                    .found
                    .contains(&format!("eth0 may have {mtu_bytes} bytes")),
                "{finding:?}"
            );
            assert_eq!(finding.cure.contains("dev eth0"), level != Level::Ok);
        }
        assert_eq!(mtu(&Ok(None)).level, Level::Ok);
        assert_eq!(mtu(&Err("no such host".to_owned())).level, Level::Problem);
    }
}
