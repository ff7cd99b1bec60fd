//! Every limit of an endpoint, with its default and its reason.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::congestion::CappedCubicConfig;
use crate::socket::SocketConfig;

/// The smallest MTU of QUIC, where every path starts.
const MTU_MIN: u16 = 1200;
/// The largest UDP payload that fits the loopback device's 65 536 bytes over IPv4, rounded down with room for
/// options.
const MTU_LOOPBACK: u16 = 65_495;
/// The largest loopback packet over IPv6, whose header is 20 bytes longer: 65 536 - 40 - 8.
const MTU_LOOPBACK_V6: u16 = 65_488;
/// A jumbo frame's 9 000 bytes less 40 of IPv6 and 8 of UDP header. Discovery stays below it where frames are
/// smaller.
const MTU_NETWORK: u16 = 8_952;
/// A search that lost its probes to congestion and ended too low is made up for after this. At the bound it
/// costs nothing.
const MTU_SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// A fall to 1200 bytes is more often bad luck in a burst of losses than a smaller path: try again soon.
const MTU_FALL_COOLDOWN: Duration = Duration::from_secs(5);
/// The largest window on loopback. With the default socket buffers a sender stops just before it would
/// overflow its receiver's buffer, which is all the path there is. A larger window gains nothing, and costs a
/// loss each time it is filled.
const WINDOW_LOOPBACK_BYTES_MAX: u64 = 700_000;
/// quinn receives at most this many datagram aggregates in one call.
const RECEIVE_BATCH_MAX: usize = 32;

/// The bytes that the peer of one connection may send ahead of its reader, and the streams that it may have
/// open. Both bound the memory that it can make this side hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Bytes ahead on one stream. Default 16 MiB, four times the product of 10 Gbit/s and 3 ms, so that
    /// credits and not QUIC limit the flow; finite, because it is memory.
    pub stream_window_bytes: u32,
    /// Bytes ahead on all streams. Default 64 MiB, for the same reasons. Unread bytes of any stream count,
    /// and a sender need not send streams in order: a peer that reads one stream to its end before the next
    /// can wait for bytes for which other streams leave no room. Read all streams side by side.
    pub connection_window_bytes: u32,
    /// Unidirectional streams open at a time. Default 1024: one a pack, and packs are many when small.
    pub uni_streams_max: u32,
    /// Bidirectional streams open at a time. Default 256: one a request.
    pub bidi_streams_max: u32,
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits {
            stream_window_bytes: 16 << 20,
            connection_window_bytes: 64 << 20,
            uni_streams_max: 1024,
            bidi_streams_max: 256,
        }
    }
}

/// The settings of an endpoint. Both ends' settings count: the MTU of a path is the smaller of the two.
///
/// Start from `EndpointConfig::default()` and change what is needed.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Local address. Default: for a server 127.0.0.1 with a free port, for a client any address and port.
    pub bind: Option<SocketAddr>,
    /// UDP payload in bytes, 1200 to 65 495, that paths of this endpoint settle at, if network and peer allow
    /// it. Default `None`: as large as discovery finds, up to 65 495 on loopback and 8 952 (jumbo frames)
    /// elsewhere. Every doubling nearly doubles the rate of a core.
    pub mtu: Option<u16>,
    /// Most bytes in flight on one connection. Default 64 MiB, as much as a peer accepts ahead: what a
    /// network carries is for CUBIC to find. On loopback never more than 700 000, where only the receiver's
    /// buffer is to be found.
    pub congestion_window_bytes_max: u64,
    /// Bytes in flight at the start. Default 128 KiB: a data centre's paths need no slow start from ten
    /// packets, and the smallest usual socket buffers hold it.
    pub congestion_window_bytes_initial: u64,
    /// The limits of the servers that this endpoint connects to.
    pub of_connected: PeerLimits,
    /// The limits of the clients that this endpoint accepts. A server that expects little sets them low,
    /// because bytes that nobody reads stay in memory.
    pub of_accepted: PeerLimits,
    /// Bytes kept for retransmission on one connection before writers wait. Default 64 MiB.
    pub send_window_bytes: u64,
    /// A peer that is silent for this long is gone. Default 5 s, the limit within which a dead peer must be
    /// noticed. A connection on which heartbeats tell who lives is more patient: see
    /// [`Endpoint::connect_patiently`](super::Endpoint::connect_patiently).
    pub idle_timeout: Duration,
    /// A silent connection says that it lives this often. Default 1 s: four may be lost. `None`: never.
    pub keep_alive: Option<Duration>,
    /// A server gives up on a handshake after this. Default 3 s: a slow handshake holds a place that others
    /// want.
    pub handshake_deadline: Duration,
    /// First guess of the round-trip time. Default 10 ms: a data centre's, not the Internet's 333 ms, so that
    /// a lost first packet is repeated soon.
    pub initial_rtt: Duration,
    /// Handshakes a server works on at a time. Default 256. Beyond an eighth of them, clients must first
    /// prove their address (Retry). When all are under way, the oldest with the address that has most makes
    /// room.
    pub handshakes_max: usize,
    /// The handshakes with clients at one proved address, or one /64 network of IPv6. Default 64, a quarter:
    /// a host that begins handshakes and never ends them leaves places for others, and a host that starts
    /// many processes is not held up.
    pub handshakes_per_address_max: usize,
    /// Connections a server keeps at a time. Default 4096, of the order of a cluster's processes. Peers of
    /// role `read` have at most three quarters of them: their keys are given to many, and must not keep out
    /// the holders of others.
    pub connections_max: usize,
    /// Connections a server keeps for one peer process. Default 256: one for each iteration that it reads at
    /// a time, with room.
    pub connections_per_peer_max: usize,
    /// Socket buffers to ask the kernel for, in bytes each way. Default 4 MiB: several windows, since one
    /// socket receives for many connections.
    pub socket_buffer_bytes: usize,
    /// Datagram aggregates received in one call, 1 to 32. Default 4: their 256 KiB stay in the processor's
    /// cache, while quinn's own 32 would not.
    pub receive_batch: usize,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            bind: None,
            mtu: None,
            congestion_window_bytes_max: 64 << 20,
            congestion_window_bytes_initial: 128 << 10,
            of_connected: PeerLimits::default(),
            of_accepted: PeerLimits::default(),
            send_window_bytes: 64 << 20,
            idle_timeout: Duration::from_secs(5),
            keep_alive: Some(Duration::from_secs(1)),
            handshake_deadline: Duration::from_secs(3),
            initial_rtt: Duration::from_millis(10),
            handshakes_max: 256,
            handshakes_per_address_max: 64,
            connections_max: 4096,
            connections_per_peer_max: 256,
            socket_buffer_bytes: 4 << 20,
            receive_batch: 4,
        }
    }
}

/// A setting that cannot work. The caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value}: {rule}")]
pub struct ConfigError {
    /// The name of the setting.
    pub setting: &'static str,
    /// The value.
    pub value: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

impl EndpointConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |good: bool, setting, value: String, rule| {
            if good {
                Ok(())
            } else {
                Err(ConfigError { setting, value, rule })
            }
        };
        let mtu = self.mtu.unwrap_or(MTU_MIN);
        check(
            (MTU_MIN..=MTU_LOOPBACK).contains(&mtu),
            "mtu",
            mtu.to_string(),
            "must be 1200 to 65495 bytes",
        )?;
        let batch = self.receive_batch;
        check(
            (1..=RECEIVE_BATCH_MAX).contains(&batch),
            "receive_batch",
            batch.to_string(),
            "must be 1 to 32",
        )?;
        let buffer = self.socket_buffer_bytes;
        check(
            buffer > 0 && i32::try_from(buffer).is_ok(),
            "socket_buffer_bytes",
            buffer.to_string(),
            "must be 1 byte to 2 GiB less one",
        )?;
        for (setting, value) in self.counts() {
            check(value > 0, setting, value.to_string(), "must be at least 1")?;
        }
        for (setting, time) in [
            ("handshake_deadline", self.handshake_deadline),
            ("initial_rtt", self.initial_rtt),
            ("idle_timeout", self.idle_timeout),
            ("keep_alive", self.keep_alive.unwrap_or(self.idle_timeout)),
        ] {
            check(!time.is_zero(), setting, format!("{time:?}"), "must not be zero")?;
        }
        let idle = self.idle_timeout;
        let idle_text = format!("{idle:?}");
        check(
            IdleTimeout::try_from(idle).is_ok(),
            "idle_timeout",
            idle_text.clone(),
            "is too long",
        )?;
        let keeps_alive = self.keep_alive.is_none_or(|every| every < idle);
        check(
            keeps_alive,
            "idle_timeout",
            idle_text,
            "must be longer than keep_alive, or idle links die",
        )?;
        Ok(())
    }

    /// Returns the settings that must not be zero. A client may be kept from opening unidirectional streams;
    /// a server that this endpoint connects to sends its packs on them.
    fn counts(&self) -> [(&'static str, u64); 14] {
        let (connected, accepted) = (&self.of_connected, &self.of_accepted);
        [
            ("handshakes_max", self.handshakes_max as u64),
            (
                "handshakes_per_address_max",
                self.handshakes_per_address_max as u64,
            ),
            ("connections_max", self.connections_max as u64),
            ("connections_per_peer_max", self.connections_per_peer_max as u64),
            ("congestion_window_bytes_max", self.congestion_window_bytes_max),
            (
                "congestion_window_bytes_initial",
                self.congestion_window_bytes_initial,
            ),
            ("send_window_bytes", self.send_window_bytes),
            (
                "of_connected.stream_window_bytes",
                connected.stream_window_bytes.into(),
            ),
            (
                "of_connected.connection_window_bytes",
                connected.connection_window_bytes.into(),
            ),
            ("of_connected.uni_streams_max", connected.uni_streams_max.into()),
            ("of_connected.bidi_streams_max", connected.bidi_streams_max.into()),
            (
                "of_accepted.stream_window_bytes",
                accepted.stream_window_bytes.into(),
            ),
            (
                "of_accepted.connection_window_bytes",
                accepted.connection_window_bytes.into(),
            ),
            ("of_accepted.bidi_streams_max", accepted.bidi_streams_max.into()),
        ]
    }

    pub(super) fn socket(&self) -> SocketConfig {
        SocketConfig {
            buffer_bytes: self.socket_buffer_bytes,
            payload_bytes_max: self.payload_bytes_max(),
            receive_batch: self.receive_batch,
        }
    }

    /// Largest datagram that peers may send: half of the MTU's definition, [`transport`](Self::transport) is
    /// the other.
    pub(super) fn payload_bytes_max(&self) -> u16 {
        self.mtu.unwrap_or(MTU_LOOPBACK)
    }

    /// quinn's settings for a path to `peer`, which may send as `limits` say.
    ///
    /// Every path starts at 1200 bytes and climbs by probes: a start at or above 16 384 is beyond what quinn
    /// can encode, and a start above what the path carries would lose the handshake.
    pub(super) fn transport(
        &self,
        peer: IpAddr,
        limits: &PeerLimits,
        idle_timeout: Duration,
    ) -> Arc<TransportConfig> {
        let mut discovery = MtuDiscoveryConfig::default();
        // To the byte: what was asked for is what the path must end at.
        discovery
            .upper_bound(self.mtu.unwrap_or(discovery_bound(peer)))
            .minimum_change(1)
            .interval(MTU_SEARCH_INTERVAL)
            .black_hole_cooldown(MTU_FALL_COOLDOWN);
        let mut transport = TransportConfig::default();
        transport
            .mtu_discovery_config(Some(discovery))
            .congestion_controller_factory(Arc::new(self.congestion(peer)))
            .stream_receive_window(VarInt::from_u32(limits.stream_window_bytes))
            .receive_window(VarInt::from_u32(limits.connection_window_bytes))
            .send_window(self.send_window_bytes)
            // The order of streams is the order of packs: finishing one beats advancing all.
            .send_fairness(false)
            .max_concurrent_uni_streams(VarInt::from_u32(limits.uni_streams_max))
            .max_concurrent_bidi_streams(VarInt::from_u32(limits.bidi_streams_max))
            .max_idle_timeout(IdleTimeout::try_from(idle_timeout).ok())
            .keep_alive_interval(self.keep_alive)
            .initial_rtt(self.initial_rtt)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(true);
        Arc::new(transport)
    }

    /// The congestion windows on a path to `peer`.
    fn congestion(&self, peer: IpAddr) -> CappedCubicConfig {
        let window_bytes_max = if peer.to_canonical().is_loopback() {
            self.congestion_window_bytes_max.min(WINDOW_LOOPBACK_BYTES_MAX)
        } else {
            self.congestion_window_bytes_max
        };
        CappedCubicConfig {
            window_bytes_initial: self.congestion_window_bytes_initial,
            window_bytes_max,
        }
    }
}

/// Returns the bound of the search for a path's MTU when no MTU is set.
fn discovery_bound(peer: IpAddr) -> u16 {
    match peer.to_canonical() {
        IpAddr::V4(ip) if ip.is_loopback() => MTU_LOOPBACK,
        IpAddr::V6(ip) if ip.is_loopback() => MTU_LOOPBACK_V6,
        IpAddr::V4(_) | IpAddr::V6(_) => MTU_NETWORK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut EndpointConfig);

    fn blamed(change: impl FnOnce(&mut EndpointConfig)) -> &'static str {
        let mut config = EndpointConfig::default();
        change(&mut config);
        config.validate().unwrap_err().setting
    }

    #[test]
    fn bad_settings_are_named() {
        assert_eq!(EndpointConfig::default().validate(), Ok(()));
        let cases: [(&str, Change); 22] = [
            ("mtu", |config| config.mtu = Some(1199)),
            ("mtu", |config| config.mtu = Some(65_496)),
            ("receive_batch", |config| config.receive_batch = 0),
            ("receive_batch", |config| config.receive_batch = 33),
            ("socket_buffer_bytes", |config| config.socket_buffer_bytes = 0),
            ("socket_buffer_bytes", |config| {
                config.socket_buffer_bytes = 1 << 31
            }),
            ("handshakes_max", |config| config.handshakes_max = 0),
            ("handshakes_per_address_max", |config| {
                config.handshakes_per_address_max = 0
            }),
            ("connections_max", |config| config.connections_max = 0),
            ("connections_per_peer_max", |config| {
                config.connections_per_peer_max = 0
            }),
            ("congestion_window_bytes_max", |config| {
                config.congestion_window_bytes_max = 0
            }),
            ("congestion_window_bytes_initial", |config| {
                config.congestion_window_bytes_initial = 0
            }),
            ("send_window_bytes", |config| config.send_window_bytes = 0),
            ("of_connected.stream_window_bytes", |config| {
                config.of_connected.stream_window_bytes = 0
            }),
            ("of_connected.connection_window_bytes", |config| {
                config.of_connected.connection_window_bytes = 0
            }),
            ("of_connected.uni_streams_max", |config| {
                config.of_connected.uni_streams_max = 0
            }),
            ("of_connected.bidi_streams_max", |config| {
                config.of_connected.bidi_streams_max = 0
            }),
            ("of_accepted.stream_window_bytes", |config| {
                config.of_accepted.stream_window_bytes = 0
            }),
            ("of_accepted.connection_window_bytes", |config| {
                config.of_accepted.connection_window_bytes = 0
            }),
            ("of_accepted.bidi_streams_max", |config| {
                config.of_accepted.bidi_streams_max = 0
            }),
            ("handshake_deadline", |config| {
                config.handshake_deadline = Duration::ZERO
            }),
            ("initial_rtt", |config| config.initial_rtt = Duration::ZERO),
        ];
        for (setting, change) in cases {
            assert_eq!(blamed(change), setting);
        }
    }

    #[test]
    fn contradicting_timeouts_are_refused() {
        let ms = Duration::from_millis;
        for (setting, idle, keep_alive) in [
            ("idle_timeout", ms(0), None),
            ("idle_timeout", ms(1000), Some(ms(1000))),
            ("idle_timeout", Duration::MAX, None),
            ("keep_alive", ms(1000), Some(ms(0))),
        ] {
            let blamed = blamed(|config| (config.idle_timeout, config.keep_alive) = (idle, keep_alive));
            assert_eq!(blamed, setting, "{idle:?} {keep_alive:?}");
        }
    }

    #[test]
    fn a_server_may_forbid_unidirectional_streams() {
        let mut config = EndpointConfig::default();
        config.of_accepted.uni_streams_max = 0;
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn the_window_is_held_down_on_loopback_alone() {
        let config = EndpointConfig::default();
        let most = |ip: &str| config.congestion(ip.parse().unwrap()).window_bytes_max;
        for near in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(most(near), 700_000, "{near}");
        }
        // 25 Gbit/s and 10 ms: 31 MB are under way.
        for far in ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(most(far) > 31_250_000, "{far}");
        }
        let small = EndpointConfig {
            congestion_window_bytes_max: 9000,
            ..EndpointConfig::default()
        };
        assert_eq!(
            small.congestion(IpAddr::from([127, 0, 0, 1])).window_bytes_max,
            9000
        );
    }

    #[test]
    fn discovery_knows_loopback_in_every_spelling() {
        let bound = |ip: &str| discovery_bound(ip.parse().unwrap());
        assert_eq!(bound("127.0.0.1"), 65_495);
        assert_eq!(bound("::ffff:127.0.0.1"), 65_495);
        assert_eq!(bound("::1"), 65_488);
        assert_eq!(bound("10.0.0.1"), 8_952);
    }
}
