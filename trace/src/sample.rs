//! The decision which splits are traced. It depends on the trace id alone, so all processes with the same
//! ratio trace the same splits.

use std::fmt;
use std::str::FromStr;

use crate::ids::TraceId;

/// The number of values of the random bits of a trace id.
const RANDOM_VALUES: f64 = (1_u64 << 56) as f64;

/// The fraction of the splits that are traced: more than 0, and at most 1. The default is 0.01.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRatio(f64);

/// The error of a ratio that is not a fraction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a ratio above 0 and at most 1, such as 0.01 for one of a hundred splits, found {0}")]
pub struct RatioError(String);

impl SampleRatio {
    /// All splits.
    pub const ALL: SampleRatio = SampleRatio(1.0);

    /// Checks a ratio.
    ///
    /// # Errors
    /// The ratio is not above 0, or is above 1.
    pub fn new(ratio: f64) -> Result<SampleRatio, RatioError> {
        if ratio > 0.0 && ratio <= 1.0 {
            Ok(SampleRatio(ratio))
        } else {
            Err(RatioError(ratio.to_string()))
        }
    }

    /// Returns whether a trace is sampled, by the rule of OpenTelemetry: its random bits reach the threshold
    /// of rejection. A larger ratio samples every trace of a smaller one.
    pub(crate) fn samples(self, trace: TraceId) -> bool {
        // A float rounds the last three of the 56 bits, which changes the ratio by less than 2^-52.
        trace.randomness() as f64 >= (1.0 - self.0) * RANDOM_VALUES
    }
}

impl Default for SampleRatio {
    fn default() -> SampleRatio {
        SampleRatio(0.01)
    }
}

impl fmt::Display for SampleRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SampleRatio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<SampleRatio, RatioError> {
        let ratio: f64 = text.parse().map_err(|_| RatioError(format!("{text:?}")))?;
        SampleRatio::new(ratio)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ratios_are_fractions() {
        for text in ["0", "-0.1", "1.01", "nan", "inf", "1%", ""] {
            let error = text.parse::<SampleRatio>().expect_err(text).to_string();
            assert!(error.contains("above 0 and at most 1"), "{error}");
        }
        assert_eq!("1".parse(), Ok(SampleRatio::ALL));
    }

    #[test]
    fn the_ratio_is_the_fraction_of_sampled_splits() {
        let traces = || (0..100_000).map(|lease| TraceId::of_split(42, lease));
        for (ratio, expected) in [(1.0, 100_000), (0.1, 10_000), (0.01, 1_000)] {
            let ratio = SampleRatio::new(ratio).expect("a ratio");
            let sampled = traces().filter(|trace| ratio.samples(*trace)).count();
            // Six standard deviations of 1,000 are about 190.
            assert!(sampled.abs_diff(expected) <= 600, "{sampled} at {ratio}");
        }
    }

    proptest! {
        #[test]
        fn larger_ratios_sample_more(task: u64, lease: u64, low in 0.001..1.0, high in 0.001..=1.0) {
            let (low, high) = if low < high { (low, high) } else { (high, low) };
            let trace = TraceId::of_split(task, lease);
            let samples = |ratio| SampleRatio::new(ratio).expect("a ratio").samples(trace);
            prop_assert!(!samples(low) || samples(high));
        }
    }
}
