//! How a task's elements are divided among its clients: the one place that tells the kinds of tasks apart.
//!
//! Owns who is given which elements and what follows from acknowledgements. Asked once a pack, under the lock of the task's
//! buffer. Refuses to know bounds, waits and ends.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use millstream_element::OpenPack;

use super::groups::Groups;
use super::owed::Owed;
use super::task::Denied;
use crate::proto::message::RefusalCode;

/// How a task's elements are divided among its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskMode {
    /// Each element goes to one client, first come, first served.
    #[default]
    FirstCome,
    /// The task is read in coordination: element `k` goes to consumer `k mod consumers` (D7.1).
    Coordinated {
        /// How many consumers there are.
        consumers: NonZeroU32,
    },
}

impl TaskMode {
    /// Packs that are filled side by side, in turn with one element each.
    pub(super) fn lanes(self) -> usize {
        match self {
            Self::FirstCome => 1,
            Self::Coordinated { consumers } => consumers.get() as usize,
        }
    }
}

/// Packs with elements that wait, in order. Only the last one may still be written to.
pub(super) type Queue = VecDeque<Arc<OpenPack>>;

/// The elements that wait, as their clients are to have them.
#[derive(Debug)]
pub(super) enum Division {
    FirstCome { queue: Queue, owed: Owed },
    Coordinated(Groups),
}

impl Division {
    pub(super) fn new(mode: TaskMode) -> Self {
        match mode {
            TaskMode::FirstCome => Self::FirstCome {
                queue: Queue::new(),
                owed: Owed::default(),
            },
            TaskMode::Coordinated { consumers } => Self::Coordinated(Groups::new(consumers)),
        }
    }

    /// Adds a pack to the lane whose earlier packs are complete.
    pub(super) fn push(&mut self, lane: usize, pack: Arc<OpenPack>) {
        match self {
            Self::FirstCome { queue, .. } => queue.push_back(pack),
            Self::Coordinated(groups) => groups.push(lane, pack),
        }
    }

    /// What waits for a client; none where it has no place.
    pub(super) fn queue(&mut self, client: u64) -> Option<&mut Queue> {
        match self {
            Self::FirstCome { queue, .. } => Some(queue),
            Self::Coordinated(groups) => groups.queue(client),
        }
    }

    /// Whether everything was taken.
    pub(super) fn is_drained(&self) -> bool {
        let is_taken = |queue: &Queue| queue.iter().all(|pack| pack.next_len().is_none());
        match self {
            Self::FirstCome { queue, .. } => is_taken(queue),
            Self::Coordinated(groups) => groups.queues().all(is_taken),
        }
    }

    /// Says why a client cannot have the place that its ticket names. `is_new` says that nothing is kept for it.
    pub(super) fn check_place(&self, client: u64, consumer: Option<u32>, is_new: bool) -> Result<(), Denied> {
        match (self, consumer) {
            (Self::FirstCome { .. }, None) => Ok(()),
            (Self::FirstCome { .. }, Some(consumer)) => Err(Denied {
                code: RefusalCode::BadTicket,
                message: format!("the ticket is for consumer {consumer} of a task that has none"),
            }),
            (Self::Coordinated(groups), consumer) => groups.check_place(client, consumer, is_new),
        }
    }

    /// Gives a client the place that was checked before.
    pub(super) fn take_place(&mut self, client: u64, consumer: Option<u32>) {
        match (self, consumer) {
            (Self::Coordinated(groups), Some(consumer)) => groups.take_place(client, consumer),
            (Self::FirstCome { .. }, _) | (Self::Coordinated(_), None) => {}
        }
    }

    /// A client took `elements`; `before` had been taken by all.
    pub(super) fn took(&mut self, client: u64, before: u64, elements: u64) {
        match self {
            Self::FirstCome { owed, .. } => owed.take(client, before..before + elements),
            Self::Coordinated(groups) => groups.took(client, elements),
        }
    }

    /// Books that a client has the first `received` elements of its subscription. True if that concerns others: of the
    /// splits that ended the first does so at `mark`.
    pub(super) fn acknowledge(&mut self, client: u64, received: u64, mark: Option<u64>) -> bool {
        match self {
            Self::FirstCome { owed, .. } => {
                let passed = owed.acknowledge(client, received);
                // Others may now be told of a split that this client owed elements of.
                !passed.is_empty() && mark.is_some_and(|mark| passed.start < mark)
            }
            Self::Coordinated(groups) => groups.acknowledge(client, received),
        }
    }

    /// Forgets a client: what it did not acknowledge never will be. In coordinated reads the others wait for it all the
    /// same: its place is nobody else's.
    pub(super) fn forget(&mut self, client: u64) {
        match self {
            Self::FirstCome { owed, .. } => owed.forget(client),
            Self::Coordinated(_) => {}
        }
    }

    /// One behind the elements of which `client` was sent its own and all others have acknowledged theirs; `taken` were
    /// taken by all.
    pub(super) fn reach(&self, client: u64, taken: u64) -> u64 {
        match self {
            Self::FirstCome { owed, .. } => taken.min(owed.first_of_others(client)),
            Self::Coordinated(groups) => groups.reach(client),
        }
    }

    /// Groups that every consumer has; none where there are no groups.
    pub(super) fn released(&self) -> u64 {
        match self {
            Self::FirstCome { .. } => 0,
            Self::Coordinated(groups) => groups.released(),
        }
    }

    /// Groups among the first `elements` that all consumers must have before they hear how the task ended (D7.5).
    pub(super) fn groups_in(&self, elements: u64) -> u64 {
        match self {
            Self::FirstCome { .. } => 0,
            Self::Coordinated(groups) => groups.groups_in(elements),
        }
    }
}
