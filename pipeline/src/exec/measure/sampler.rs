//! When the clock is read: so seldom that it costs no more than [`COST_SHARE`] of the time it measures, and with
//! everything below at once, so that what a stage took itself is a difference within one sample.
//!
//! The outermost measured call on a thread decides whether it is a sample; calls within it follow. How many calls lie
//! between two samples varies, or a stage that is slow at every 32nd element would be seen always or never.

use std::cell::Cell;
use std::time::Instant;

/// Reading the clock, in nanoseconds; generous where it is read without a system call.
const READING_NS: u64 = 40;
/// The time measured is at least so many times what measuring costs.
const COST_SHARE: u64 = 50;
/// Calls between two samples at most.
const SKIPPED_MAX: u64 = 4096;

/// What the calls of this thread do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No measured call is under way.
    Outside,
    /// The call under way is no sample.
    Skipping,
    /// It is one.
    Sampling,
}

struct Trace {
    mode: Cell<Mode>,
    /// Time taken by the calls within the one under way.
    below_ns: Cell<u64>,
    /// How often the clock was read in this sample.
    readings: Cell<u64>,
}

thread_local! {
    static TRACE: Trace = const {
        Trace { mode: Cell::new(Mode::Outside), below_ns: Cell::new(0), readings: Cell::new(0) }
    };
}

/// Whether this thread is within a sample.
pub(crate) fn is_sampled() -> bool {
    TRACE.with(|trace| trace.mode.get()) == Mode::Sampling
}

/// Decides for one place in the code which of its calls are samples.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Calls since the last sample: those that the next one stands for.
    skipped: u64,
    /// Calls left until the next sample, if this is the outermost place.
    until: u64,
    /// State of the draws that vary the distance.
    draws: u64,
}

/// What a sample found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// How many calls it stands for, itself included.
    pub(crate) calls: u64,
    /// What the call took without the measured calls within it, in nanoseconds.
    pub(crate) own_ns: u64,
    /// What it took.
    pub(crate) whole_ns: u64,
}

/// Leaves the thread as it was found, whatever happens within.
struct Outermost;

impl Drop for Outermost {
    fn drop(&mut self) {
        TRACE.with(|trace| trace.mode.set(Mode::Outside));
    }
}

impl Sampler {
    /// Does `work`, and hands what it took to `note` if it is a sample.
    #[inline]
    pub(crate) fn run<T>(&mut self, work: impl FnOnce() -> T, note: impl FnOnce(Sample)) -> T {
        match TRACE.with(|trace| trace.mode.get()) {
            Mode::Skipping => {
                self.skipped += 1;
                work()
            }
            Mode::Sampling => self.sample(work, note),
            Mode::Outside => self.outermost(work, note),
        }
    }

    #[inline]
    fn outermost<T>(&mut self, work: impl FnOnce() -> T, note: impl FnOnce(Sample)) -> T {
        let _outermost = Outermost;
        if self.until > 0 {
            self.until -= 1;
            self.skipped += 1;
            TRACE.with(|trace| trace.mode.set(Mode::Skipping));
            return work();
        }
        TRACE.with(|trace| {
            trace.mode.set(Mode::Sampling);
            trace.below_ns.set(0);
            trace.readings.set(0);
        });
        let mut whole_ns = 0;
        let done = self.sample(work, |sample| {
            whole_ns = sample.whole_ns;
            note(sample);
        });
        let readings = TRACE.with(|trace| trace.readings.get());
        self.until = self.distance(readings, whole_ns);
        done
    }

    #[inline(never)]
    fn sample<T>(&mut self, work: impl FnOnce() -> T, note: impl FnOnce(Sample)) -> T {
        let around_ns = TRACE.with(|trace| trace.below_ns.replace(0));
        let begun = Instant::now();
        let done = work();
        let whole_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let below_ns = TRACE.with(|trace| {
            trace.readings.set(trace.readings.get() + 2);
            trace.below_ns.replace(around_ns.saturating_add(whole_ns))
        });
        note(Sample {
            calls: std::mem::take(&mut self.skipped) + 1,
            own_ns: whole_ns.saturating_sub(below_ns),
            whole_ns,
        });
        done
    }

    /// Calls until the next sample, after one that read the clock so often and took so long: between half and one and a
    /// half times what the cost asks for.
    fn distance(&mut self, readings: u64, whole_ns: u64) -> u64 {
        let cost_ns = readings.saturating_mul(READING_NS * COST_SHARE);
        let mean = (cost_ns / whole_ns.max(1)).min(SKIPPED_MAX);
        self.draws = self
            .draws
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        mean / 2 + (self.draws >> 33) % (mean + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_stand_for_all_calls_and_within_one_everything_is_timed() {
        let (mut outer, mut inner) = (Sampler::default(), Sampler::default());
        let (mut stood_for, mut samples, mut inner_samples) = ((0, 0), 0, 0);
        for _ in 0..10_000 {
            let (mut own, mut whole, mut below) = (0, 0, 0);
            let mut sampled = false;
            outer.run(
                || {
                    inner.run(
                        || assert_eq!(is_sampled(), TRACE.with(|trace| trace.mode.get()) == Mode::Sampling),
                        |sample| {
                            stood_for.1 += sample.calls;
                            inner_samples += 1;
                            below = sample.whole_ns;
                        },
                    );
                },
                |sample| {
                    stood_for.0 += sample.calls;
                    samples += 1;
                    sampled = true;
                    (own, whole) = (sample.own_ns, sample.whole_ns);
                },
            );
            assert!(!sampled || own + below == whole, "{own} + {below} of {whole}");
            assert!(!is_sampled(), "left as it was found");
        }
        assert_eq!(stood_for.0 + outer.skipped, 10_000);
        assert_eq!(stood_for.1 + inner.skipped, 10_000);
        assert_eq!(samples, inner_samples);
    }

    #[test]
    fn a_panic_within_a_sample_leaves_the_thread_as_it_was() {
        let mut sampler = Sampler::default();
        let panicking = std::panic::AssertUnwindSafe(|| sampler.run(|| panic!("expected by the test"), |_| {}));
        std::panic::catch_unwind(panicking).unwrap_err();
        assert_eq!(TRACE.with(|trace| trace.mode.get()), Mode::Outside);
    }

    #[test]
    fn slow_calls_are_all_samples_and_fast_ones_are_few() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.distance(2, 1_000_000), 0);
        for _ in 0..100 {
            let distance = sampler.distance(4, 100);
            assert!((40..=120).contains(&distance), "{distance}");
            assert!(sampler.distance(1 << 60, 0) <= SKIPPED_MAX * 2);
        }
    }
}
