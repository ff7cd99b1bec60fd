//! The number of splits that a task asks for. By its measured rate they last while the dispatcher is away.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::split::SplitPace;

/// The time for which a task holds splits that it has not started. A dispatcher that is away for 10 s then
/// keeps no reader waiting, with some room for an outage just before the next request.
const AHEAD: Duration = Duration::from_secs(15);
/// The most splits that a task holds unstarted, however fast it is. Names of files are about 100 bytes each.
const AHEAD_SPLITS_MAX: u64 = 1 << 17;
/// The most splits of one request: an answer of as many names is 100 KiB.
const WANT_MAX: u64 = 1024;
/// The time over which a rate is measured. Older splits count less and less.
const WINDOW_S: f64 = 8.0;
/// The first splits are taken all at once, by readers that begin together: they count as if they had taken at
/// least this.
const BEGINNING_S: f64 = 1.0;

/// The request of a task for splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedDemand {
    /// The most splits that it wants now.
    pub want: u32,
    /// The pace of the task, once it is known. The dispatcher divides the remaining splits by it (C5.1).
    pub pace: Option<SplitPace>,
}

/// The rate at which one source is read, without the time in which it waited for splits.
#[derive(Debug)]
pub(super) struct SplitRate {
    splits: f64,
    seconds: f64,
    /// When the latest split was taken.
    taken_at: Option<Duration>,
    /// Since when the reader waits for splits.
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
    /// Notes that a split is taken, which ends the time that the one before it took.
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

    /// Notes that there is no split to take.
    pub(super) fn note_waiting(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    /// Returns the splits per second; `None` before the first was read.
    fn per_second(&self) -> Option<f64> {
        (self.splits > 0.0).then(|| self.splits / self.seconds)
    }

    /// Returns how many unstarted splits the task should hold; `None` while its rate is unknown.
    pub(super) fn target(&self) -> Option<u64> {
        let splits = self.per_second()? * AHEAD.as_secs_f64();
        // Saturates, as casts of floats do.
        Some((splits.ceil() as u64).clamp(2, AHEAD_SPLITS_MAX))
    }

    /// Returns what to ask for while `held` splits are unstarted.
    pub(super) fn demand(&self, held: u64) -> FeedDemand {
        let want = self
            .target()
            .map_or(WANT_MAX, |target| target.saturating_sub(held));
        FeedDemand {
            want: want.clamp(1, WANT_MAX) as u32,
            pace: self.per_second().map(|rate| SplitPace {
                per_1000_s: ((rate * 1000.0) as u64).max(1),
                unstarted: held,
            }),
        }
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
        assert_eq!(rate.demand(1000).want, 1, "an asker wants at least one");
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
        let target = after(std::iter::repeat_n(0, 16)).target().unwrap();
        assert_eq!(target, 240);
        assert_eq!(
            after([]).demand(0),
            FeedDemand {
                want: 1024,
                pace: None
            }
        );
    }
}
