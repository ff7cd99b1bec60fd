//! The treatment of an element that fails: a retry, its omission, or the end of the pipeline.

use std::time::Duration;

use super::cancel::Cancel;
use super::error::{ErrorKind, ExecError};
use super::quarantine::OperationQuarantine;
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
    /// The elements that the operation leaves out, if failed elements may be quarantined.
    quarantine: Option<OperationQuarantine>,
    skipped: Skipped,
    cancel: Cancel,
}

impl Faults {
    pub(crate) fn new(policy: ErrorPolicy, skipped: &Skipped, cancel: &Cancel) -> Faults {
        Faults {
            policy,
            quarantine: None,
            skipped: skipped.clone(),
            cancel: cancel.clone(),
        }
    }

    /// Returns a treatment that also leaves out the elements of `quarantine`.
    pub(super) fn quarantining(self, quarantine: Option<OperationQuarantine>) -> Faults {
        Faults { quarantine, ..self }
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
        faults.quarantine = None;
        faults
    }

    /// Returns whether failed calls are retried.
    pub(crate) fn retries(&self) -> bool {
        self.policy.retries > 0
    }

    /// Returns whether the operation may leave elements out. The operation then defers no computation that
    /// can fail until the element is written: the element could no longer be left out.
    pub(crate) fn may_leave_out(&self) -> bool {
        self.policy.skips || self.quarantine.is_some()
    }

    /// Begins the next pass over the operation's input, whose elements have other ids.
    pub(crate) fn next_pass(&mut self) {
        if let Some(quarantine) = &mut self.quarantine {
            quarantine.next_pass();
        }
    }

    /// Returns whether any element of the split is quarantined.
    #[inline]
    pub(crate) fn may_exclude(&self) -> bool {
        let quarantine = self.quarantine.as_ref();
        quarantine.is_some_and(|quarantine| !quarantine.is_empty())
    }

    /// Returns whether the element at `position` is quarantined, so that the operation `op` must not compute
    /// it. Counts the element.
    #[inline]
    pub(crate) fn excludes(&self, op: impl FnOnce() -> String, position: u64) -> bool {
        let is_excluded = self.is_quarantined(position);
        if is_excluded {
            self.skipped.exclude(&op());
        }
        is_excluded
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

    /// Counts an element that failed with `error` as left out, if the policy permits it or the element is
    /// quarantined. The data or a user's function must be to blame. Returns whether it is left out.
    pub(crate) fn passes_over(&self, error: &ExecError) -> bool {
        self.passes_over_at(error, error.failure().position)
    }

    fn passes_over_at(&self, error: &ExecError, position: Option<u64>) -> bool {
        // An operation of a body has decided about its own elements.
        let own_position = position.filter(|_| error.failure().element.is_none());
        let is_quarantined = own_position.is_some_and(|position| self.is_quarantined(position));
        let is_left_out = (self.policy.skips || is_quarantined) && error.kind().is_of_element();
        if is_left_out {
            self.skipped.record(error);
        }
        is_left_out
    }

    /// Counts an element that failed with `error` as left out, if the policy permits it or the element is
    /// quarantined. Otherwise abandons the splits of the element's `marks` and returns the failure.
    pub(crate) fn leave_out(&self, error: ExecError, marks: &Marks) -> Result<(), ExecError> {
        let position = error.failure().position;
        self.leave_out_at(error, position, marks)
    }

    /// Leaves out the element at `position` as [`Faults::leave_out`] does. The position stays out of the
    /// error's text.
    pub(crate) fn leave_out_at(
        &self,
        error: ExecError,
        position: Option<u64>,
        marks: &Marks,
    ) -> Result<(), ExecError> {
        if self.passes_over_at(&error, position) {
            return Ok(());
        }
        token::abandon(marks);
        let error = match position {
            Some(position) => self.identified(error, position),
            None => error,
        };
        Err(error.of_element())
    }

    /// Adds the id of the element at `position`, by which a later job can leave the element out.
    pub(crate) fn identified(&self, error: ExecError, position: u64) -> ExecError {
        match &self.quarantine {
            Some(quarantine) if error.kind().is_of_element() => error.of(quarantine.failed(position)),
            Some(_) | None => error,
        }
    }

    #[inline]
    fn is_quarantined(&self, position: u64) -> bool {
        let quarantine = self.quarantine.as_ref();
        quarantine.is_some_and(|quarantine| quarantine.contains(position))
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
