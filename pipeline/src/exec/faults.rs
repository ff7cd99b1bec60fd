//! The treatment of an element that fails: a retry, its omission, or the end of the pipeline.

use std::time::Duration;

use super::cancel::Cancel;
use super::error::{ErrorKind, ExecError};
use super::skipped::Skipped;
use super::token::{self, Marks};
use crate::graph::ErrorPolicy;

/// The pause before the first retry. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The treatment of failures by an operation.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    policy: ErrorPolicy,
    skipped: Skipped,
    cancel: Cancel,
}

impl Faults {
    pub(crate) fn new(policy: ErrorPolicy, skipped: &Skipped, cancel: &Cancel) -> Faults {
        Faults {
            policy,
            skipped: skipped.clone(),
            cancel: cancel.clone(),
        }
    }

    /// Returns a treatment that also leaves failing elements out if `skips`, whatever the dataset's policy
    /// says.
    pub(crate) fn skipping_if(mut self, skips: bool) -> Faults {
        self.policy.skips |= skips;
        self
    }

    /// Returns a treatment that leaves no element out.
    pub(crate) fn raising(&self) -> Faults {
        let mut faults = self.clone();
        faults.policy.skips = false;
        faults
    }

    /// Returns whether failed calls are retried.
    pub(crate) fn retries(&self) -> bool {
        self.policy.retries > 0
    }

    /// Returns whether failing elements are left out. If failing elements are left out, no computation that
    /// can fail may be deferred until the element is written.
    pub(crate) fn skips(&self) -> bool {
        self.policy.skips
    }

    /// Calls `attempt` until a call succeeds or no retries are left. The argument of `attempt` is whether the
    /// call is the last.
    pub(crate) fn tried<T>(
        &self,
        mut attempt: impl FnMut(bool) -> Result<T, ExecError>,
    ) -> Result<T, ExecError> {
        let mut pause = PAUSE_MIN;
        for _ in 0..self.policy.retries {
            match attempt(false) {
                Err(error) if is_worth_another_attempt(error.kind()) => self.skipped.retry(&error),
                outcome => return outcome,
            }
            self.cancel.pause("retry", pause)?;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        attempt(true)
    }

    /// Counts an element that failed with `error` as left out, if the policy permits and the data or a user's
    /// function is to blame. Returns whether the element is left out.
    pub(crate) fn passes_over(&self, error: &ExecError) -> bool {
        let is_left_out = self.policy.skips && error.kind().is_of_element();
        if is_left_out {
            self.skipped.record(error);
        }
        is_left_out
    }

    /// Counts an element that failed with `error` as left out, if the policy permits. If the policy does not
    /// permit it, abandons the splits of the element's `marks` and returns the failure.
    pub(crate) fn leave_out(&self, error: ExecError, marks: &Marks) -> Result<(), ExecError> {
        if self.passes_over(&error) {
            return Ok(());
        }
        token::abandon(marks);
        Err(error.of_element())
    }
}

/// Returns whether another attempt might succeed after a failure of this kind.
fn is_worth_another_attempt(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::UserFunction
        | ErrorKind::Data
        | ErrorKind::Value
        | ErrorKind::NotFound
        | ErrorKind::Resource
        | ErrorKind::Peer => true,
        ErrorKind::Caller | ErrorKind::Precondition | ErrorKind::Cancelled | ErrorKind::Internal => false,
    }
}
