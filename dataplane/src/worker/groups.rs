//! The elements of a task that is read in coordination: a queue for each consumer, and the groups that all
//! consumers have.
//!
//! The module owns the places of consumers. The validity of tickets, links and time are unknown to it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use millstream_element::OpenPack;

use super::mode::TaskMode;
use super::place::Denied;
use super::queue::Queue;
use crate::proto::message::{Failure, RefusalCode};
use crate::proto::release::Release;
use crate::proto::send::Ending;

/// Returns the ending as a client is told of it. A client of an earlier version accepts no end in a
/// coordinated read, and receives a failure instead (D7.5).
pub(super) fn ending_for(mode: TaskMode, ending: Ending, accepts_coordinated_end: bool) -> Ending {
    match (mode, ending) {
        (TaskMode::Coordinated { .. }, Ending::Exhausted) if !accepts_coordinated_end => {
            Ending::Failed(end_of_data())
        }
        (_, ending) => ending,
    }
}

fn end_of_data() -> Failure {
    let message = "end of data in a coordinated read: this client's version needs an infinite dataset; update the client, \
                   or repeat the dataset";
    Failure::new("failed_precondition", message, "", "")
}

#[derive(Debug)]
pub(super) struct Groups {
    release: Release,
    places: Vec<Place>,
    consumers: BTreeMap<u64, u32>,
}

#[derive(Debug, Default)]
struct Place {
    queue: Queue,
    client: Option<u64>,
    taken: u64,
}

impl Groups {
    pub(super) fn new(consumers: NonZeroU32) -> Self {
        Self {
            release: Release::new(consumers),
            places: std::iter::repeat_with(Place::default)
                .take(consumers.get() as usize)
                .collect(),
            consumers: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, lane: usize, pack: Arc<OpenPack>) {
        if let Some(place) = self.places.get_mut(lane) {
            place.queue.push_back(pack);
        }
    }

    pub(super) fn queue(&mut self, client: u64) -> Option<&mut Queue> {
        let consumer = *self.consumers.get(&client)?;
        self.places
            .get_mut(consumer as usize)
            .map(|place| &mut place.queue)
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.places.iter().map(|place| &place.queue)
    }

    /// Checks that a client may read as a consumer (D7.2).
    pub(super) fn check_place(&self, client: u64, consumer: Option<u32>, is_new: bool) -> Result<(), Denied> {
        let bad = |message: String| Denied {
            code: RefusalCode::BadTicket,
            message,
        };
        let count = self.places.len();
        let Some(consumer) = consumer else {
            return Err(bad(format!(
                "expected a ticket for one of the task's {count} consumers, found a ticket without a consumer"
            )));
        };
        let Some(place) = self.places.get(consumer as usize) else {
            return Err(bad(format!(
                "expected a ticket for one of the task's {count} consumers, found consumer {consumer}"
            )));
        };
        let gone = |message: String| Denied {
            code: RefusalCode::CannotResume,
            message,
        };
        match place.client {
            Some(other) if other != client => Err(gone(format!(
                "consumer {consumer} is already read by another client: a restarted consumer needs a new iteration"
            ))),
            Some(_) if is_new && place.taken > 0 => Err(gone(format!(
                "consumer {consumer} was without a link for too long after {} elements and was forgotten",
                place.taken
            ))),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn take_place(&mut self, client: u64, consumer: u32) {
        if let Some(place) = self.places.get_mut(consumer as usize) {
            place.client = Some(client);
            self.consumers.insert(client, consumer);
        }
    }

    pub(super) fn took(&mut self, client: u64, elements: u64) {
        let consumer = self.consumers.get(&client);
        if let Some(place) = consumer.and_then(|consumer| self.places.get_mut(*consumer as usize)) {
            place.taken += elements;
        }
    }

    /// Records the acknowledgement of a client. Returns whether it releases a group.
    pub(super) fn acknowledge(&mut self, client: u64, received: u64) -> bool {
        let consumer = self.consumers.get(&client);
        consumer.is_some_and(|consumer| self.release.acknowledge(*consumer, received))
    }

    pub(super) fn reach(&self, client: u64) -> u64 {
        let Some(consumer) = self.consumers.get(&client) else {
            return 0;
        };
        let taken = self.places.get(*consumer as usize).map_or(0, |place| place.taken);
        let own = self.release.position(*consumer, taken);
        own.min(self.release.reach_of_others(*consumer))
    }

    pub(super) fn released(&self) -> u64 {
        self.release.groups()
    }

    pub(super) fn groups_in(&self, elements: u64) -> u64 {
        elements / u64::from(self.release.consumers())
    }
}
