//! Splits that were lost with their worker: which, who had them and why, and what a reader does about them at its end.
//!
//! Pure but for the intake's lock. Its size is bounded by the gaps between lost splits, and by the workers that had them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::follow::LostSplits;
use crate::intake::Intake;
use crate::ranges::Ranges;

/// Ranges that a message names; the rest are counted.
const NAMED_MAX: usize = 16;

/// Removed workers whose reasons are kept. A reader of more workers is told of the others' losses without a reason.
const REASONS_MAX: usize = 1024;

/// The cause of a loss that the dispatcher told without a worker.
const CAUSE_UNKNOWN: &str = "lost before this reader was told by whom";

/// What a reader does at the end of an iteration of which splits were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Returns [`ReadError::DataLost`](crate::ReadError::DataLost) in place of the end, after everything that arrived.
    #[default]
    Raise,
    /// Says so, by [`ReaderConfig::on_notice`](crate::ReaderConfig::on_notice) or in the log, and ends.
    Warn,
    /// Ends as if nothing were missing; [`ReaderStats::lost_splits`](crate::ReaderStats::lost_splits) still names them.
    Ignore,
}

impl OnLost {
    /// The word for it in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Warn => "warn",
            Self::Ignore => "ignore",
        }
    }
}

impl FromStr for OnLost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Raise, Self::Warn, Self::Ignore];
        let found = all.into_iter().find(|on_lost| on_lost.name() == text);
        found.ok_or_else(|| format!("on_lost {text:?}: use \"raise\", \"warn\" or \"ignore\""))
    }
}

/// A run of lost splits of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    /// The splits.
    pub splits: LostSplits,
    /// The address of the worker that had them; empty if it is not known.
    pub worker: String,
    /// The reason, for people.
    pub cause: String,
}

/// Everything that one iteration lost, as far as the dispatcher named it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataLoss {
    /// The splits, each once: by worker and cause, then by source, pass and index.
    pub ranges: Vec<LostRange>,
}

impl DataLoss {
    /// How many splits were lost.
    pub fn splits(&self) -> u64 {
        let counts = self.ranges.iter().map(|range| range.splits.count);
        counts.fold(0, u64::saturating_add)
    }
}

impl fmt::Display for DataLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let splits = self.splits();
        let (noun, verb) = if splits == 1 {
            ("split", "was")
        } else {
            ("splits", "were")
        };
        write!(
            f,
            "{splits} {noun} {verb} lost, and elements of the dataset are missing: "
        )?;
        for (index, range) in self.ranges.iter().take(NAMED_MAX).enumerate() {
            let LostSplits {
                source,
                repetition,
                first,
                count,
            } = range.splits;
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}source {source}, pass {repetition}, ")?;
            match count {
                1 => write!(f, "split {first}")?,
                _ => write!(f, "splits {first} to {}", first.saturating_add(count - 1))?,
            }
            if range.worker.is_empty() {
                write!(f, " ({})", range.cause)?;
            } else {
                write!(f, " (worker {}: {})", range.worker, range.cause)?;
            }
        }
        match self.ranges.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} further ranges"),
        }
    }
}

/// What was lost so far, and why workers went.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Indices by source and pass, each once.
    all: BTreeMap<(u32, u64), Ranges>,
    /// The same by worker and cause.
    by_worker: BTreeMap<(String, String), BTreeMap<(u32, u64), Ranges>>,
    /// Why tasks were removed, by the worker that had them.
    reasons: BTreeMap<String, String>,
}

impl Losses {
    /// Notes why a worker's task was removed.
    pub(crate) fn note_removed(&mut self, worker: &str, reason: &str) {
        if self.reasons.len() < REASONS_MAX || self.reasons.contains_key(worker) {
            self.reasons.insert(worker.to_owned(), reason.to_owned());
        }
    }

    /// Notes splits that `worker` had. Those noted before keep the worker that was named first.
    pub(crate) fn note(&mut self, worker: &str, splits: &[LostSplits]) {
        let reason = self.reasons.get(worker).map(String::as_str);
        let cause = reason.unwrap_or(CAUSE_UNKNOWN).to_owned();
        let fresh = splits.iter().filter(|lost| lost.count > 0);
        for lost in fresh {
            let last = lost.first.saturating_add(lost.count - 1);
            let key = (lost.source, lost.repetition);
            let of_pass = self.all.entry(key).or_default();
            let gaps = of_pass.missing(lost.first..=last);
            of_pass.insert(lost.first..=last);
            let of_worker = self.by_worker.entry((worker.to_owned(), cause.clone()));
            let ranges = of_worker.or_default().entry(key).or_default();
            for gap in gaps {
                ranges.insert(gap);
            }
        }
    }

    /// The splits, each once.
    pub(crate) fn splits(&self) -> Vec<LostSplits> {
        listed(&self.all).collect()
    }

    /// The same with who had them; `None` if nothing was lost.
    pub(crate) fn loss(&self) -> Option<DataLoss> {
        let ranges = self.by_worker.iter().flat_map(|((worker, cause), ranges)| {
            listed(ranges).map(|splits| LostRange {
                splits,
                worker: worker.clone(),
                cause: cause.clone(),
            })
        });
        let ranges: Vec<LostRange> = ranges.collect();
        (!ranges.is_empty()).then_some(DataLoss { ranges })
    }
}

fn listed(ranges: &BTreeMap<(u32, u64), Ranges>) -> impl Iterator<Item = LostSplits> + '_ {
    ranges.iter().flat_map(|((source, repetition), indices)| {
        indices.iter().map(|range| LostSplits {
            source: *source,
            repetition: *repetition,
            first: *range.start(),
            count: (range.end() - range.start()).saturating_add(1),
        })
    })
}

impl Intake {
    /// Notes splits of which elements were lost with their worker.
    pub(crate) fn note_lost_splits(&self, worker: &str, splits: &[LostSplits]) {
        self.state.lock().losses.note(worker, splits);
    }

    /// The splits noted so far, each once.
    pub(crate) fn lost_splits(&self) -> Vec<LostSplits> {
        self.state.lock().losses.splits()
    }

    /// The same with who had them; `None` if nothing was lost.
    pub(crate) fn loss(&self) -> Option<DataLoss> {
        self.state.lock().losses.loss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(first: u64, count: u64) -> LostSplits {
        LostSplits {
            source: 0,
            repetition: 1,
            first,
            count,
        }
    }

    #[test]
    fn a_loss_names_splits_workers_and_causes() {
        let mut losses = Losses::default();
        assert_eq!(losses.loss(), None);
        losses.note_removed("one:1", "the worker stopped answering");
        losses.note("one:1", &[lost(4, 2), lost(9, 1)]);
        losses.note("two:2", &[lost(20, 1), lost(21, 0)]);
        let loss = losses.loss().unwrap();
        assert_eq!(loss.splits(), 4);
        assert_eq!(
            loss.to_string(),
            "4 splits were lost, and elements of the dataset are missing: \
             source 0, pass 1, splits 4 to 5 (worker one:1: the worker stopped answering); \
             source 0, pass 1, split 9 (worker one:1: the worker stopped answering); \
             source 0, pass 1, split 20 (worker two:2: lost before this reader was told by whom)"
        );
    }

    /// C4.1: a snapshot names all of them again, without workers.
    #[test]
    fn splits_named_again_keep_their_worker() {
        let mut losses = Losses::default();
        losses.note_removed("one:1", "the worker restarted");
        losses.note("one:1", &[lost(4, 2)]);
        losses.note("", &[lost(2, 6)]);
        assert_eq!(losses.splits(), [lost(2, 6)]);
        let loss = losses.loss().unwrap();
        let ranges = loss
            .ranges
            .iter()
            .map(|range| (range.worker.as_str(), range.splits));
        let expected = [("", lost(2, 2)), ("", lost(6, 2)), ("one:1", lost(4, 2))];
        assert!(ranges.eq(expected), "{loss:?}");
    }

    #[test]
    fn a_message_stays_short_however_much_is_lost() {
        let mut losses = Losses::default();
        for split in 0..100 {
            losses.note("one:1", &[lost(2 * split, 1)]);
        }
        let text = losses.loss().unwrap().to_string();
        assert!(text.ends_with("; and 84 further ranges"), "{text}");
        assert!(text.len() < 4096, "{} bytes", text.len());
    }

    #[test]
    fn settings_are_read_back_as_written() {
        for on_lost in [OnLost::Raise, OnLost::Warn, OnLost::Ignore] {
            assert_eq!(on_lost.name().parse(), Ok(on_lost));
        }
        assert!("fail".parse::<OnLost>().unwrap_err().contains("\"raise\""));
    }
}
