//! Decides how long a thread spins before it sleeps. A thread whose recent waits were mostly short spins for
//! a while; any other thread sleeps at once.
//!
//! The module is pure: the caller measures the waits and reports their lengths. The module reads no clock and
//! does not know what the thread waits for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// The longest time for which a thread spins. The limit is a few times the cost of sleeping and waking, so a
/// spin in vain costs little more than the sleep after it.
pub const LOOK_MAX: Duration = Duration::from_micros(50);

/// The number of short waits, among the last eight waits, from which on a thread spins.
const SHORT_MIN: u32 = 6;

/// The history of a thread's latest waits, from which [`Linger::look_for`] decides whether the thread spins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Linger {
    /// One bit for each of the last eight waits: 1 if the wait was short.
    short: u8,
}

impl Linger {
    /// Returns how long the thread should spin before it sleeps. The time is zero for an idle thread.
    #[must_use]
    pub fn look_for(self) -> Duration {
        if self.short.count_ones() >= SHORT_MIN {
            LOOK_MAX
        } else {
            Duration::ZERO
        }
    }

    /// Records how long a wait took, including both the spinning and the sleep.
    pub fn note(&mut self, waited: Duration) {
        self.short = self.short << 1 | u8::from(waited < LOOK_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn nobody_looks_before_waits_were_short() {
        let mut linger = Linger::default();
        for _ in 0..5 {
            linger.note(SHORT);
            assert_eq!(linger.look_for(), Duration::ZERO);
        }
        linger.note(SHORT);
        assert_eq!(linger.look_for(), LOOK_MAX);
    }

    #[test]
    fn a_rare_long_wait_changes_nothing() {
        let mut linger = Linger::default();
        for _ in 0..8 {
            linger.note(SHORT);
        }
        linger.note(LONG);
        assert_eq!(linger.look_for(), LOOK_MAX);
        linger.note(LONG);
        linger.note(LONG);
        assert_eq!(linger.look_for(), Duration::ZERO);
    }
}
