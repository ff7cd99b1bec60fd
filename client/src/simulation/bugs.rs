//! Deliberate defects of the kind that a change could introduce, and the broken promises that reveal each
//! defect.
//!
//! The production cores have no hooks for defects. A defect changes the inputs or outputs of a core, so that
//! the other processes see a core with that defect.

/// A deliberate defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// The dispatcher sends an answer before the records that the answer depends on are stored.
    AnswerBeforeCommit,
    /// The disk stores only a part of a commit.
    CommitTorn,
    /// A restarted dispatcher has forgotten its answers to numbered requests.
    AnswersForgotten,
    /// The dispatcher carries out a repeated request again.
    NumbersIgnored,
    /// A dispatcher that has lost its state still uses its earlier boot number.
    BootForgotten,
    /// The dispatcher completes a removal after the first client's answer.
    RemovalNotAwaited,
    /// Splits that are leased again keep their attempt number.
    AttemptNotRaised,
    /// A worker reports that everything was delivered before its readers have received it.
    SettledTooEarly,
    /// A worker that drains does not report that its tasks were cut short.
    CutShortNotSaid,
    /// A worker whose lease has lapsed continues its tasks.
    LapsedTasksKept,
    /// A reader continues to read a task that was removed.
    RemovedTaskRead,
    /// A reader does not report the splits that it has seen of a removed task.
    SeenNotTold,
    /// A worker does not report the splits that a dead reader had received.
    MissedNotTold,
    /// A reader does not receive the list of lost splits.
    LossNotTold,
    /// A reader that reconnects does not request a snapshot.
    SnapshotSkipped,
    /// A reader that reconnects to a worker claims to have no elements.
    ResumeForgotten,
    /// A worker reports the end of a split when it begins the split.
    SplitDoneTooEarly,
    /// A worker still uses the credits of a broken link.
    CreditsKept,
}

/// A row of the table: a defect, and texts of the broken promises that reveal the defect.
pub(super) struct Row {
    pub(super) bug: Bug,
    /// Parts of the assertion messages that may reveal the defect.
    pub(super) found_by: &'static [&'static str],
}

/// All deliberate defects.
pub(super) const TABLE: &[Row] = &[
    // After a lease is forgotten, its elements arrive twice or never.
    row(
        Bug::AnswerBeforeCommit,
        &["comes from task", "are missing", "has two holders", "never ends"],
    ),
    // The loaded records contradict each other.
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
    // Splits whose answer was lost are leased to a task that never receives the answer.
    row(Bug::AnswersForgotten, &["are missing"]),
    row(Bug::NumbersIgnored, &["are missing"]),
    // Records of two lives of the dispatcher's state get the same number and are confused.
    row(
        Bug::BootForgotten,
        &["comes from task", "never ends", "has two holders"],
    ),
    // Splits that another reader has seen are read again.
    row(Bug::RemovalNotAwaited, &["comes from task"]),
    row(Bug::SeenNotTold, &["comes from task"]),
    row(Bug::RemovedTaskRead, &["comes from task", "never ends"]),
    row(Bug::AttemptNotRaised, &["attempt 0 after 0"]),
    // The dispatcher counts splits as done that a task returns too late, or whose elements are still in
    // flight.
    row(Bug::SettledTooEarly, &["are missing"]),
    row(
        Bug::CutShortNotSaid,
        &["are missing", "never ends", "the books of"],
    ),
    row(Bug::LapsedTasksKept, &["goes on with tasks behind its lease"]),
    row(Bug::LossNotTold, &["was told of other losses"]),
    // Elements that waited in a dead reader reach no other reader.
    row(Bug::MissedNotTold, &["are missing"]),
    // A reader waits for a push that was sent while it was disconnected.
    row(Bug::SnapshotSkipped, &["never ends"]),
    row(Bug::ResumeForgotten, &["cannot resume"]),
    // Elements of a split that was reported as complete are lost with the worker.
    row(Bug::SplitDoneTooEarly, &["are missing"]),
    row(Bug::CreditsKept, &["expected elements below number"]),
];

const fn row(bug: Bug, found_by: &'static [&'static str]) -> Row {
    Row { bug, found_by }
}
