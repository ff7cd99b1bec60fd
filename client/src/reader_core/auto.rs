//! Computes how many bytes `Auto` keeps outstanding: twice the bytes that the path carries in one round trip.
//!
//! Pure: the caller supplies arrivals, round-trip times and elapsed time. This file does not know links,
//! elements and credits.
//!
//! A path that could carry more delivers all outstanding bytes once in each round trip. The window therefore
//! doubles each time, until the rate no longer grows.
//!
//! The round trip of a link is the shortest round trip measured on the link, which excludes the queues that
//! the link's own load causes. Over several links, the longest of these round trips counts. Within a host,
//! the round trip is assumed to be the time for waking both sides. Fast elements then share one wake-up, and
//! slow elements stay few enough for the caches.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The minimum of bytes kept outstanding: more than 10 Gbit/s carry in one millisecond. A larger minimum
/// would be slower on fast paths, because the elements leave the caches of both sides.
pub const AUTO_BYTES_MIN: u64 = 2 << 20;

/// The assumed time of a round trip within a host, where either side may sleep.
pub(super) const LOCAL_ROUND_TRIP: Duration = Duration::from_micros(50);

/// The number of round trips whose bytes are kept outstanding.
const ROUND_TRIPS: u128 = 2;

/// The window shrinks by at most this fraction (one eighth) at a time, because a pause in reading is usually
/// short.
const FALL: u64 = 8;

#[derive(Debug)]
pub(super) struct Auto {
    bytes: u64,
    arrived_bytes: u64,
    round_trips: BTreeMap<Arc<str>, Duration>,
}

impl Default for Auto {
    fn default() -> Self {
        Self {
            bytes: AUTO_BYTES_MIN,
            arrived_bytes: 0,
            round_trips: BTreeMap::new(),
        }
    }
}

impl Auto {
    /// Returns the number of bytes to keep outstanding.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes a measured round trip to a worker. The shortest measurement of each worker counts.
    pub(super) fn note_round_trip(&mut self, worker: &str, round_trip: Duration) {
        match self.round_trips.get_mut(worker) {
            Some(least) => *least = round_trip.min(*least),
            None => {
                self.round_trips.insert(worker.into(), round_trip);
            }
        }
    }

    /// Forgets a worker whose link was lost, because the next link may take another path.
    pub(super) fn forget(&mut self, worker: &str) {
        self.round_trips.remove(worker);
    }

    /// Notes the number of bytes that arrived.
    pub(super) fn note_arrival(&mut self, bytes: u64) {
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
    }

    /// Resizes the window from the bytes that arrived within `elapsed`, the time since the last resize.
    pub(super) fn resize(&mut self, elapsed: Duration) {
        let arrived = u128::from(std::mem::take(&mut self.arrived_bytes));
        let round_trip = self.round_trips.values().max().map_or(0, Duration::as_nanos);
        let wanted = (arrived * round_trip).saturating_mul(ROUND_TRIPS) / elapsed.as_nanos().max(1);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        self.bytes = wanted.max(self.bytes - self.bytes / FALL).max(AUTO_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Models a path with a rate in bytes per second. The path delivers the outstanding bytes once in each
    /// round trip, but not more than its rate.
    fn settle(rate: u64, round_trip: Duration) -> u64 {
        let mut auto = Auto::default();
        auto.note_round_trip("a", round_trip);
        for _ in 0..64 {
            let by_credits = (auto.bytes() as f64 / round_trip.as_secs_f64()) as u64;
            auto.note_arrival(rate.min(by_credits));
            auto.resize(SECOND);
        }
        auto.bytes()
    }

    #[test]
    fn a_short_path_keeps_the_least() {
        assert_eq!(settle(3_000_000_000, Duration::from_micros(200)), AUTO_BYTES_MIN);
    }

    #[test]
    fn the_longest_live_link_counts() {
        let mut auto = Auto::default();
        auto.note_round_trip("near", Duration::from_millis(1));
        auto.note_round_trip("far", Duration::from_millis(10));
        auto.note_round_trip("far", Duration::from_millis(40));
        auto.note_arrival(1_000_000_000);
        auto.resize(SECOND);
        assert_eq!(auto.bytes(), 20_000_000);
        auto.forget("far");
        for _ in 0..64 {
            auto.resize(SECOND);
        }
        assert_eq!(auto.bytes(), AUTO_BYTES_MIN);
    }

    proptest! {
        #[test]
        fn a_path_is_kept_busy_without_much_more(rate in 1_000_000_u64..12_500_000_000, micros in 50_u64..200_000) {
            let round_trip = Duration::from_micros(micros);
            let carried = (u128::from(rate) * round_trip.as_nanos() / SECOND.as_nanos()) as u64;
            let bytes = settle(rate, round_trip);
            prop_assert!(bytes >= carried);
            // The bound allows for rounding.
            prop_assert!(bytes <= (2 * carried + 2).max(AUTO_BYTES_MIN));
        }

        #[test]
        fn nothing_overflows(arrived: u64, rtt: u64, elapsed: u64) {
            let mut auto = Auto::default();
            auto.note_round_trip("a", Duration::from_nanos(rtt));
            auto.note_arrival(arrived);
            auto.resize(Duration::from_nanos(elapsed));
            prop_assert!(auto.bytes() >= AUTO_BYTES_MIN);
        }
    }
}
