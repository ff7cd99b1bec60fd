//! How many datasets an `interleave` reads ahead at once, where nobody says: a fixed number, doubled as long
//! as the caller waits for most elements and more readers made them come faster. What does not come faster
//! goes back and stays: then something else is slow. (`tf.data` climbs in the same way, by a model of the
//! time that each number would take.)
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Readers at first: reading waits for storage more than for a core, so that their number does not depend on
/// that of cores.
pub(crate) const READERS_AT_FIRST: usize = 16;
/// Readers at most. Each is a thread, an open file, and what is read ahead of it, which the byte budget
/// bounds before this does.
pub(crate) const READERS_MAX: usize = 128;
/// Elements for each reader between two looks.
const ELEMENTS_PER_LOOK: u64 = 4;
/// The time between two looks at least.
const INTERVAL_NS: u64 = 50_000_000;

/// A number of readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readers {
    now: usize,
    most: usize,
    /// Elements since the last look, and those of them that were waited for.
    taken: u64,
    waited: u64,
    /// How many there were before there were more, and the elements a second that they made.
    before: Option<(usize, u64)>,
    is_settled: bool,
}

impl Readers {
    /// Returns a tuner that never chooses more than `most` readers.
    pub(crate) fn new(most: usize) -> Readers {
        let most = most.clamp(1, READERS_MAX);
        Readers {
            now: READERS_AT_FIRST.min(most),
            most,
            taken: 0,
            waited: 0,
            before: None,
            is_settled: false,
        }
    }

    /// Returns how many there may be.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// An element was taken, which `was_waited` for. Whether it is time for a look.
    pub(crate) fn took(&mut self, was_waited: bool) -> bool {
        self.taken += 1;
        self.waited += u64::from(was_waited);
        !self.is_settled && self.taken.is_multiple_of(ELEMENTS_PER_LOOK * self.now as u64)
    }

    /// Looks at what was done since the last look, `interval_ns` ago: whether that was one. If it is too
    /// short ago, the next look is at this time too.
    pub(crate) fn look(&mut self, interval_ns: u64) -> bool {
        if interval_ns < INTERVAL_NS {
            return false;
        }
        let per_second = self.taken.saturating_mul(1_000_000_000) / interval_ns;
        let is_waited_for = self.waited >= self.taken.div_ceil(2);
        (self.taken, self.waited) = (0, 0);
        match self.before.take() {
            // A tenth more is what noise does not make by itself.
            Some((fewer, speed)) if per_second < speed.saturating_add(speed / 10) => {
                (self.now, self.is_settled) = (fewer, true);
            }
            Some(_) | None if is_waited_for && self.now < self.most => {
                self.before = Some((self.now, per_second));
                self.now = self.now.saturating_mul(2).min(self.most);
            }
            Some(_) | None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes as many elements as a look wants, each waited for if `waits`, and looks after the time that they
    /// take at `per_second`.
    fn looked(readers: &mut Readers, waits: bool, per_second: u64) -> usize {
        let mut taken = 0u64;
        loop {
            taken += 1;
            if readers.took(waits) && readers.look(taken * 1_000_000_000 / per_second) {
                return readers.now();
            }
            if taken > 1_000_000 {
                return readers.now();
            }
        }
    }

    #[test]
    fn readers_double_while_that_helps() {
        let mut readers = Readers::new(1000);
        assert_eq!(looked(&mut readers, true, 100), 32);
        assert_eq!(looked(&mut readers, true, 200), 64);
        assert_eq!(
            looked(&mut readers, true, 210),
            32,
            "not faster: something else is slow"
        );
        assert_eq!(looked(&mut readers, true, 900), 32, "and stays so");
        let mut readers = Readers::new(1000);
        let found: Vec<usize> = (1..5)
            .map(|step| looked(&mut readers, true, 100 << step))
            .collect();
        assert_eq!(found, [32, 64, READERS_MAX, READERS_MAX]);
    }

    #[test]
    fn short_cycles_need_no_more_readers() {
        assert_eq!(looked(&mut Readers::new(1000), false, 100), READERS_AT_FIRST);
        assert_eq!(looked(&mut Readers::new(20), true, 100), 20);
        assert_eq!(Readers::new(3).now(), 3);
    }

    proptest! {
        #[test]
        fn they_stay_within_their_limits(most: usize, looks in prop::collection::vec((any::<bool>(), 1u64..1 << 40), 0..60)) {
            let mut readers = Readers::new(most);
            for (waits, interval_ns) in looks {
                readers.took(waits);
                readers.look(interval_ns);
                prop_assert!((1..=most.clamp(1, READERS_MAX)).contains(&readers.now()));
            }
        }
    }
}
