//! The limit of one step up, for the scaling policy and for the estimate of the tf.data service.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Maximum wanted workers as a multiple of the present workers: one wrong figure must not empty a cloud.
const FACTOR_MAX: u64 = 4;
/// Maximum number of workers that one decision adds to the present workers.
const ADDED_MAX: u64 = 500;

/// Returns the largest number of workers that one decision may want. At least one worker counts as present.
pub(crate) fn growth_limit(present: u64) -> u64 {
    let present = present.max(1);
    let by_factor = present.saturating_mul(FACTOR_MAX);
    by_factor.min(present.saturating_add(ADDED_MAX))
}
