//! The spans of the dispatcher: the times of its answers to requests for splits.

use std::time::Instant;

use millstream_trace::{Part, Tracer};

use crate::dispatcher::{Reply, Request};
use crate::error::Error;
use crate::id::TaskId;

/// A request for splits that is being answered.
pub(super) struct TracedLease<'t> {
    tracer: &'t Tracer,
    task: TaskId,
    asked: Instant,
}

impl<'t> TracedLease<'t> {
    /// Returns the request if it asks for splits and splits are traced.
    pub(super) fn begin(tracer: &'t Tracer, request: &Request) -> Option<TracedLease<'t>> {
        let Request::LeaseSplits { task, .. } = request else {
            return None;
        };
        tracer.is_on().then(|| TracedLease {
            tracer,
            task: *task,
            asked: Instant::now(),
        })
    }

    /// Records the answer for each sampled split in it.
    pub(super) fn end(&self, answer: &Result<Reply, Error>) {
        let Ok(Reply::Splits { runs, .. }) = answer else {
            return;
        };
        let times = (self.asked, Instant::now());
        // The length of a lease is limited, and so is the number of its splits.
        for lease in runs.iter().flat_map(|run| run.first_lease..=run.leases().last()) {
            if let Some(split) = self.tracer.split(self.task.0, lease) {
                split.record(Part::Grant, times, []);
            }
        }
    }
}
