//! The handshakes that are under way, and the choice of the one that makes room when there are too many.
//!
//! Pure but for the handles of the tasks. Clients that have proved their address have shares by address; all
//! others have one small share together, because anyone can claim an address.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// A handshake that is younger is not evicted: evicting what has just begun would end none when many clients
/// start together.
const EVICTABLE_AGE: Duration = Duration::from_millis(500);
/// The part of all places that clients without a proved address have together, as a divisor.
const UNPROVED_DIVISOR: usize = 8;

/// From where a client begins handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The address is not proved.
    Unproved,
    /// A proved address; of IPv6 the first 64 bits, which one host or site has for itself.
    Proved(IpAddr),
}

impl Origin {
    /// The origin of a client with a proved address.
    pub(super) fn proved(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin::Proved(address.into()),
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
                Origin::Proved(network.into())
            }
        }
    }
}

/// The decision about a client that begins a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The handshake goes on.
    Begin,
    /// The client is asked to prove its address.
    Prove,
    /// There is no room.
    Refuse,
}

/// The handshakes under way.
#[derive(Debug)]
pub(super) struct Handshakes {
    max: usize,
    per_address_max: usize,
    /// In the order in which they began. Those that have ended are removed now and then.
    live: VecDeque<Live>,
}

#[derive(Debug)]
struct Live {
    origin: Origin,
    begun: Instant,
    task: AbortHandle,
}

impl Handshakes {
    /// None yet, of so many at a time and so many with one proved address.
    pub(super) fn new(max: usize, per_address_max: usize) -> Handshakes {
        Handshakes {
            max,
            per_address_max,
            live: VecDeque::new(),
        }
    }

    /// Decides on a client. May evict an older handshake to make room for it.
    pub(super) fn admit(&mut self, origin: Origin, now: Instant) -> Admission {
        self.live.retain(|live| !live.task.is_finished());
        let held = self.live.iter().filter(|live| live.origin == origin).count();
        if origin == Origin::Unproved {
            let share = (self.max / UNPROVED_DIVISOR).max(1);
            let is_full = held >= share || self.live.len() >= self.max;
            return if is_full {
                Admission::Prove
            } else {
                Admission::Begin
            };
        }
        if held >= self.per_address_max {
            return Admission::Refuse;
        }
        if self.live.len() >= self.max && !self.evict(now) {
            return Admission::Refuse;
        }
        Admission::Begin
    }

    /// Notes a handshake that was admitted.
    pub(super) fn begin(&mut self, origin: Origin, task: AbortHandle, now: Instant) {
        self.live.push_back(Live {
            origin,
            begun: now,
            task,
        });
    }

    /// Ends the oldest handshake of the origin that has most. Returns whether one was old enough.
    fn evict(&mut self, now: Instant) -> bool {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for live in &self.live {
            *counts.entry(live.origin).or_default() += 1;
        }
        let old = |live: &&Live| now.saturating_duration_since(live.begun) >= EVICTABLE_AGE;
        let of_most = |live: &&Live| counts.get(&live.origin).copied().unwrap_or(0);
        // Of equal counts the last is taken: look from the youngest to the oldest.
        let Some(evicted) = self.live.iter().rev().filter(old).max_by_key(of_most) else {
            return false;
        };
        evicted.task.abort();
        let id = evicted.task.id();
        self.live.retain(|live| live.task.id() != id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Room {
        handshakes: Handshakes,
        begun: Instant,
        tasks: tokio::task::JoinSet<()>,
    }

    impl Room {
        fn new(max: usize, per_address_max: usize) -> Room {
            Room {
                handshakes: Handshakes::new(max, per_address_max),
                begun: Instant::now(),
                tasks: tokio::task::JoinSet::new(),
            }
        }

        fn at(&mut self, origin: Origin, ms: u64) -> Admission {
            let now = self.begun + Duration::from_millis(ms);
            let admission = self.handshakes.admit(origin, now);
            if admission == Admission::Begin {
                let task = self.tasks.spawn(std::future::pending());
                self.handshakes.begin(origin, task, now);
            }
            admission
        }

        fn held(&self, origin: Origin) -> usize {
            let live = self.handshakes.live.iter();
            live.filter(|live| live.origin == origin).count()
        }
    }

    fn v4(last: u8) -> Origin {
        Origin::proved(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let origin = |text: &str| Origin::proved(text.parse().unwrap());
        assert_eq!(origin("2001:db8:1:2::1"), origin("2001:db8:1:2:ffff::9"));
        assert_ne!(origin("2001:db8:1:2::1"), origin("2001:db8:1:3::1"));
        assert_eq!(origin("::ffff:10.0.0.7"), v4(7));
        assert_ne!(v4(7), v4(8));
    }

    #[tokio::test]
    async fn unproven_addresses_share_a_small_part() {
        let mut room = Room::new(16, 4);
        for _ in 0..2 {
            assert_eq!(room.at(Origin::Unproved, 0), Admission::Begin);
        }
        for _ in 0..1000 {
            assert_eq!(room.at(Origin::Unproved, 10_000), Admission::Prove);
        }
        assert_eq!(room.at(v4(1), 0), Admission::Begin);
    }

    #[tokio::test]
    async fn the_greediests_oldest_handshake_makes_room() {
        let mut room = Room::new(8, 4);
        for number in 0..4 {
            assert_eq!(room.at(v4(1), number), Admission::Begin);
        }
        assert_eq!(room.at(v4(1), 10_000), Admission::Refuse, "its share");
        for number in 2..6 {
            assert_eq!(room.at(v4(number), 100), Admission::Begin);
        }
        assert_eq!(room.at(v4(9), 400), Admission::Refuse, "all are young");
        assert_eq!(room.at(v4(9), 501), Admission::Begin);
        assert_eq!((room.held(v4(1)), room.held(v4(2)), room.held(v4(9))), (3, 1, 1));
        assert_eq!(room.at(Origin::Unproved, 501), Admission::Prove, "never evicts");
    }
}
