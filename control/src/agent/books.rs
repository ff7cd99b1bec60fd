//! The books of one task's splits: the splits that the task has not begun, the passes that are over, and
//! the time of the next request.
//!
//! [`FeedBooks`] sends no requests, and does not know which reader waits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use minicbor::bytes::ByteVec;

use super::demand::{FeedDemand, FeedGoal, SplitRate};
use crate::dispatcher::Run;
use crate::split::{LeaseRange, PayloadVersion, Split};

/// The splits that a task has received and not begun, by source.
///
/// The caller asks for [`next`](FeedBooks::next). If the step requires a request, the caller sends it and
/// reports [`asked`](FeedBooks::asked), and later [`answered`](FeedBooks::answered).
#[derive(Debug, Default)]
pub struct FeedBooks {
    sources: BTreeMap<u32, SourceBooks>,
    exhausted: bool,
}

/// The next step of a reader of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedStep {
    /// A split to read.
    Split {
        /// The split to read.
        split: Split,
        /// The request to send now, so that its splits arrive before the held splits are used up.
        ask_ahead: Option<FeedDemand>,
    },
    /// The end of the pass.
    End,
    /// No split is held: the caller must send this request.
    Ask(FeedDemand),
    /// No split is held, and a request is in flight.
    Wait,
}

/// The dispatcher's answer to a request for splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedBatch {
    /// The leased splits, in runs.
    pub runs: Vec<FeedRun>,
    /// True if the requested pass has no more splits for the task.
    pub end: bool,
    /// The number of the current pass, from which the dispatcher leases splits.
    pub current: u64,
    /// True if the lease has the maximum length, so that another lease may follow (C5.9).
    pub more: bool,
    /// True if the caller has sent the next request already.
    pub follows: bool,
}

/// A leased run, from which some splits may have been taken already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRun {
    /// The remaining splits of the run.
    pub run: Run,
    /// The payload of each remaining split; empty if the splits have no payloads.
    pub payloads: VecDeque<ByteVec>,
    /// The version of each remaining payload's file; empty if the versions are unknown.
    pub versions: VecDeque<PayloadVersion>,
}

impl FeedRun {
    /// Returns a run of a source without payloads.
    pub fn without_payloads(run: Run) -> FeedRun {
        FeedRun {
            run,
            payloads: VecDeque::new(),
            versions: VecDeque::new(),
        }
    }
}

#[derive(Debug, Default)]
struct SourceBooks {
    ready: VecDeque<FeedRun>,
    /// The number of splits in `ready`.
    count: u64,
    /// The number of splits in `ready` after the latest answer.
    level: u64,
    /// The number of splits that the latest request wanted.
    wanted: u64,
    /// True if the latest answer had fewer splits than requested, because the dispatcher keeps splits for
    /// other tasks.
    is_limited: bool,
    /// The number of splits of a lease of maximum length, once it is known.
    full_lease: Option<u64>,
    /// True if the latest answer was a lease of maximum length.
    is_full: bool,
    rate: SplitRate,
    /// True if the reader was told the end of the pass, and has not asked for another pass since.
    at_end: bool,
    /// The latest repetition that is over.
    ended: Option<u64>,
    /// The current repetition at the dispatcher's latest answer.
    current: u64,
    /// The repetition of the request in flight.
    asking: Option<u64>,
}

impl FeedBooks {
    /// Returns the next split of a source in this pass, or the step that leads to one. `now` counts from
    /// any fixed moment.
    pub fn next(&mut self, source: u32, repetition: u64, now: Duration) -> FeedStep {
        let books = self.sources.entry(source).or_default();
        if let Some(split) = books.pop() {
            books.at_end = false;
            books.rate.note_taken(now);
            let is_to_ask = books.is_low() && books.asking.is_none() && !books.is_over(repetition);
            let ask_ahead = is_to_ask.then(|| books.rate.demand(books.count));
            self.exhausted = false;
            return FeedStep::Split { split, ask_ahead };
        }
        if books.asking.is_some() {
            books.rate.note_waiting(now);
            return FeedStep::Wait;
        }
        if books.is_over(repetition) {
            books.at_end = true;
            self.exhausted = self.sources.values().all(SourceBooks::is_read);
            return FeedStep::End;
        }
        books.rate.note_waiting(now);
        FeedStep::Ask(books.rate.demand(0))
    }

    /// Returns whether the task holds a split of a source that it has not begun.
    pub fn has_split(&self, source: u32) -> bool {
        self.held(source) > 0
    }

    /// Returns the number of splits of a source that the task holds and has not begun.
    pub fn held(&self, source: u32) -> u64 {
        self.sources.get(&source).map_or(0, |books| books.count)
    }

    /// Returns the pace of a source, and the number of splits that the task should hold. `None` while the
    /// pace is unknown.
    pub fn goal(&self, source: u32) -> Option<FeedGoal> {
        self.sources.get(&source)?.rate.goal()
    }

    /// Notes that a request for `want` splits of a source was sent.
    pub fn asked(&mut self, source: u32, repetition: u64, want: u32) {
        let books = self.sources.entry(source).or_default();
        (books.asking, books.wanted) = (Some(repetition), u64::from(want));
    }

    /// Notes the dispatcher's answer to the request in flight.
    pub fn answered(&mut self, source: u32, batch: FeedBatch) {
        let books = self.sources.entry(source).or_default();
        let asked = books.asking;
        if batch.end {
            books.ended = books.ended.max(asked);
        }
        books.current = books.current.max(batch.current);
        let leased = batch.runs.iter().map(|leased| leased.run.count).sum::<u64>();
        books.count += leased;
        books.level = books.count;
        books.is_limited = leased < books.wanted;
        if batch.follows {
            books.wanted = books.wanted.saturating_sub(leased);
        } else {
            books.asking = None;
        }
        books.is_full = batch.more;
        if batch.more {
            books.full_lease = Some(leased);
        }
        books.ready.extend(batch.runs);
    }

    /// Notes that the requests for a source were ended after an answer.
    pub fn asks_no_more(&mut self, source: u32) {
        if let Some(books) = self.sources.get_mut(&source) {
            books.asking = None;
        }
    }

    /// Takes the held splits of a source whose reader has left the pass before its end (C5.4).
    pub fn pass_over(&mut self, source: u32) -> Vec<Split> {
        let books = self.sources.get_mut(&source);
        books.map_or_else(Vec::new, |books| std::iter::from_fn(|| books.pop()).collect())
    }

    /// Returns the current pass over a source: every earlier pass is over. The current pass is the pass of
    /// the latest answer, or the pass of a held split if that pass is earlier. 0 before the first answer.
    pub fn current_repetition(&self, source: u32) -> u64 {
        let Some(books) = self.sources.get(&source) else {
            return 0;
        };
        let next = books.ready.front().map(|leased| leased.run.repetition);
        next.map_or(books.current, |next| next.min(books.current))
    }

    /// Takes all held splits, so that the caller returns them (C5.5). The caller must also return the
    /// splits of a request in flight.
    pub fn take_unstarted(&mut self) -> Vec<LeaseRange> {
        let books = std::mem::take(&mut self.sources).into_values();
        let runs = books.flat_map(|books| books.ready);
        runs.map(|leased| leased.run.leases()).collect()
    }

    /// Returns whether every source in use was read to the end of its pass, and all its readers were told
    /// the end.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}

impl SourceBooks {
    fn is_over(&self, repetition: u64) -> bool {
        self.ended.is_some_and(|ended| repetition <= ended)
    }

    /// Returns whether the reader should request more splits.
    fn is_low(&self) -> bool {
        match self.rate.target() {
            // Several leases together last for the target time. The task requests each lease as soon as it
            // has room for its splits, so that the leases of all tasks take turns.
            Some(target) if self.has_room_for_lease(target) => true,
            // Few splits remain to be divided, and each request gets a part of them.
            Some(_) if self.is_limited => self.count <= self.level / 4 * 3,
            Some(target) => self.count <= target / 5 * 4,
            None => self.count <= self.level / 2,
        }
    }

    fn has_room_for_lease(&self, target: u64) -> bool {
        let most = if self.is_full { target } else { self.level };
        let has_room = self.full_lease.is_some_and(|splits| self.count + splits <= most);
        has_room || self.is_full && self.count <= target / 5 * 4
    }

    fn is_read(&self) -> bool {
        self.at_end || (self.ready.is_empty() && self.asking.is_none() && self.ended.is_some())
    }

    fn pop(&mut self) -> Option<Split> {
        let leased = self.ready.front_mut()?;
        let run = &mut leased.run;
        let payload = leased.payloads.pop_front().map_or_else(Vec::new, Vec::from);
        let version = leased.versions.pop_front();
        let split = Split {
            source: run.source,
            repetition: run.repetition,
            index: run.first_index,
            lease: run.first_lease,
            attempt: run.attempt,
            skipped: run.skipped,
            payload,
            version,
        };
        run.first_index += 1;
        run.first_lease += 1;
        run.count -= 1;
        self.count -= 1;
        if run.count == 0 {
            self.ready.pop_front();
        }
        Some(split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(repetition: u64, first_lease: u64, count: u64) -> FeedBatch {
        let run = Run {
            source: 0,
            repetition,
            first_index: 10 * first_lease,
            count,
            first_lease,
            attempt: 0,
            seen: false,
            deaths: 0,
            skipped: false,
        };
        let runs = if count > 0 {
            vec![FeedRun::without_payloads(run)]
        } else {
            Vec::new()
        };
        FeedBatch {
            runs,
            end: count == 0,
            current: repetition,
            more: false,
            follows: false,
        }
    }

    #[test]
    fn splits_keep_the_versions_of_their_files() {
        let mut leased = batch(0, 0, 3);
        leased.runs[0].payloads = (0..3_u8).map(|file| vec![file].into()).collect();
        leased.runs[0].versions = [[1; 16], [0; 16], [3; 16]].map(Into::into).into();
        let mut books = FeedBooks::default();
        let _ = books.next(0, 0, Duration::ZERO);
        books.asked(0, 0, 3);
        books.answered(0, leased);
        let versions: Vec<_> = (0..3)
            .map(|file| {
                let (split, _) = take(&mut books, Duration::ZERO);
                assert_eq!(split.payload, [file]);
                split.version
            })
            .collect();
        assert_eq!(versions, [1, 0, 3].map(|byte| Some([byte; 16].into())));
    }

    #[test]
    fn only_unread_splits_are_at_hand() {
        let mut books = FeedBooks::default();
        assert!(!books.has_split(0));
        assert!(matches!(books.next(0, 0, Duration::ZERO), FeedStep::Ask(_)));
        books.asked(0, 0, 1);
        assert!(!books.has_split(0), "the answer is on its way");
        books.answered(0, batch(0, 0, 1));
        assert!(books.has_split(0) && !books.has_split(1));
        take(&mut books, Duration::ZERO);
        assert!(!books.has_split(0));
    }

    /// Takes a split, and notes the request that comes with it as sent.
    fn take(books: &mut FeedBooks, now: Duration) -> (Split, Option<FeedDemand>) {
        let FeedStep::Split { split, ask_ahead } = books.next(0, 0, now) else {
            panic!("there is one")
        };
        if let Some(demand) = ask_ahead {
            books.asked(0, 0, demand.want);
        }
        (split, ask_ahead)
    }

    #[test]
    fn splits_arrive_in_order_and_are_requested_once() {
        let mut books = FeedBooks::default();
        let FeedStep::Ask(first) = books.next(0, 0, Duration::ZERO) else {
            panic!("nothing is here")
        };
        books.asked(0, 0, first.want);
        assert_eq!(books.next(0, 0, Duration::ZERO), FeedStep::Wait);
        books.answered(0, batch(0, 1, 4));
        let mut asked_at = Vec::new();
        for place in 0..4 {
            let (split, asked) = take(&mut books, Duration::from_secs(10 * place));
            assert_eq!((split.lease, split.index), (1 + place, 10 + place));
            asked_at.extend(asked.map(|_| place));
        }
        assert_eq!(asked_at, [1]);
    }

    #[test]
    fn the_time_ahead_is_kept_filled() {
        let mut books = FeedBooks::default();
        let mut lease = 0;
        let mut give = |books: &mut FeedBooks, want| {
            books.answered(0, batch(0, lease, want));
            lease += want;
        };
        books.asked(0, 0, 1024);
        give(&mut books, 2_u64);
        for second in 0..200 {
            let (_, asked) = take(&mut books, Duration::from_secs(second));
            if let Some(demand) = asked {
                let most = if demand.pace.is_some() { 1024 } else { 2 };
                give(&mut books, u64::from(demand.want).min(most));
            }
            let held = books.sources[&0].count;
            assert!(
                second < 30 || (11..=16).contains(&held),
                "{held} after {second} s"
            );
        }
    }

    /// Tests that several short leases last for the target time (C5.9).
    #[test]
    fn short_leases_fill_the_time_ahead() {
        let mut books = FeedBooks::default();
        let mut lease = 0;
        let mut give = |books: &mut FeedBooks| {
            let batch = FeedBatch {
                more: true,
                ..batch(0, lease, 8)
            };
            lease += 8;
            books.answered(0, batch);
        };
        books.asked(0, 0, 1024);
        give(&mut books);
        for moment in 0..600 {
            let now = Duration::from_millis(100 * moment);
            if take(&mut books, now).1.is_some() {
                give(&mut books);
            }
            let held = books.sources[&0].count;
            assert!(moment < 100 || (130..=151).contains(&held), "{held} at {now:?}");
        }
    }

    /// Tests that a task is exhausted only after it was told the end of every source that it reads (C5.5).
    #[test]
    fn a_feed_is_exhausted_after_every_end() {
        let mut books = FeedBooks::default();
        books.asked(0, 0, 1);
        books.answered(0, batch(0, 0, 1));
        assert!(matches!(
            books.next(0, 0, Duration::ZERO),
            FeedStep::Split {
                ask_ahead: Some(_),
                ..
            }
        ));
        books.asked(0, 0, 1);
        books.answered(0, batch(0, 1, 0));
        assert!(!books.is_exhausted());
        assert_eq!(books.next(0, 0, Duration::ZERO), FeedStep::End);
        assert!(books.is_exhausted());
        books.asked(1, 0, 1);
        books.answered(1, batch(0, 1, 2));
        books.next(0, 0, Duration::ZERO);
        assert!(!books.is_exhausted(), "source 1 has two left");
        let leases = books.take_unstarted();
        assert_eq!(leases, [LeaseRange { first: 1, count: 2 }]);
        assert_eq!(books.take_unstarted(), []);
    }
}
