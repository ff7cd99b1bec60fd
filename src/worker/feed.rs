//! The splits from the dispatcher, as the pipeline's type. Translates; owns no state.

use millstream_control::agent::{FeedError, SplitFeed};
use millstream_pipeline::exec::{Split, SplitError, SplitSource};

/// The feed of the splits of one task.
#[derive(Debug)]
pub(super) struct TaskFeed(pub(super) SplitFeed);

impl SplitSource for TaskFeed {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        let split = self.0.next(source, repetition).map_err(failed)?;
        Ok(split.map(to_pipeline))
    }

    fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, SplitError> {
        let passed = self.0.pass_over(source).map_err(failed)?;
        Ok(passed.into_iter().map(to_pipeline).collect())
    }

    fn current(&self, source: u32) -> Option<u64> {
        Some(self.0.current_repetition(source))
    }

    fn is_draining(&self) -> bool {
        self.0.is_draining()
    }
}

fn to_pipeline(split: millstream_control::Split) -> Split {
    Split {
        source: split.source,
        repetition: split.repetition,
        index: split.index,
        lease: split.lease,
        attempt: split.attempt,
        payload: split.payload,
    }
}

fn failed(error: FeedError) -> SplitError {
    match error {
        FeedError::Cancelled => SplitError::Cancelled,
        FeedError::Dispatcher(error) => SplitError::Dispatcher(error.to_string()),
    }
}
