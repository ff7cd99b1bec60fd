//! Splits from the dispatcher, as the pipeline reads them. Translates; owns no state.

use millstream_control::agent::{FeedError, SplitFeed};
use millstream_pipeline::exec::{Split, SplitError, SplitSource};

/// The splits of one task.
#[derive(Debug)]
pub(super) struct TaskFeed(pub(super) SplitFeed);

impl SplitSource for TaskFeed {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        match self.0.next(source, repetition) {
            Ok(split) => Ok(split.map(|split| Split {
                source: split.source,
                repetition: split.repetition,
                index: split.index,
                lease: split.lease,
                attempt: split.attempt,
                payload: split.payload,
            })),
            Err(FeedError::Cancelled) => Err(SplitError::Cancelled),
            Err(FeedError::Dispatcher(error)) => Err(SplitError::Dispatcher(error.to_string())),
        }
    }

    fn current(&self, source: u32) -> Option<u64> {
        Some(self.0.current_repetition(source))
    }
}
