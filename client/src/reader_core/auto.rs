//! How many bytes `Auto` keeps outstanding: twice what the path carries in one round trip.
//!
//! Pure: told of arrivals, round-trip times and time passing. Refuses to know links, elements and credits.
//!
//! A path that could carry more delivers everything outstanding once a round trip. The window therefore
//! doubles each time, until the rate grows no further. The round trip is the shortest seen on a link, without
//! the queues that its own load makes; over several links, that of the longest. Within a host it is taken to
//! be what waking both sides takes: where elements are handed over fast, many are worth one wake-up; where
//! each takes long to write or read, few stay in the caches.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The least that is kept outstanding: what 10 Gbit/s carry in more than a millisecond. More is slower where
/// the network is not, since it leaves the caches of both sides.
pub const AUTO_BYTES_MIN: u64 = 2 << 20;

/// The time of a round trip within a host, where either side may sleep.
pub(super) const LOCAL_ROUND_TRIP: Duration = Duration::from_micros(50);

/// Round trips' worth of bytes kept outstanding.
const ROUND_TRIPS: u128 = 2;

/// The part by which the size falls at a time, where less suffices: a lull is soon over.
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
    /// Bytes to keep outstanding.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes what a round trip to a worker takes now.
    pub(super) fn note_round_trip(&mut self, worker: &str, round_trip: Duration) {
        match self.round_trips.get_mut(worker) {
            Some(least) => *least = round_trip.min(*least),
            None => {
                self.round_trips.insert(worker.into(), round_trip);
            }
        }
    }

    /// Forgets a worker whose link was lost; the next link may take another path.
    pub(super) fn forget(&mut self, worker: &str) {
        self.round_trips.remove(worker);
    }

    /// Notes bytes that arrived.
    pub(super) fn note_arrival(&mut self, bytes: u64) {
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
    }

    /// Sizes again by what arrived in the `elapsed` time since it did so last.
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

    /// A path of so many bytes a second: it delivers what is outstanding once a round trip, unless that is
    /// beyond it.
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
            // Rounding apart.
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
