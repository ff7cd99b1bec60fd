//! The choice of the calls at which the clock is read. Reading the clock costs at most one part in
//! [`COST_SHARE`] of the measured time. A sample covers all operations below at once, so a stage's own time
//! is a difference within one sample.
//!
//! The outermost measured call on a thread decides whether it is a sample; the calls within it follow the
//! decision. The number of calls between two samples varies. With a fixed number, a stage that is slow at
//! every 32nd element would be sampled always or never.

use std::cell::Cell;
use std::time::Instant;

/// The assumed time of reading the clock, in nanoseconds. The value is an upper estimate if no system call is
/// needed.
const READING_NS: u64 = 40;
/// Minimum ratio of the measured time to the cost of measuring.
const COST_SHARE: u64 = 50;
/// Maximum number of calls between two samples.
const SKIPPED_MAX: u64 = 4096;
/// The divisor of the number of calls so far: at most this part is skipped in a row. Early calls differ from
/// later calls, and each of a few slow calls matters.
const SKIPPED_SHARE: u64 = 4;

/// The state of this thread's sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No measured call is running.
    Outside,
    /// The running call is not a sample.
    Skipping,
    /// The running call is a sample.
    Sampling,
}

struct Trace {
    mode: Cell<Mode>,
    /// The time that the calls within the running call took.
    below_ns: Cell<u64>,
    /// The number of times that the clock was read in this sample.
    readings: Cell<u64>,
}

thread_local! {
    static TRACE: Trace = const {
        Trace { mode: Cell::new(Mode::Outside), below_ns: Cell::new(0), readings: Cell::new(0) }
    };
}

/// Returns whether this thread is within a sample.
pub(crate) fn is_sampled() -> bool {
    TRACE.with(|trace| trace.mode.get()) == Mode::Sampling
}

/// A sampler for one place in the code, which decides which calls are samples.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// The number of calls since the last sample, which the next sample represents.
    skipped: u64,
    /// The number of calls that all samples so far represent.
    sampled: u64,
    /// The number of calls until the next sample, if this place is the outermost place.
    until: u64,
    /// The state of the generator that varies the distance between samples.
    draws: u64,
}

/// The result of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The number of calls that the sample represents, including the sampled call.
    pub(crate) calls: u64,
    /// The duration of the call without the measured calls within it, in nanoseconds.
    pub(crate) own_ns: u64,
    /// The duration of the whole call, in nanoseconds.
    pub(crate) whole_ns: u64,
}

/// A running call. Dropping the value restores the thread's state, even after a panic.
#[derive(Debug)]
#[must_use = "a call that began must be finished"]
pub(crate) struct Begun {
    is_outermost: bool,
    /// The start of the sample, and the time that measured calls had taken before.
    sample: Option<(Instant, u64)>,
}

impl Drop for Begun {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            TRACE.with(|trace| trace.mode.set(Mode::Outside));
        }
    }
}

impl Sampler {
    /// Begins a call.
    #[inline]
    pub(crate) fn begin(&mut self) -> Begun {
        match TRACE.with(|trace| trace.mode.get()) {
            Mode::Skipping => {
                self.skipped += 1;
                Begun {
                    is_outermost: false,
                    sample: None,
                }
            }
            Mode::Sampling => Begun {
                is_outermost: false,
                sample: Some(begin_sample()),
            },
            Mode::Outside if self.until > 0 => {
                self.until -= 1;
                self.skipped += 1;
                TRACE.with(|trace| trace.mode.set(Mode::Skipping));
                Begun {
                    is_outermost: true,
                    sample: None,
                }
            }
            Mode::Outside => {
                TRACE.with(|trace| {
                    trace.mode.set(Mode::Sampling);
                    trace.readings.set(0);
                });
                Begun {
                    is_outermost: true,
                    sample: Some(begin_sample()),
                }
            }
        }
    }

    /// Ends a call, and returns its times if it was a sample.
    #[inline]
    pub(crate) fn finish(&mut self, begun: Begun) -> Option<Sample> {
        let (at, around_ns) = begun.sample?;
        Some(self.sampled(at, around_ns, begun.is_outermost))
    }

    #[inline(never)]
    fn sampled(&mut self, begun: Instant, around_ns: u64, is_outermost: bool) -> Sample {
        let whole_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (below_ns, readings) = TRACE.with(|trace| {
            let readings = trace.readings.get() + 2;
            trace.readings.set(readings);
            let below_ns = trace.below_ns.replace(around_ns.saturating_add(whole_ns));
            (below_ns, readings)
        });
        let calls = std::mem::take(&mut self.skipped) + 1;
        self.sampled += calls;
        if is_outermost {
            let distance = self.distance(readings, whole_ns);
            self.until = distance.min(self.sampled / SKIPPED_SHARE);
        }
        Sample {
            calls,
            own_ns: whole_ns.saturating_sub(below_ns),
            whole_ns,
        }
    }

    /// Returns the number of calls until the next sample, after a sample with `readings` clock readings and a
    /// duration of `whole_ns`. The number is drawn between half and one and a half times the number that the
    /// cost requires.
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

#[inline(never)]
fn begin_sample() -> (Instant, u64) {
    let around_ns = TRACE.with(|trace| trace.below_ns.replace(0));
    (Instant::now(), around_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_represent_all_calls() {
        let (mut outer, mut inner) = (Sampler::default(), Sampler::default());
        let (mut stood_for, mut samples) = ((0, 0), 0);
        for _ in 0..10_000 {
            let around = outer.begin();
            let within = inner.begin();
            assert_eq!(is_sampled(), within.sample.is_some());
            let below = inner.finish(within);
            let above = outer.finish(around);
            assert_eq!(below.is_some(), above.is_some());
            if let (Some(below), Some(above)) = (below, above) {
                assert_eq!(above.own_ns + below.whole_ns, above.whole_ns);
                stood_for.0 += above.calls;
                stood_for.1 += below.calls;
                samples += 1;
            }
            assert!(!is_sampled(), "left as it was found");
        }
        assert_eq!(stood_for, (10_000 - outer.skipped, 10_000 - inner.skipped));
        assert!(samples > 0);
    }

    #[test]
    fn each_of_the_first_calls_is_a_sample() {
        let mut sampler = Sampler::default();
        for _ in 0..SKIPPED_SHARE {
            let begun = sampler.begin();
            assert_eq!(sampler.finish(begun).map(|sample| sample.calls), Some(1));
        }
        for _ in 0..10_000 {
            let begun = sampler.begin();
            let sample = sampler.finish(begun);
            assert!(sample.is_none_or(|sample| sample.calls <= 1 + sampler.sampled / SKIPPED_SHARE));
        }
    }

    #[test]
    fn a_panic_within_a_sample_changes_nothing() {
        let mut sampler = Sampler::default();
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _begun = sampler.begin();
            panic!("expected by the test")
        });
        std::panic::catch_unwind(panicking).unwrap_err();
        assert_eq!(TRACE.with(|trace| trace.mode.get()), Mode::Outside);
    }

    #[test]
    fn slow_calls_are_always_sampled() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.distance(2, 1_000_000), 0);
        for _ in 0..100 {
            let distance = sampler.distance(4, 100);
            assert!((40..=120).contains(&distance), "{distance}");
            assert!(sampler.distance(1 << 60, 0) <= SKIPPED_MAX * 2);
        }
    }
}
