//! All limits of an endpoint, each with its default and its reason.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::congestion::CappedCubicConfig;
use crate::socket::SocketConfig;

/// The smallest MTU of QUIC, with which every path starts.
const MTU_MIN: u16 = 1200;
/// The largest UDP payload that fits the loopback device's 65 536 bytes over IPv4, rounded down for IP
/// options.
const MTU_LOOPBACK: u16 = 65_495;
/// The largest UDP payload on loopback over IPv6, whose header is 20 bytes longer: 65 536 - 40 - 8.
const MTU_LOOPBACK_V6: u16 = 65_488;
/// The 9 000 bytes of a jumbo frame, less 40 bytes of IPv6 header and 8 bytes of UDP header. Discovery ends
/// lower where frames are smaller.
const MTU_NETWORK: u16 = 8_952;
/// The time between two searches for the MTU. A search may end too low if congestion loses its probes, and
/// the next search corrects the result. At the bound a search costs nothing.
const MTU_SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// The time until the next search after the MTU fell to 1200 bytes. The fall is more often caused by a burst
/// of losses than by a smaller path.
const MTU_FALL_COOLDOWN: Duration = Duration::from_secs(5);
/// The largest congestion window on loopback, in bytes. With the default socket buffers, the sender stops
/// just before it would overflow the receiver's buffer, which is the whole path. A larger window gains
/// nothing, and loses packets whenever it is filled.
const WINDOW_LOOPBACK_BYTES_MAX: u64 = 700_000;
/// The maximum number of datagram aggregates that quinn receives in one call.
const RECEIVE_BATCH_MAX: usize = 32;

/// The limits for the peer of a connection: the bytes that it may send ahead of the reader, and the number of
/// open streams. The limits bound the memory that the peer can make this side hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// Maximum bytes ahead of the reader on one stream. The default is 16 MiB, four times the product of 10
    /// Gbit/s and 3 ms, so that credits are the limiter and not QUIC. The limit is finite, because the bytes
    /// use memory.
    pub stream_window_bytes: u32,
    /// Maximum bytes ahead of the reader on all streams; default 64 MiB, for the same reasons.
    ///
    /// Unread bytes of all streams count, and a sender need not send streams in order. Therefore a reader
    /// must read all streams concurrently. A reader of one stream at a time could wait for bytes for which
    /// the other streams leave no room.
    pub connection_window_bytes: u32,
    /// Maximum number of open unidirectional streams; default 1024. Each pack uses a stream, and small packs
    /// are numerous.
    pub uni_streams_max: u32,
    /// Maximum number of open bidirectional streams; default 256. Each request uses a stream.
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

/// The settings of an endpoint. The settings of both ends count: the MTU of a path is the smaller of the two.
///
/// Callers should start from `EndpointConfig::default()` and change individual settings.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The local address. The default is 127.0.0.1 with a free port for a server, and any address and port
    /// for a client.
    pub bind: Option<SocketAddr>,
    /// The UDP payload of this endpoint's paths in bytes, 1200 to 65 495, if network and peer allow it.
    /// `None`, the default, uses the largest payload that discovery finds, up to 65 495 on loopback and 8 952
    /// (jumbo frames) elsewhere. Each doubling nearly doubles the throughput of a core.
    pub mtu: Option<u16>,
    /// Maximum bytes in flight on one connection; default 64 MiB, the amount that a peer accepts ahead. CUBIC
    /// finds the capacity of a network. On loopback the maximum is always at most 700 000 bytes, because only
    /// the receiver's buffer matters there.
    pub congestion_window_bytes_max: u64,
    /// The number of bytes in flight at the start; default 128 KiB. The paths of a data centre need no slow
    /// start from ten packets, and the smallest usual socket buffers hold this amount.
    pub congestion_window_bytes_initial: u64,
    /// The limits of the servers to which this endpoint connects.
    pub of_connected: PeerLimits,
    /// The limits of the clients that this endpoint accepts. A server that expects little data should set low
    /// limits, because unread bytes stay in memory.
    pub of_accepted: PeerLimits,
    /// Maximum bytes kept for retransmission on one connection before writers wait; default 64 MiB.
    pub send_window_bytes: u64,
    /// The silence after which a peer counts as dead; default 5 s, the limit within which a dead peer must be
    /// detected. Connections with heartbeats of their own may use a longer timeout: see
    /// [`Endpoint::connect_patiently`](super::Endpoint::connect_patiently).
    pub idle_timeout: Duration,
    /// The time between two keep-alive packets of a silent connection; default 1 s, so that four may be lost.
    /// `None` sends no keep-alive packets.
    pub keep_alive: Option<Duration>,
    /// The time after which a server gives up a handshake; default 3 s, because a slow handshake occupies a
    /// place that other clients need.
    pub handshake_deadline: Duration,
    /// The initial estimate of the round-trip time; default 10 ms. The estimate suits a data centre, unlike
    /// the Internet's 333 ms, so that a lost first packet is repeated soon.
    pub initial_rtt: Duration,
    /// Maximum number of concurrent handshakes of a server; default 256. Beyond an eighth of the maximum,
    /// clients must first prove their address (Retry). At the maximum, the oldest handshake of the address
    /// with the most handshakes is evicted.
    pub handshakes_max: usize,
    /// Maximum number of concurrent handshakes with clients at one proved address, or in one /64 network of
    /// IPv6. The default is 64, a quarter of `handshakes_max`. A host that never completes handshakes thus
    /// leaves places for others, and a host that starts many processes is not delayed.
    pub handshakes_per_address_max: usize,
    /// Maximum number of connections of a server; default 4096, of the order of a cluster's processes. Peers
    /// with the role `read` have at most three quarters of the connections. Read keys are widely distributed,
    /// and their holders must not exclude the holders of other keys.
    pub connections_max: usize,
    /// Maximum number of connections of a server with one peer process; default 256. A process needs one
    /// connection for each iteration that it reads at the same time.
    pub connections_per_peer_max: usize,
    /// The size of the socket buffers to request from the kernel, in bytes in each direction; default 4 MiB.
    /// The buffers hold several windows, because one socket receives for many connections.
    pub socket_buffer_bytes: usize,
    /// Maximum number of datagram aggregates received in one call, 1 to 32; default 4. The 256 KiB of four
    /// aggregates stay in the processor's cache; quinn's own default of 32 would not.
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

/// The error for an invalid setting. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value}: {rule}")]
pub struct ConfigError {
    /// The name of the setting.
    pub setting: &'static str,
    /// The value of the setting.
    pub value: String,
    /// The rule that the value violates.
    pub rule: &'static str,
}

impl EndpointConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Returns an error for the first invalid setting.
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

    /// Returns the settings that must not be zero. The limit of unidirectional streams for clients may be
    /// zero, but a server sends its packs on such streams.
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

    /// Returns the size of the largest datagram that peers may send, in bytes. The MTU limits both this size
    /// and the search in [`transport`](Self::transport).
    pub(super) fn payload_bytes_max(&self) -> u16 {
        self.mtu.unwrap_or(MTU_LOOPBACK)
    }

    /// Returns quinn's settings for a path to `peer`, which may send within `limits`.
    ///
    /// Every path starts at 1200 bytes, and grows by probes. quinn cannot encode a start of 16 384 bytes or
    /// more, and a start above the path's MTU would lose the handshake.
    pub(super) fn transport(
        &self,
        peer: IpAddr,
        limits: &PeerLimits,
        idle_timeout: Duration,
    ) -> Arc<TransportConfig> {
        let mut discovery = MtuDiscoveryConfig::default();
        // The search is exact to the byte, because the path must end at the requested MTU.
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
            // The order of streams is the order of packs: completing one pack is better than advancing all
            // packs.
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

    /// Returns the congestion windows for a path to `peer`.
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

/// Returns the upper bound of the search for a path's MTU if no MTU is set.
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
        // At 25 Gbit/s and 10 ms, 31 MB are in flight.
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
