//! How long a thread looks for something before it sleeps: a while where it is usually about to come, else
//! not at all.
//!
//! Pure: told how long waits took. Refuses to know clocks, and what is waited for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// The longest time for which a thread looks: a few times the cost of sleeping and waking, so that looking in
/// vain costs little more than the sleep that follows.
pub const LOOK_MAX: Duration = Duration::from_micros(50);

/// The number of short waits among the last eight that make a thread look.
const SHORT_MIN: u32 = 6;

/// The memory of a thread that waits again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Linger {
    /// A bit for each of the last eight waits: whether it was short.
    short: u8,
}

impl Linger {
    /// Returns how long to look before sleeping. An idle thread does not look at all.
    #[must_use]
    pub fn look_for(self) -> Duration {
        if self.short.count_ones() >= SHORT_MIN {
            LOOK_MAX
        } else {
            Duration::ZERO
        }
    }

    /// A wait took so long, looking and sleeping together.
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
