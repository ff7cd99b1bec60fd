//! The treatment of an element that fails: a retry, its omission, or the end of the pipeline.

use std::time::Duration;

use super::cancel::Cancel;
use super::error::{ErrorKind, ExecError};
use super::skipped::Skipped;
use super::token::{self, Marks};
use crate::graph::ErrorPolicy;

/// The first pause before another attempt; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// An operation's treatment of failures.
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

    /// Omits failing elements if `skips`, whatever the dataset says.
    pub(crate) fn skipping_if(mut self, skips: bool) -> Faults {
        self.policy.skips |= skips;
        self
    }

    /// Omits no element.
    pub(crate) fn raising(&self) -> Faults {
        let mut faults = self.clone();
        faults.policy.skips = false;
        faults
    }

    /// Returns whether failures are tried again.
    pub(crate) fn retries(&self) -> bool {
        self.policy.retries > 0
    }

    /// Returns whether elements that fail are left out, so that nothing may be left to fail when they are
    /// written.
    pub(crate) fn skips(&self) -> bool {
        self.policy.skips
    }

    /// Attempts until one succeeds or there are none left. `attempt` is told whether it is the last.
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

    /// Counts what failed with `error` as left out, if that is what is wanted and it can be.
    pub(crate) fn passes_over(&self, error: &ExecError) -> bool {
        let is_of_data = matches!(
            error.kind(),
            ErrorKind::UserFunction | ErrorKind::Data | ErrorKind::NotFound
        );
        let is_left_out = self.policy.skips && is_of_data;
        if is_left_out {
            self.skipped.record(error);
        }
        is_left_out
    }

    /// Counts an element as left out, which stands for `marks` and failed with `error`; or, if that is not
    /// what is wanted, abandons its splits and passes the failure on.
    pub(crate) fn leave_out(&self, error: ExecError, marks: &Marks) -> Result<(), ExecError> {
        if self.passes_over(&error) {
            return Ok(());
        }
        token::abandon(marks);
        Err(error.of_element())
    }
}

/// Returns whether it may go better next time.
fn is_worth_another_attempt(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::UserFunction
        | ErrorKind::Data
        | ErrorKind::NotFound
        | ErrorKind::Resource
        | ErrorKind::Peer => true,
        ErrorKind::Caller | ErrorKind::Cancelled | ErrorKind::Internal => false,
    }
}
