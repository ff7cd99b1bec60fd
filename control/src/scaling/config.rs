//! The bounds and the waiting times of a scaling policy, each with its default and its reason.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// The bounds and the waiting times of a scaling policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingConfig {
    /// Minimum number of wanted workers. Default 0: a service without readers needs no worker.
    pub workers_min: u64,
    /// Maximum number of wanted workers. Default 100 000, which no service reaches: programs that follow
    /// the number have limits of their own.
    pub workers_max: u64,
    /// The time for which the number of workers must not change before the first decision. Default 20 s:
    /// workers start one after the other, and find a restarted dispatcher within seconds. If workers come and
    /// go, the first decision follows after three times this time.
    pub warm_up: Duration,
    /// The time for which workers must be idle before fewer are wanted. Default 60 s, which outlasts the
    /// pause between two epochs.
    pub down_after: Duration,
    /// The time without a reader after which the minimum is wanted. Default 300 s, because a trainer may
    /// spend minutes between two epochs. A dispatcher that starts without workers and readers decides after
    /// this time too, because the first workers may still be starting.
    pub idle_after: Duration,
    /// The time for which new workers must produce elements before the policy judges their effect. Default
    /// 8 s, within which the averages have forgotten the time before.
    pub settle: Duration,
}

impl Default for ScalingConfig {
    fn default() -> ScalingConfig {
        ScalingConfig {
            workers_min: 0,
            workers_max: 100_000,
            warm_up: Duration::from_secs(20),
            down_after: Duration::from_secs(60),
            idle_after: Duration::from_secs(300),
            settle: Duration::from_secs(8),
        }
    }
}
