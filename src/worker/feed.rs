//! The splits from the dispatcher, as the pipeline's type. Translates; owns no state.

use millstream_control::ExactlyOnce;
use millstream_control::agent::{FeedError, SplitFeed};
use millstream_pipeline::exec::{Split, SplitError, SplitSource};
use millstream_pipeline::storage::FileVersion;

use super::traced::TracedSplits;

/// The feed of the splits of one task.
#[derive(Debug)]
pub(super) struct TaskFeed {
    feed: SplitFeed,
    /// The terms of an exactly-once job, whose leases count the selected splits only (C16.3).
    exactly_once: Option<ExactlyOnce>,
    traced: TracedSplits,
}

impl TaskFeed {
    pub(super) fn new(feed: SplitFeed, exactly_once: Option<ExactlyOnce>, traced: TracedSplits) -> TaskFeed {
        TaskFeed {
            feed,
            exactly_once,
            traced,
        }
    }

    /// Converts a split that the pipeline takes.
    fn take(&self, split: millstream_control::Split) -> Split {
        let split = self.to_pipeline(split);
        self.traced.begin(&split);
        split
    }

    fn to_pipeline(&self, split: millstream_control::Split) -> Split {
        let index = self
            .exactly_once
            .as_ref()
            .map_or(split.index, |once| once.source_index(split.index));
        Split {
            source: split.source,
            repetition: split.repetition,
            index,
            lease: split.lease,
            attempt: split.attempt,
            skipped: split.skipped,
            payload: split.payload,
            version: split
                .version
                .and_then(|version| FileVersion::from_bytes(*version)),
        }
    }
}

impl SplitSource for TaskFeed {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        let split = self.feed.next(source, repetition).map_err(failed)?;
        Ok(split.map(|split| self.take(split)))
    }

    fn next_at_hand(&mut self, source: u32, repetition: u64) -> Option<Split> {
        let split = self.feed.next_at_hand(source, repetition);
        split.map(|split| self.take(split))
    }

    fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, SplitError> {
        let passed = self.feed.pass_over(source).map_err(failed)?;
        Ok(passed.into_iter().map(|split| self.to_pipeline(split)).collect())
    }

    fn current(&self, source: u32) -> Option<u64> {
        Some(self.feed.current_repetition(source))
    }

    fn is_draining(&self) -> bool {
        self.feed.is_draining()
    }
}

fn failed(error: FeedError) -> SplitError {
    match error {
        FeedError::Cancelled => SplitError::Cancelled,
        FeedError::Dispatcher(error) => SplitError::Dispatcher(error.to_string()),
    }
}
