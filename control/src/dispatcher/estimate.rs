//! The estimate of the number of workers that would keep the readers busy. The inputs of the estimate are
//! the times that workers and readers take for an element.
//!
//! The formula and its limits are those of the tf.data service. This file does not act on the estimate, and
//! holds no workers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::scaling::growth_limit;

/// Maximum estimate in any case.
const WORKERS_ESTIMATED_MAX: u64 = 100_000;

/// Returns the estimated number of workers for an iteration, at least one. At the mean pace of its workers,
/// this number of workers produces the elements that all readers would take together.
///
/// `processing` holds the time that each worker takes for an element. `target` holds the time after which
/// each reader would ask for its next element without waiting. Times of zero do not count. Returns `None`
/// unless both kinds of times are known.
pub(super) fn workers_estimated(
    processing: impl IntoIterator<Item = Duration>,
    target: impl IntoIterator<Item = Duration>,
) -> Option<u64> {
    let produced = without_outliers(rates(processing));
    let consumed = without_outliers(rates(target));
    if produced.is_empty() || consumed.is_empty() {
        return None;
    }
    let estimate = (consumed.iter().sum::<f64>() / mean(&produced)).ceil();
    // The conversion of a float to an integer saturates.
    Some((estimate as u64).max(1))
}

/// Returns the estimate within the limits, which depend on the number of present workers. `None` without a
/// worker.
pub(super) fn bounded(estimate: u64, workers: u64) -> Option<u64> {
    (workers > 0).then(|| estimate.min(growth_limit(workers)).min(WORKERS_ESTIMATED_MAX))
}

/// Returns the elements per second of these times for an element.
fn rates(times: impl IntoIterator<Item = Duration>) -> Vec<f64> {
    let times = times.into_iter().filter(|time| !time.is_zero());
    times.map(|time| 1.0 / time.as_secs_f64()).collect()
}

/// Replaces values farther from the mean than one standard deviation (of a sample) by the upper median.
fn without_outliers(mut values: Vec<f64>) -> Vec<f64> {
    if values.len() < 2 {
        return values;
    }
    let mean = mean(&values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (values.len() - 1) as f64).sqrt();
    values.sort_unstable_by(f64::total_cmp);
    let median = values[values.len() / 2];
    for value in &mut values {
        if (*value - mean).abs() > deviation {
            *value = median;
        }
    }
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimated(processing_us: &[f64], target_us: &[f64]) -> Option<u64> {
        let times = |all: &[f64]| -> Vec<Duration> {
            all.iter().map(|us| Duration::from_secs_f64(us / 1e6)).collect()
        };
        workers_estimated(times(processing_us), times(target_us))
    }

    /// Upstream's auto_scaler_test :: GetOptimalNumberOfWorkersInitialState, NoRegisteredWorkers,
    /// NoRegisteredConsumers.
    #[test]
    fn an_estimate_needs_figures_of_both_sides() {
        assert_eq!(estimated(&[], &[]), None);
        assert_eq!(estimated(&[], &[100.0]), None);
        assert_eq!(estimated(&[100.0], &[]), None);
    }

    /// Upstream's auto_scaler_test :: ReportProcessingTimeZeroDuration,
    /// ReportTargetProcessingTimeZeroDuration.
    #[test]
    fn times_of_zero_say_nothing() {
        assert_eq!(estimated(&[0.0], &[100.0]), None);
        assert_eq!(estimated(&[100.0], &[0.0, 10.0]), Some(10));
    }

    /// Upstream's auto_scaler_test :: GetOptimalNumberOfWorkersRemoveOutliersTPT, RemoveOutliersPT.
    #[test]
    fn outliers_count_as_the_median() {
        assert_eq!(estimated(&[80_000.0], &[0.5, 3_000.0, 2_000.0]), Some(107));
        assert_eq!(estimated(&[80_000.0, 70_000.0, 1.0], &[300.0]), Some(244));
    }

    /// Upstream's auto_scaler_test :: UpdateOptimalNumberOfWorkersMetric*.
    #[test]
    fn an_estimate_grows_in_bounded_steps() {
        assert_eq!(bounded(50, 15), Some(50));
        assert_eq!(bounded(10, 2), Some(8));
        assert_eq!(bounded(10_000, 1_000), Some(1_500));
        assert_eq!(bounded(200_000, 99_700), Some(100_000));
        assert_eq!(bounded(5, 0), None);
        assert_eq!(bounded(u64::MAX, u64::MAX), Some(WORKERS_ESTIMATED_MAX));
    }

    proptest! {
        #[test]
        fn an_estimate_is_always_at_least_one(
            processing in proptest::collection::vec(0.0..1e12f64, 0..8),
            target in proptest::collection::vec(0.0..1e12f64, 0..8),
        ) {
            prop_assert!(estimated(&processing, &target).is_none_or(|workers| workers >= 1));
        }

        /// With equal workers and equal readers, twice the readers want twice the workers.
        #[test]
        fn readers_add_up(processing in 1e3..1e6f64, target in 1e2..1e5f64, readers in 1usize..10) {
            let found = estimated(&[processing], &vec![target; readers]).unwrap_or_default() as f64;
            let expected = processing / target * readers as f64;
            // The tolerance covers the rounding of times to whole nanoseconds.
            prop_assert!((found - expected).abs() <= 1.0 + expected * 1e-4, "{found}, not {expected}");
        }
    }
}
