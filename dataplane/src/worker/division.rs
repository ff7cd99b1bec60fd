//! Divides a task's elements among its clients. No other module distinguishes the kinds of tasks.
//!
//! The module decides which client gets which elements, and what follows from acknowledgements. Callers use
//! the module once for each pack, under the lock of the task's buffer. Limits, waits and endings are unknown
//! to it.

use std::sync::Arc;
use std::time::Instant;

use millstream_element::OpenPack;

use super::cache::{Cache, CacheShare};
use super::groups::Groups;
use super::mode::TaskMode;
use super::owed::Owed;
use super::pack_limits::{PACK_BYTES, PackLimits};
use super::place::{Denied, Role};
use super::queue::{Found, Queue, ready_in, take_first};
use super::turns::{Turn, Turns};
use super::window::Window;
use crate::proto::message::RefusalCode;

/// The waiting elements of a task, arranged for its clients.
#[derive(Debug)]
pub(super) enum Division {
    FirstCome {
        queue: Queue,
        owed: Owed,
        turns: Turns,
        /// The number of elements taken from the packs in the queue.
        taken: u64,
    },
    Coordinated(Groups),
    Cached {
        window: Window,
        share: CacheShare,
    },
}

impl Division {
    /// Makes the division of a mode. `cache` limits what all tasks of the worker keep.
    pub(super) fn new(mode: TaskMode, cache: &Arc<Cache>) -> Self {
        match mode {
            TaskMode::FirstCome => Self::FirstCome {
                queue: Queue::new(),
                owed: Owed::default(),
                turns: Turns::default(),
                taken: 0,
            },
            TaskMode::Coordinated { consumers } => Self::Coordinated(Groups::new(consumers)),
            TaskMode::Cached => Self::Cached {
                window: Window::default(),
                share: CacheShare::new(cache),
            },
        }
    }

    /// Adds a pack to a lane whose earlier packs are complete.
    pub(super) fn push(&mut self, lane: usize, pack: Arc<OpenPack>) {
        match self {
            Self::FirstCome { queue, .. } => queue.push_back(pack),
            Self::Coordinated(groups) => groups.push(lane, pack),
            Self::Cached { window, .. } => window.push(pack),
        }
    }

    /// Returns how many elements a client with `elements` credits may take now, considering other clients
    /// that wait (D4.7). Reads the clock only if other clients wait.
    pub(super) fn turn(&mut self, client: u64, elements: u64, now: impl FnOnce() -> Instant) -> Turn {
        match self {
            Self::FirstCome {
                queue, turns, taken, ..
            } if elements > 0 && turns.is_contended(client) => match ready_in(queue, *taken) {
                0 => Turn::Take(elements),
                ready => turns.turn(client, elements, ready, now()),
            },
            Self::FirstCome { .. } | Self::Coordinated(_) | Self::Cached { .. } => Turn::Take(elements),
        }
    }

    /// Records that a client wants elements, but none are available for it now.
    pub(super) fn wait(&mut self, client: u64) {
        if let Self::FirstCome { turns, .. } = self {
            turns.wait(client);
        }
    }

    /// Returns whether elements remain for which a client other than `client` waits.
    pub(super) fn is_left_to_others(&self, client: u64) -> bool {
        match self {
            Self::FirstCome {
                queue, turns, taken, ..
            } => turns.is_contended(client) && ready_in(queue, *taken) > 0,
            Self::Coordinated(_) | Self::Cached { .. } => false,
        }
    }

    /// Returns a client's rank. Clients with lower ranks are served first.
    pub(super) fn rank(&self, client: u64) -> (bool, u64) {
        match self {
            Self::FirstCome { turns, .. } => turns.rank(client),
            Self::Coordinated(_) | Self::Cached { .. } => (false, 0),
        }
    }

    /// Takes up to `elements` that wait for a client, in order, each of at most `element_bytes`, all from one
    /// slot. `has_ended` is true if nothing more will be written.
    pub(super) fn take(&mut self, client: u64, elements: u64, element_bytes: u64, has_ended: bool) -> Found {
        match self {
            Self::FirstCome { queue, taken, .. } => {
                take_first(queue, taken, elements, element_bytes, has_ended)
            }
            Self::Coordinated(groups) => groups.queue(client).map_or(Found::NoPlace, |queue| {
                take_first(queue, &mut 0, elements, element_bytes, has_ended)
            }),
            Self::Cached { window, share } => {
                let found = window.take(client, elements, element_bytes, share.capacity_bytes());
                if let Found::Elements {
                    pack, fresh_elements, ..
                } = &found
                {
                    share.note(pack.len() as u64, *fresh_elements, window.kept_bytes());
                }
                found
            }
        }
    }

    /// Returns whether all elements were taken.
    pub(super) fn is_drained(&self) -> bool {
        let is_taken = |queue: &Queue| queue.iter().all(|pack| pack.next_len().is_none());
        match self {
            Self::FirstCome { queue, .. } => is_taken(queue),
            Self::Coordinated(groups) => groups.queues().all(is_taken),
            Self::Cached { window, .. } => window.is_at_end(),
        }
    }

    /// Checks that a client can have the place that it asks for. `is_new` is true if the client has no
    /// subscription yet.
    pub(super) fn check_place(&self, client: u64, role: Role<'_>, is_new: bool) -> Result<(), Denied> {
        match (self, role.consumer) {
            (Self::Coordinated(groups), consumer) => groups.check_place(client, consumer, is_new)?,
            (Self::FirstCome { .. } | Self::Cached { .. }, None) => {}
            (Self::FirstCome { .. } | Self::Cached { .. }, Some(consumer)) => {
                return Err(Denied {
                    code: RefusalCode::BadTicket,
                    message: format!(
                        "the ticket names consumer {consumer}, but the task is not read in coordination"
                    ),
                });
            }
        }
        // D8.1
        let wrong = |message: String| Denied {
            code: RefusalCode::WrongReader,
            message,
        };
        match (self, role.trainer) {
            (Self::Cached { .. }, Some(trainer)) => Window::check_trainer(trainer).map_err(wrong),
            (Self::Cached { .. }, None) => Err(wrong(
                "the task is read through the cross-trainer cache: name the trainer (trainer_id)".to_owned(),
            )),
            (Self::FirstCome { .. } | Self::Coordinated(_), None) => Ok(()),
            (Self::FirstCome { .. } | Self::Coordinated(_), Some(trainer)) => Err(wrong(format!(
                "the task is not read through the cross-trainer cache: subscribe without the trainer_id {trainer:?}"
            ))),
        }
    }

    /// Gives a client the place that [`Self::check_place`] allowed.
    pub(super) fn take_place(&mut self, client: u64, role: Role<'_>) {
        match (self, role) {
            (
                Self::Coordinated(groups),
                Role {
                    consumer: Some(consumer),
                    ..
                },
            ) => groups.take_place(client, consumer),
            (
                Self::Cached { window, .. },
                Role {
                    trainer: Some(trainer),
                    ..
                },
            ) => window.admit(client, trainer),
            (Self::FirstCome { turns, .. }, _) => turns.add(client),
            (Self::Coordinated(_) | Self::Cached { .. }, _) => {}
        }
    }

    /// Records that a client took `elements`, after all clients together had taken `before` elements.
    pub(super) fn took(&mut self, client: u64, before: u64, elements: u64) {
        match self {
            Self::FirstCome { owed, turns, .. } => {
                owed.take(client, before..before + elements);
                turns.took(client, elements);
            }
            Self::Coordinated(groups) => groups.took(client, elements),
            Self::Cached { .. } => {}
        }
    }

    /// Records that a client has the first `received` elements of its subscription. Returns whether other
    /// clients must be notified. `mark` is the position of the first ended split.
    pub(super) fn acknowledge(&mut self, client: u64, received: u64, mark: Option<u64>) -> bool {
        match self {
            Self::FirstCome { owed, .. } => {
                let passed = owed.acknowledge(client, received);
                // Other clients may now be told the end of a split of which this client owed elements.
                !passed.is_empty() && mark.is_some_and(|mark| passed.start < mark)
            }
            Self::Coordinated(groups) => groups.acknowledge(client, received),
            Self::Cached { .. } => false,
        }
    }

    /// Forgets a client and the elements that it did not acknowledge. In coordinated reads, the other
    /// consumers still wait for the client, because its place is kept.
    pub(super) fn forget(&mut self, client: u64) {
        match self {
            Self::FirstCome { owed, turns, .. } => {
                owed.forget(client);
                turns.remove(client);
            }
            Self::Coordinated(_) => {}
            Self::Cached { window, .. } => window.forget(client),
        }
    }

    /// Returns the position up to which `client` was sent its elements and all other clients have
    /// acknowledged theirs. All clients together have taken `taken` elements.
    pub(super) fn reach(&self, client: u64, taken: u64) -> u64 {
        match self {
            Self::FirstCome { owed, .. } => taken.min(owed.first_of_others(client)),
            Self::Coordinated(groups) => groups.reach(client),
            Self::Cached { .. } => taken,
        }
    }

    /// Returns the number of groups that every consumer has, or 0 without groups.
    pub(super) fn released(&self) -> u64 {
        match self {
            Self::FirstCome { .. } | Self::Cached { .. } => 0,
            Self::Coordinated(groups) => groups.released(),
        }
    }

    /// Returns the number of complete groups in the first `elements`. All consumers must have these groups
    /// before they are told the ending (D7.5).
    pub(super) fn groups_in(&self, elements: u64) -> u64 {
        match self {
            Self::FirstCome { .. } | Self::Cached { .. } => 0,
            Self::Coordinated(groups) => groups.groups_in(elements),
        }
    }

    /// Returns the limits of packs. With a cache, a pack is a small part of the cache, because memory is
    /// freed by whole packs.
    pub(super) fn pack_limits(&self, is_local: bool) -> PackLimits {
        match self {
            Self::FirstCome { .. } | Self::Coordinated(_) => PackLimits {
                pack_bytes: PACK_BYTES,
                may_be_large: is_local && matches!(self, Self::FirstCome { .. }),
                cache_bytes: None,
            },
            Self::Cached { share, .. } => {
                let cache_bytes = share.capacity_bytes();
                let part = usize::try_from(cache_bytes / 8).unwrap_or(usize::MAX);
                PackLimits {
                    pack_bytes: part.min(PACK_BYTES),
                    may_be_large: false,
                    cache_bytes: Some(cache_bytes),
                }
            }
        }
    }

    /// Stops the division: drops the elements that are kept for late trainers.
    pub(super) fn stop(&mut self) {
        match self {
            Self::FirstCome { .. } | Self::Coordinated(_) => {}
            Self::Cached { window, share } => {
                window.clear();
                share.note(0, 0, window.kept_bytes());
            }
        }
    }
}
