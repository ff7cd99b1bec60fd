//! Defects on purpose, each the kind that a change could bring in, and which promise finds it.
//!
//! A production core has no hook for them: a defect changes what reaches a core or leaves it, so the other
//! processes see a core with that defect.

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
    /// A worker says that everything was delivered before its readers have it.
    SettledTooEarly,
    /// A worker that is drained does not say that its tasks were cut short.
    CutShortNotSaid,
    /// A worker whose lease has lapsed goes on with its tasks.
    LapsedTasksKept,
    /// A reader goes on reading a task that was removed.
    RemovedTaskRead,
    /// A reader does not say what it has seen of a removed task.
    SeenNotTold,
    /// A worker does not say what a reader that is gone took with it.
    MissedNotTold,
    /// A reader is not told which splits are lost.
    LossNotTold,
    /// A reader that comes back asks for no snapshot.
    SnapshotSkipped,
    /// A reader that comes back says that it has nothing.
    ResumeForgotten,
    /// A worker tells of the end of a split when it begins it.
    SplitDoneTooEarly,
    /// A worker still counts on the credits of a link that broke.
    CreditsKept,
}

/// A row of the table: the defect, and in its words the promise that finds it.
pub(super) struct Row {
    pub(super) bug: Bug,
    /// Texts of the broken promises that may reveal the defect.
    pub(super) found_by: &'static [&'static str],
}

/// All of them.
pub(super) const TABLE: &[Row] = &[
    // Elements of a lease that nobody knows of any more come again, or never.
    row(
        Bug::AnswerBeforeCommit,
        &["comes from task", "are missing", "has two holders", "never ends"],
    ),
    // The books of what is loaded contradict each other.
    row(
        Bug::CommitTorn,
        &[
            "has no job",
            "outlives its iteration",
            "reads nothing",
            "records are left",
            "and its plan",
        ],
    ),
    // Splits whose answer was lost are leased to a task that never hears of them.
    row(Bug::AnswersForgotten, &["are missing"]),
    row(Bug::NumbersIgnored, &["are missing"]),
    // What two lives of the state give the same name is mixed up.
    row(
        Bug::BootForgotten,
        &["comes from task", "never ends", "has two holders"],
    ),
    // What another reader has seen is read again.
    row(Bug::RemovalNotAwaited, &["comes from task"]),
    row(Bug::SeenNotTold, &["comes from task"]),
    row(Bug::RemovedTaskRead, &["comes from task", "never ends"]),
    row(Bug::AttemptNotRaised, &["attempt 0 after 0"]),
    // The dispatcher takes for done what a task gives back too late, or what is still on its way.
    row(Bug::SettledTooEarly, &["are missing"]),
    row(
        Bug::CutShortNotSaid,
        &["are missing", "never ends", "the books of"],
    ),
    row(Bug::LapsedTasksKept, &["goes on with tasks behind its lease"]),
    row(Bug::LossNotTold, &["was told of other losses"]),
    // What waited in a reader that died reaches nobody.
    row(Bug::MissedNotTold, &["are missing"]),
    // A reader waits for what it was told while it was away.
    row(Bug::SnapshotSkipped, &["never ends"]),
    row(Bug::ResumeForgotten, &["cannot resume"]),
    // What was reported as whole is gone with the worker.
    row(Bug::SplitDoneTooEarly, &["are missing"]),
    row(Bug::CreditsKept, &["although credits reach to"]),
];

const fn row(bug: Bug, found_by: &'static [&'static str]) -> Row {
    Row { bug, found_by }
}
