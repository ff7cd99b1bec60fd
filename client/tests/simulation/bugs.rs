//! Defects on purpose, each the kind that a change could bring in, and which promise finds it.
//!
//! A production core has no hook for them: the defect is in what reaches a core or leaves it, so that what the others see
//! is what they would see of a core with that defect.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// The dispatcher answers before what the answer rests on is stored.
    AnswerBeforeCommit,
    /// A commit is stored in part.
    CommitTorn,
    /// The answers to numbered requests are forgotten with the process.
    AnswersForgotten,
    /// A repeated request is carried out again.
    NumbersIgnored,
    /// A dispatcher that has forgotten everything says that it has not.
    BootForgotten,
    /// A removal is sorted out when the first client has answered.
    RemovalNotAwaited,
    /// Splits that are leased again keep their attempt.
    AttemptNotRaised,
    /// A worker does not give back what it has not begun.
    LeasesNotReturned,
    /// A worker says that a task has finished before what it gave back was heard of.
    FinishBeforeReturn,
    /// A worker says that everything was delivered before its readers have it.
    SettledTooEarly,
    /// A worker does not say that a task failed.
    FailureNotTold,
    /// A worker whose lease has lapsed goes on with its tasks.
    LapsedTasksKept,
    /// A reader goes on reading a task that was removed.
    RemovedTaskRead,
    /// A reader does not say what it has seen of a removed task.
    SeenNotTold,
    /// A reader is not told which splits are lost.
    LossNotTold,
    /// A reader that comes back asks for no snapshot.
    SnapshotSkipped,
    /// Credits that a task gave back are not taken back.
    YieldLost,
    /// A reader acknowledges what has not arrived.
    AcknowledgedTooEarly,
    /// A reader that comes back says that it has nothing.
    ResumeForgotten,
}

/// A row of the table: the defect, the promise that finds it as its words begin, and how many seeds it may take.
pub(super) struct Row {
    pub(super) bug: Bug,
    /// What the broken promise says.
    pub(super) found_by: &'static [&'static str],
    pub(super) within: u64,
}

/// All of them.
pub(super) const TABLE: &[Row] = &[
    Row {
        bug: Bug::AnswerBeforeCommit,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::CommitTorn,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::AnswersForgotten,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::NumbersIgnored,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::BootForgotten,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::RemovalNotAwaited,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::AttemptNotRaised,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::LeasesNotReturned,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::FinishBeforeReturn,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::SettledTooEarly,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::FailureNotTold,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::LapsedTasksKept,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::RemovedTaskRead,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::SeenNotTold,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::LossNotTold,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::SnapshotSkipped,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::YieldLost,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::AcknowledgedTooEarly,
        found_by: &[],
        within: 200,
    },
    Row {
        bug: Bug::ResumeForgotten,
        found_by: &[],
        within: 200,
    },
];
