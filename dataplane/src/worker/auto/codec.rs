//! Measures the gain and the cost of compressing a task's elements by samples, and decides when to take the
//! next sample.

use std::time::{Duration, Instant};

/// Minimum number of packs between two samples.
const PACKS_PER_SAMPLE: u64 = 64;

/// Maximum number of packs between two samples, reached after many samples that hardly shrank.
const PACKS_PER_SAMPLE_MAX: u64 = 64 * PACKS_PER_SAMPLE;

/// The time to the next sample, as a multiple of the duration of the last sample. Sampling thus takes at most
/// 1 % of one core.
const REST_PER_SAMPLE: u32 = 100;

/// The weight of the latest sample in the moving average.
const WEIGHT: f64 = 0.25;

/// The ratio below which compression cannot pay off.
const HOPE: f64 = 1.05;

/// The assumed ratio of the speeds of decompression and compression. Published and own measurements of LZ4
/// are between 3 and 8.
const RESTORED_FASTER: f64 = 3.0;

/// The result of compressing some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The number of bytes before compression.
    pub(crate) plain_bytes: u64,
    /// The number of bytes after compression, at most `plain_bytes`.
    pub(crate) compressed_bytes: u64,
    /// The duration of the compression on one thread.
    pub(crate) took: Duration,
}

/// The measurements for the compression of one task's elements.
#[derive(Debug, Default)]
pub(super) struct Codec {
    known: Option<Known>,
    is_sampling: bool,
    packs_since: u64,
    packs_between: u64,
    due_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// The number of compressed bytes for each plain byte.
    share: f64,
    /// The compression time for each plain byte, in seconds of one thread.
    seconds: f64,
}

impl Codec {
    /// Returns whether the present pack, which is sent plain, should be sampled.
    pub(super) fn wants_sample(&mut self, now: Instant) -> bool {
        self.packs_since = self.packs_since.saturating_add(1);
        let is_due = self.packs_since >= self.packs_between && self.due_at.is_none_or(|due_at| now >= due_at);
        if !is_due || self.is_sampling {
            return false;
        }
        (self.is_sampling, self.packs_since) = (true, 0);
        true
    }

    /// Returns whether no sample has been taken yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.known.is_none()
    }

    /// Records the requested sample, or `None` if no memory was available.
    pub(super) fn note_sample(&mut self, sample: Option<Sample>, now: Instant) {
        self.is_sampling = false;
        self.packs_between = self.packs_between.max(PACKS_PER_SAMPLE);
        let Some(sample) = sample else { return };
        self.note(sample);
        self.due_at = Some(now + sample.took * REST_PER_SAMPLE);
        self.packs_between = if self.ratio() < HOPE {
            (2 * self.packs_between).min(PACKS_PER_SAMPLE_MAX)
        } else {
            PACKS_PER_SAMPLE
        };
    }

    /// Records the result of compressing a pack that is sent compressed.
    pub(super) fn note(&mut self, sample: Sample) {
        if sample.plain_bytes == 0 {
            return;
        }
        let bytes = sample.plain_bytes as f64;
        let fresh = Known {
            share: sample.compressed_bytes as f64 / bytes,
            seconds: sample.took.as_secs_f64() / bytes,
        };
        self.known = Some(self.known.map_or(fresh, |known| Known {
            share: known.share + WEIGHT * (fresh.share - known.share),
            seconds: known.seconds + WEIGHT * (fresh.seconds - known.seconds),
        }));
    }

    /// Returns the number of plain bytes for each compressed byte, or 1 without a sample.
    pub(super) fn ratio(&self) -> f64 {
        self.known.map_or(1.0, |known| 1.0 / known.share.max(1e-6))
    }

    /// Returns the predicted throughput with compression in plain bytes per second, for a link of `link_rate`
    /// bytes per second and `threads` threads. Compression, transfer and decompression run concurrently, so
    /// the slowest of the three is the limit.
    pub(super) fn rate(&self, link_rate: f64, threads: usize) -> f64 {
        let Some(known) = self.known else {
            return link_rate;
        };
        let of_one = 1.0 / known.seconds.max(1e-15);
        let made = of_one * threads.max(1) as f64;
        (link_rate * self.ratio()).min(made).min(of_one * RESTORED_FASTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the test counts from an arbitrary instant"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_slowest_of_making_sending_and_restoring_decides() {
        let mut codec = Codec::default();
        assert_eq!(codec.rate(5.0, 1), 5.0);
        codec.note(Sample {
            plain_bytes: 1000,
            compressed_bytes: 250,
            took: Duration::from_secs(1),
        });
        assert_eq!(codec.rate(100.0, 8), 400.0);
        assert_eq!(codec.rate(1000.0, 2), 2000.0);
        assert_eq!(codec.rate(1000.0, 8), 3000.0);
    }

    #[test]
    fn a_sample_without_memory_is_asked_for_again() {
        let (mut codec, now) = (Codec::default(), start());
        assert!(codec.wants_sample(now) && !codec.wants_sample(now));
        codec.note_sample(None, now);
        assert!(codec.is_unknown());
        assert_eq!((0..64).filter(|_| codec.wants_sample(now)).count(), 1);
    }

    proptest! {
        /// Sampling stays within its limit for any sequence of packs.
        #[test]
        fn sampling_takes_one_percent_at_most(
            packs in prop::collection::vec((1u64..2_000_000, 1u64..5_000_000, 1.0..4.0f64), 200..2000),
        ) {
            let (mut codec, begun) = (Codec::default(), start());
            let (mut now, mut sampling, mut samples) = (begun, Duration::ZERO, 0);
            let mut last = Duration::ZERO;
            for (gap_ns, took_ns, ratio) in &packs {
                now += Duration::from_nanos(*gap_ns);
                if codec.wants_sample(now) {
                    last = Duration::from_nanos(*took_ns);
                    sampling += last;
                    samples += 1;
                    let compressed_bytes = (1e6 / ratio) as u64;
                    codec.note_sample(Some(Sample { plain_bytes: 1_000_000, compressed_bytes, took: last }), now);
                }
            }
            // The rest after the last sample may not have passed.
            prop_assert!((sampling - last) * 100 <= now - begun, "{sampling:?}");
            prop_assert!(samples <= packs.len() / 64 + 1);
        }
    }
}
