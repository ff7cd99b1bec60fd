//! Deliberate defects of the kind that a change could introduce. The simulation must find each of them.
//!
//! The production code has no hooks for defects. A defect changes the inputs or outputs of the production
//! code, or the behaviour of its simulated surroundings.

/// A deliberate defect in a simulated world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimDefect {
    /// The disk stores only a part of a commit when the dispatcher dies.
    CommitTorn,
    /// A restarted dispatcher has forgotten its latest commit.
    CommitForgotten,
    /// A restarted dispatcher has forgotten its answers to numbered requests.
    AnswersForgotten,
    /// The dispatcher carries out a repeated request again.
    NumbersIgnored,
    /// A worker takes the index of a split in its job for the index in the source.
    SplitNotTranslated,
    /// The next attempt of a split begins at its second element.
    AttemptBeginsLate,
    /// The elements of a split depend on the attempt.
    AttemptChangesElements,
    /// The elements of a split do not depend on the epoch.
    SeedOfFirstEpoch,
    /// A split without elements sends nothing.
    EmptySplitUnsent,
    /// The last element of a split is not marked.
    LastNotMarked,
    /// A worker reports the end of a split after its first element.
    SplitDoneTooEarly,
    /// The end of a task arrives before elements that were sent earlier.
    EndOvertakes,
    /// A draining worker drops its unstarted splits, and does not return them.
    UnstartedNotReturned,
    /// A reader hands out elements that arrive again.
    RepeatedHandedOut,
    /// A reader hands out elements as they arrive.
    HandedOutOnArrival,
    /// A reader reports a split that it has seen in part as complete.
    PartNamedComplete,
    /// A reader drops elements of a removed task that had arrived, and reports their splits as complete.
    ReceivedDropped,
    /// A reader that reconnects requests no snapshot.
    SnapshotSkipped,
    /// A reader ends before it has read the elements that arrived.
    EndBeforeReceived,
    /// A reader hands out elements although its lease has lapsed.
    FenceIgnored,
    /// A reader never releases the elements that it kept.
    CreditsKept,
    /// The saved position counts one element too many.
    PlaceOneTooMany,
    /// The saved position counts elements that arrived and were not handed out.
    PlaceCountsWaiting,
    /// The saved position has forgotten the elements of begun splits.
    PlaceWithoutHad,
    /// The saved position of a trainer in any order has forgotten the finished splits.
    PlaceWithoutFinished,
    /// The saved position is one split too far.
    PlaceOneSplitTooFar,
    /// Joined positions begin at the latest position.
    JoinedAtLatest,
    /// Positions are joined in another order than that of the trainers.
    JoinedInOtherOrder,
    /// Joined positions have forgotten the splits that faster trainers had read to the end.
    JoinedWithoutWhole,
    /// The computed position is that of another number of trainers.
    StepsOfOtherCount,
    /// An epoch begins at the position at which trainers resumed in the epoch before.
    EpochBeginsAtOldPlace,
}

/// All deliberate defects.
pub(super) const DEFECTS: [SimDefect; 31] = [
    SimDefect::CommitTorn,
    SimDefect::CommitForgotten,
    SimDefect::AnswersForgotten,
    SimDefect::NumbersIgnored,
    SimDefect::SplitNotTranslated,
    SimDefect::AttemptBeginsLate,
    SimDefect::AttemptChangesElements,
    SimDefect::SeedOfFirstEpoch,
    SimDefect::EmptySplitUnsent,
    SimDefect::LastNotMarked,
    SimDefect::SplitDoneTooEarly,
    SimDefect::EndOvertakes,
    SimDefect::UnstartedNotReturned,
    SimDefect::RepeatedHandedOut,
    SimDefect::HandedOutOnArrival,
    SimDefect::PartNamedComplete,
    SimDefect::ReceivedDropped,
    SimDefect::SnapshotSkipped,
    SimDefect::EndBeforeReceived,
    SimDefect::FenceIgnored,
    SimDefect::CreditsKept,
    SimDefect::PlaceOneTooMany,
    SimDefect::PlaceCountsWaiting,
    SimDefect::PlaceWithoutHad,
    SimDefect::PlaceWithoutFinished,
    SimDefect::PlaceOneSplitTooFar,
    SimDefect::JoinedAtLatest,
    SimDefect::JoinedInOtherOrder,
    SimDefect::JoinedWithoutWhole,
    SimDefect::StepsOfOtherCount,
    SimDefect::EpochBeginsAtOldPlace,
];
