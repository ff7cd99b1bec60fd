//! The number of splits that a task requests. At the task's measured rate, the splits last while the
//! dispatcher is away.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::split::{SPLITS_LAST, SplitPace};

/// Maximum number of unstarted splits of a task at any rate. Names of files have about 100 bytes each.
const AHEAD_SPLITS_MAX: u64 = 1 << 17;
/// Maximum number of splits of one request: an answer with 1024 file names has 100 KiB.
const WANT_MAX: u64 = 1024;
/// The time over which a rate is measured. Older splits count less and less.
const WINDOW_S: f64 = 8.0;
/// The minimum time that the first splits count as having taken. Readers that begin together take their
/// first splits all at once.
const BEGINNING_S: f64 = 1.0;
/// The time of a rate from which on requests follow each other without further started splits. A burst at the
/// beginning would otherwise lease the splits of minutes.
const MEASURED_S: f64 = 2.0;

/// The request of a task for splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedDemand {
    /// The maximum number of splits that the task wants now.
    pub want: u32,
    /// The pace of the task, once it is known, by which the dispatcher divides the remaining splits (C5.1).
    pub pace: Option<SplitPace>,
}

/// The pace of a task, and the number of unstarted splits that it should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedGoal {
    /// The number of splits that the task starts in 1000 s.
    pub per_1000_s: u64,
    /// The number of unstarted splits that the task should hold.
    pub splits: u64,
    /// True if the pace was measured for long enough to lease all these splits at once.
    pub is_measured: bool,
}

impl FeedGoal {
    /// Returns the request to send while `held` splits are unstarted.
    pub fn demand(self, held: u64) -> FeedDemand {
        FeedDemand {
            want: self.splits.saturating_sub(held).clamp(1, WANT_MAX) as u32,
            pace: Some(SplitPace {
                per_1000_s: self.per_1000_s,
                unstarted: held,
                can_wait: true,
            }),
        }
    }

    /// Returns whether a task that holds `held` splits requests more of them without starting one.
    pub fn wants_more(self, held: u64) -> bool {
        self.is_measured && held < self.splits
    }
}

/// The rate at which one source is read, without the time in which the reader waited for splits.
#[derive(Debug)]
pub(super) struct SplitRate {
    splits: f64,
    seconds: f64,
    /// The time at which the latest split was taken.
    taken_at: Option<Duration>,
    /// The time since which the reader has waited for splits.
    waits_since: Option<Duration>,
}

impl Default for SplitRate {
    fn default() -> SplitRate {
        SplitRate {
            splits: 0.0,
            seconds: BEGINNING_S,
            taken_at: None,
            waits_since: None,
        }
    }
}

impl SplitRate {
    /// Notes that a split is taken, which ends the time of the previous split.
    pub(super) fn note_taken(&mut self, now: Duration) {
        let ended_at = self.waits_since.take().unwrap_or(now);
        if let Some(before) = self.taken_at.replace(now) {
            self.splits += 1.0;
            self.seconds += ended_at.saturating_sub(before).as_secs_f64();
            if self.seconds > WINDOW_S {
                let rest = WINDOW_S / self.seconds;
                self.splits *= rest;
                self.seconds = WINDOW_S;
            }
        }
    }

    /// Notes that the reader waits, because no split is held.
    pub(super) fn note_waiting(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    /// Returns the splits per second; `None` before the first split was read.
    fn per_second(&self) -> Option<f64> {
        (self.splits > 0.0).then(|| self.splits / self.seconds)
    }

    /// Returns the number of unstarted splits that the task should hold; `None` while its rate is unknown.
    pub(super) fn target(&self) -> Option<u64> {
        Some(self.goal()?.splits)
    }

    /// Returns the goal of the task; `None` while its rate is unknown.
    pub(super) fn goal(&self) -> Option<FeedGoal> {
        let per_second = self.per_second()?;
        let splits = per_second * SPLITS_LAST.as_secs_f64();
        // The conversion of a float to an integer saturates.
        Some(FeedGoal {
            per_1000_s: ((per_second * 1000.0) as u64).max(1),
            splits: (splits.ceil() as u64).clamp(2, AHEAD_SPLITS_MAX),
            is_measured: self.seconds >= MEASURED_S,
        })
    }

    /// Returns the request to send while `held` splits are unstarted.
    pub(super) fn demand(&self, held: u64) -> FeedDemand {
        let unpaced = FeedDemand {
            want: WANT_MAX as u32,
            pace: None,
        };
        self.goal().map_or(unpaced, |goal| goal.demand(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pauses_ms: impl IntoIterator<Item = u64>) -> SplitRate {
        let mut rate = SplitRate::default();
        let mut now = Duration::ZERO;
        rate.note_taken(now);
        for pause in pauses_ms {
            now += Duration::from_millis(pause);
            rate.note_taken(now);
        }
        rate
    }

    #[test]
    fn a_task_holds_fifteen_seconds_of_splits() {
        let rate = after(std::iter::repeat_n(100, 200));
        let target = rate.target().unwrap();
        assert!((135..=151).contains(&target), "{target}");
        let demand = rate.demand(100);
        assert_eq!(u64::from(demand.want), target - 100);
        let pace = demand.pace.unwrap();
        assert_eq!(pace.unstarted, 100);
        assert!((9_000..=10_001).contains(&pace.per_1000_s), "{pace:?}");
        assert_eq!(rate.demand(1000).want, 1, "a request is for at least one split");
    }

    #[test]
    fn waiting_for_the_dispatcher_is_not_work() {
        let mut rate = after(std::iter::repeat_n(100, 200));
        let before = rate.target();
        let now = Duration::from_secs(20) + Duration::from_millis(100);
        rate.note_waiting(now);
        rate.note_waiting(now + Duration::from_secs(5));
        rate.note_taken(now + Duration::from_secs(30));
        assert!(rate.target().unwrap().abs_diff(before.unwrap()) <= 2);
    }

    #[test]
    fn a_rate_follows_the_latest_seconds() {
        let slower = std::iter::repeat_n(10, 1000).chain(std::iter::repeat_n(1000, 40));
        let target = after(slower).target().unwrap();
        assert!((15..=30).contains(&target), "{target}");
    }

    #[test]
    fn a_burst_of_splits_makes_no_fast_task() {
        let burst = || std::iter::repeat_n(0, 16);
        let goal = |rate: SplitRate| rate.goal().unwrap();
        assert_eq!(goal(after(burst())).splits, 240);
        assert!(!goal(after(burst())).wants_more(0), "nothing was measured yet");
        // Sixteen splits are read at the same time, and take 3 s.
        let later = goal(after(burst().chain([3000])));
        assert!(later.wants_more(0) && later.splits <= 80, "{later:?}");
        assert_eq!(
            after([]).demand(0),
            FeedDemand {
                want: 1024,
                pace: None
            }
        );
    }
}
