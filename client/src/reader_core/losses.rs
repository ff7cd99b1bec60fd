//! The record of lost splits. Each split is listed once, with the worker that held it and the cause of the
//! loss.
//!
//! The size of the record is bounded by the gaps between lost splits, and by the number of workers that held
//! them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::ranges::Ranges;
use crate::loss::{DataLoss, LostRange, LostSplits};

/// Maximum number of removed workers whose reasons are kept. Losses of further workers are reported without a
/// reason.
const REASONS_MAX: usize = 1024;

/// The cause of a loss for which the dispatcher named no worker with a known reason.
const CAUSE_UNKNOWN: &str = "lost for a reason unknown to this reader";

/// The splits that were lost so far, and the reasons why their workers were removed.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The indices of all lost splits, by source and pass.
    all: BTreeMap<(u32, u64), Ranges>,
    /// The losses by worker and cause.
    by_worker: BTreeMap<(String, String), BTreeMap<(u32, u64), Ranges>>,
    /// The reasons why tasks were removed, by worker.
    reasons: BTreeMap<String, String>,
}

impl Losses {
    /// Notes the reason why a worker's task was removed.
    pub(crate) fn note_removed(&mut self, worker: &str, reason: &str) {
        if self.reasons.len() < REASONS_MAX || self.reasons.contains_key(worker) {
            self.reasons.insert(worker.to_owned(), reason.to_owned());
        }
    }

    /// Notes lost splits that `worker` held. Splits that were noted before keep their first worker.
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

    /// Returns the lost splits, each listed once.
    pub(crate) fn splits(&self) -> Vec<LostSplits> {
        listed(&self.all).collect()
    }

    /// Returns the losses with the workers that held the splits; `None` if no split was lost.
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
             source 0, pass 1, split 20 (worker two:2: lost for a reason unknown to this reader)"
        );
    }

    /// C4.1: a snapshot names all lost splits again, without their workers.
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
}
