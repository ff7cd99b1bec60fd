//! The number of datasets that an `interleave` reads ahead, if the user sets no number. The number doubles as
//! long as the caller waits for most elements and the last doubling raised the throughput. If a doubling does
//! not raise the throughput, the number goes back and stays, because another part is slow. `tf.data` climbs
//! in the same way, by a model of the time that each number would take.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Number of readers at first. Reading waits for storage more than for a core, so the number does not depend
/// on the number of cores.
pub(crate) const READERS_AT_FIRST: usize = 16;
/// Maximum number of readers. Each reader has a thread, an open file and prefetched elements, which the byte
/// budget usually limits first.
pub(crate) const READERS_MAX: usize = 128;
/// Number of elements for each reader between two evaluations.
const ELEMENTS_PER_LOOK: u64 = 4;
/// Minimum time between two evaluations, in nanoseconds.
const INTERVAL_NS: u64 = 50_000_000;

/// The number of readers of one `interleave`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readers {
    now: usize,
    most: usize,
    /// The number of elements since the last evaluation, and the number of them for which the caller waited.
    taken: u64,
    waited: u64,
    /// The number of readers before the last doubling, and their throughput in elements per second.
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

    /// Returns the current number of readers.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// Counts an element that was taken. `was_waited` states whether the caller waited for it. Returns
    /// whether an evaluation is due.
    pub(crate) fn took(&mut self, was_waited: bool) -> bool {
        self.taken += 1;
        self.waited += u64::from(was_waited);
        !self.is_settled && self.taken.is_multiple_of(ELEMENTS_PER_LOOK * self.now as u64)
    }

    /// Evaluates the elements since the last evaluation, `interval_ns` ago. Returns whether the evaluation
    /// took place. If the interval is too short, the next evaluation covers this interval as well.
    pub(crate) fn look(&mut self, interval_ns: u64) -> bool {
        if interval_ns < INTERVAL_NS {
            return false;
        }
        let per_second = self.taken.saturating_mul(1_000_000_000) / interval_ns;
        let is_waited_for = self.waited >= self.taken.div_ceil(2);
        (self.taken, self.waited) = (0, 0);
        match self.before.take() {
            // Noise alone does not raise the throughput by a tenth.
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

    /// Takes as many elements as one evaluation needs, and waits for each if `waits`. Afterwards calls
    /// `look`, with the time that the elements take at `per_second` elements per second.
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
            "the throughput did not rise, so another part is slow"
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
