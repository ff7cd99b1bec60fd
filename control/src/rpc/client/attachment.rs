//! The snapshots after gaps in a client's pushes. Refuses to know what a push says.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::dispatcher::ClientPush;

/// Whether a client has received a snapshot since its pushes last had a gap.
///
/// After a gap, a push may concern a task of which the client was never told. An end would look like
/// success if the failure before it was lost. Such pushes are dropped, because the next snapshot has their
/// contents, or the dispatcher repeats them after the snapshot.
#[derive(Debug, Default)]
pub struct Attachment {
    is_attached: bool,
}

impl Attachment {
    /// Notes that pushes may have been lost.
    pub fn note_gap(&mut self) {
        self.is_attached = false;
    }

    /// Returns whether the client handles this push now. If not, a later push has its contents.
    pub fn admits(&mut self, push: &ClientPush) -> bool {
        match push {
            ClientPush::Snapshot(_) => {
                self.is_attached = true;
                true
            }
            ClientPush::TaskAdded(_)
            | ClientPush::TaskRemoved(_)
            | ClientPush::TaskFailed { .. }
            | ClientPush::TaskEnded { .. }
            | ClientPush::TaskScheduled { .. }
            | ClientPush::TaskConcluded(_)
            | ClientPush::SplitsLost { .. }
            | ClientPush::IterationFinished { .. }
            | ClientPush::WorkersLost { .. }
            | ClientPush::ConsumersLost { .. } => self.is_attached,
            // The client will receive no further push.
            ClientPush::Lapsed | ClientPush::ShutDown { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::Snapshot;
    use crate::id::TaskId;

    /// Tests the end of an iteration that follows a lost failure (C4.1).
    #[test]
    fn a_snapshot_comes_first_after_a_gap() {
        let ended = ClientPush::TaskEnded { task: TaskId(3) };
        let finished = ClientPush::IterationFinished { splits_lost: 0 };
        let mut attachment = Attachment::default();
        for _ in 0..2 {
            assert!(!attachment.admits(&ended));
            assert!(!attachment.admits(&finished));
            assert!(attachment.admits(&ClientPush::Lapsed));
            assert!(attachment.admits(&ClientPush::Snapshot(Snapshot::default())));
            assert!(attachment.admits(&ended));
            assert!(attachment.admits(&finished));
            attachment.note_gap();
        }
    }
}
