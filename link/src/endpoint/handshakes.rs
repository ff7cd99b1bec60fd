//! The handshakes in progress, and the choice of the handshake to evict when they are too many.
//!
//! The module is pure, except for the handles of the tasks. Clients with a proved address have a share for
//! each address. All other clients have one small share together, because a client can claim any address.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// The age from which on a handshake can be evicted. Evicting younger handshakes would let none complete when
/// many clients start together.
const EVICTABLE_AGE: Duration = Duration::from_millis(500);
/// The divisor of all places that gives the common share of clients without a proved address.
const UNPROVED_DIVISOR: usize = 8;

/// The origin of a client that begins a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// A client whose address is not proved.
    Unproved,
    /// A client with a proved address. For IPv6 the origin is the first 64 bits, which belong to one host or
    /// site.
    Proved(IpAddr),
}

impl Origin {
    /// Returns the origin of a client with a proved address.
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
    /// The handshake may begin.
    Begin,
    /// The client must first prove its address.
    Prove,
    /// The client is refused, because no place is free.
    Refuse,
}

/// The handshakes in progress.
#[derive(Debug)]
pub(super) struct Handshakes {
    max: usize,
    per_address_max: usize,
    /// The handshakes in the order in which they began. Completed handshakes are removed from time to time.
    live: VecDeque<Live>,
}

#[derive(Debug)]
struct Live {
    origin: Origin,
    begun: Instant,
    task: AbortHandle,
}

impl Handshakes {
    /// Makes an empty set, for at most `max` handshakes, and at most `per_address_max` with one proved
    /// address.
    pub(super) fn new(max: usize, per_address_max: usize) -> Handshakes {
        Handshakes {
            max,
            per_address_max,
            live: VecDeque::new(),
        }
    }

    /// Decides about a client. May evict an older handshake to make room.
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

    /// Records a handshake that was admitted.
    pub(super) fn begin(&mut self, origin: Origin, task: AbortHandle, now: Instant) {
        self.live.push_back(Live {
            origin,
            begun: now,
            task,
        });
    }

    /// Evicts the oldest handshake of the origin with the most handshakes. Returns false if no handshake is
    /// old enough.
    fn evict(&mut self, now: Instant) -> bool {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for live in &self.live {
            *counts.entry(live.origin).or_default() += 1;
        }
        let old = |live: &&Live| now.saturating_duration_since(live.begun) >= EVICTABLE_AGE;
        let of_most = |live: &&Live| counts.get(&live.origin).copied().unwrap_or(0);
        // `max_by_key` returns the last of equal elements, so the search runs from the youngest to the oldest
        // handshake.
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
        assert_eq!(
            room.at(v4(1), 10_000),
            Admission::Refuse,
            "the address has used its share"
        );
        for number in 2..6 {
            assert_eq!(room.at(v4(number), 100), Admission::Begin);
        }
        assert_eq!(
            room.at(v4(9), 400),
            Admission::Refuse,
            "all handshakes are too young"
        );
        assert_eq!(room.at(v4(9), 501), Admission::Begin);
        assert_eq!((room.held(v4(1)), room.held(v4(2)), room.held(v4(9))), (3, 1, 1));
        assert_eq!(
            room.at(Origin::Unproved, 501),
            Admission::Prove,
            "a client without a proved address evicts none"
        );
    }
}
