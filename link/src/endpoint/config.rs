//! Every limit of an endpoint, with its default and its reason.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::congestion::CappedCubicConfig;
use crate::socket::SocketConfig;

/// The smallest MTU of QUIC, where every path starts.
const MTU_MIN: u16 = 1200;
/// The largest UDP payload that fits the loopback device's 65 536 bytes over IPv4, rounded down with room for options.
const MTU_LOOPBACK: u16 = 65_495;
/// What of it fits over IPv6, whose header is 20 bytes longer: 65 536 - 40 - 8.
const MTU_LOOPBACK_V6: u16 = 65_488;
/// A jumbo frame's 9 000 bytes less 40 of IPv6 and 8 of UDP header. Discovery stays below it where frames are smaller.
const MTU_NETWORK: u16 = 8_952;
/// A search that lost its probes to congestion and ended too low is made up for after this. At the bound it costs nothing.
const MTU_SEARCH_INTERVAL: Duration = Duration::from_secs(30);
/// A fall to 1200 bytes is more often bad luck in a burst of losses than a smaller path: try again soon.
const MTU_FALL_COOLDOWN: Duration = Duration::from_secs(5);
/// quinn receives at most this many datagram aggregates in one call.
const RECEIVE_BATCH_MAX: usize = 32;

/// How an endpoint behaves. Both ends' settings count: the MTU of a path is the smaller of the two.
///
/// Start from `EndpointConfig::default()` and change what is needed.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Local address. Default: for a server 127.0.0.1 with a free port, for a client any address and port.
    pub bind: Option<SocketAddr>,
    /// UDP payload in bytes, 1200 to 65 495, that paths of this endpoint settle at, if the network carries it and the
    /// peer does not ask for less. Default `None`: as large as discovery finds, up to 65 495 on loopback and 8 952
    /// (jumbo frames) elsewhere, because every doubling nearly doubles what a core can move.
    pub mtu: Option<u16>,
    /// Most bytes in flight on one connection. Default 700 000: with the default socket buffers a sender stops just
    /// before it would overflow its receiver's buffer.
    pub congestion_window_bytes_max: u64,
    /// Bytes in flight at the start. Default 128 KiB: a data centre's paths need no slow start from ten packets, and the
    /// smallest usual socket buffers hold it.
    pub congestion_window_bytes_initial: u64,
    /// Bytes a peer may send ahead on one stream. Default 16 MiB, four times the product of 10 Gbit/s and 3 ms, so that
    /// credits and not QUIC limit the flow; finite, because it is memory.
    pub stream_window_bytes: u32,
    /// Bytes a peer may send ahead on one connection. Default 64 MiB, for the same reasons. Unread bytes of any stream
    /// count, and a sender need not send streams in order: whoever reads one stream to its end before it looks at the next
    /// can wait for bytes that the others' leave no room for. Read all streams side by side.
    pub connection_window_bytes: u32,
    /// Bytes kept for retransmission on one connection before writers wait. Default 64 MiB.
    pub send_window_bytes: u64,
    /// Unidirectional streams a peer may have open. Default 1024: one a pack, and packs are many when small.
    pub uni_streams_max: u32,
    /// Bidirectional streams a peer may have open. Default 256: one a request.
    pub bidi_streams_max: u32,
    /// A peer that is silent for this long is gone. Default 5 s, the limit within which a dead peer must be noticed.
    pub idle_timeout: Duration,
    /// A silent connection says that it lives this often. Default 1 s: four may be lost. `None`: never.
    pub keep_alive: Option<Duration>,
    /// A server gives up on a handshake after this. Default 3 s: a slow handshake holds a place that others want.
    pub handshake_deadline: Duration,
    /// First guess of the round-trip time. Default 10 ms: a data centre's, not the Internet's 333 ms, so that a lost first
    /// packet is repeated soon.
    pub initial_rtt: Duration,
    /// Handshakes a server works on at a time. Default 256. Above half, clients must first prove their address
    /// (Retry); above it they are refused.
    pub handshakes_max: usize,
    /// Connections a server keeps at a time. Default 4096, of the order of a cluster's processes.
    pub connections_max: usize,
    /// Connections a server keeps for one peer process. Default 64: one a lane, with room.
    pub connections_per_peer_max: usize,
    /// Socket buffers to ask the kernel for, in bytes each way. Default 4 MiB: several windows, since one socket receives
    /// for many connections.
    pub socket_buffer_bytes: usize,
    /// Datagram aggregates received in one call, 1 to 32. Default 4: their 256 KiB stay in the processor's cache, while
    /// quinn's own 32 would not.
    pub receive_batch: usize,
}

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            bind: None,
            mtu: None,
            congestion_window_bytes_max: 700_000,
            congestion_window_bytes_initial: 128 << 10,
            stream_window_bytes: 16 << 20,
            connection_window_bytes: 64 << 20,
            send_window_bytes: 64 << 20,
            uni_streams_max: 1024,
            bidi_streams_max: 256,
            idle_timeout: Duration::from_secs(5),
            keep_alive: Some(Duration::from_secs(1)),
            handshake_deadline: Duration::from_secs(3),
            initial_rtt: Duration::from_millis(10),
            handshakes_max: 256,
            connections_max: 4096,
            connections_per_peer_max: 64,
            socket_buffer_bytes: 4 << 20,
            receive_batch: 4,
        }
    }
}

/// A setting that cannot work. The caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value}: {rule}")]
pub struct ConfigError {
    /// Which field.
    pub setting: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it must be.
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
        for (setting, value) in [
            ("handshakes_max", self.handshakes_max),
            ("connections_max", self.connections_max),
            ("connections_per_peer_max", self.connections_per_peer_max),
        ] {
            check(value > 0, setting, value.to_string(), "must be at least 1")?;
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

    pub(super) fn socket(&self) -> SocketConfig {
        SocketConfig {
            buffer_bytes: self.socket_buffer_bytes,
            payload_bytes_max: self.payload_bytes_max(),
            receive_batch: self.receive_batch,
        }
    }

    /// Largest datagram that peers may send: half of the MTU's definition, [`transport`](Self::transport) is the other.
    pub(super) fn payload_bytes_max(&self) -> u16 {
        self.mtu.unwrap_or(MTU_LOOPBACK)
    }

    /// quinn's settings for a path to `peer`.
    ///
    /// Every path starts at 1200 bytes and climbs by probes: a start at or above 16 384 is beyond what quinn can encode, and
    /// a start above what the path carries would lose the handshake.
    pub(super) fn transport(&self, peer: IpAddr) -> Arc<TransportConfig> {
        let mut discovery = MtuDiscoveryConfig::default();
        // To the byte: what was asked for is what the path must end at.
        discovery
            .upper_bound(self.mtu.unwrap_or(discovery_bound(peer)))
            .minimum_change(1)
            .interval(MTU_SEARCH_INTERVAL)
            .black_hole_cooldown(MTU_FALL_COOLDOWN);
        let congestion = CappedCubicConfig {
            window_bytes_initial: self.congestion_window_bytes_initial,
            window_bytes_max: self.congestion_window_bytes_max,
        };
        let mut transport = TransportConfig::default();
        transport
            .mtu_discovery_config(Some(discovery))
            .congestion_controller_factory(Arc::new(congestion))
            .stream_receive_window(VarInt::from_u32(self.stream_window_bytes))
            .receive_window(VarInt::from_u32(self.connection_window_bytes))
            .send_window(self.send_window_bytes)
            // The order of streams is the order of packs: finishing one beats advancing all.
            .send_fairness(false)
            .max_concurrent_uni_streams(VarInt::from_u32(self.uni_streams_max))
            .max_concurrent_bidi_streams(VarInt::from_u32(self.bidi_streams_max))
            .max_idle_timeout(IdleTimeout::try_from(self.idle_timeout).ok())
            .keep_alive_interval(self.keep_alive)
            .initial_rtt(self.initial_rtt)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(true);
        Arc::new(transport)
    }
}

/// Where the search for a path's MTU ends when no MTU is set.
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

    #[test]
    fn the_defaults_are_valid_and_bad_settings_are_named() {
        assert_eq!(EndpointConfig::default().validate(), Ok(()));
        let blamed = |change: fn(&mut EndpointConfig)| {
            let mut config = EndpointConfig::default();
            change(&mut config);
            config.validate().unwrap_err().setting
        };
        assert_eq!(blamed(|config| config.mtu = Some(1199)), "mtu");
        assert_eq!(blamed(|config| config.mtu = Some(65_496)), "mtu");
        assert_eq!(blamed(|config| config.receive_batch = 0), "receive_batch");
        assert_eq!(blamed(|config| config.connections_max = 0), "connections_max");
        assert_eq!(
            blamed(|config| config.idle_timeout = Duration::from_secs(1)),
            "idle_timeout"
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
