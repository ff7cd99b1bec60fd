//! The pace of tasks and clients, which heartbeats report.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::{ClientId, TaskId};
use crate::links::LinkCounts;

/// Bytes of a bottleneck's name; of a longer one the beginning is told.
pub const BOTTLENECK_BYTES_MAX: usize = 64;

/// The progress of a task or a client, and the time that it takes for an element without waiting for the
/// other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Pace {
    /// Elements that a task has produced, or that a client has handed to its user, since it began.
    #[n(0)]
    pub elements: u64,
    /// The time for an element, in nanoseconds: of a task to produce it, or of a user to come back for the
    /// next one. `None` until it is known.
    #[n(1)]
    pub element_ns: Option<u64>,
}

impl Pace {
    /// Returns the time for an element, if it is known and not zero.
    pub fn element_time(&self) -> Option<Duration> {
        self.element_ns.filter(|ns| *ns > 0).map(Duration::from_nanos)
    }
}

/// The figures that a process reports with a heartbeat about its own tasks and clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// The pace of tasks, from a worker.
    pub tasks: Vec<(TaskId, Pace)>,
    /// The pace of clients, from a trainer.
    pub clients: Vec<(ClientId, Pace)>,
    /// The kinds of its links with readers, from a worker.
    pub links: Option<LinkCounts>,
    /// The bottleneck of tasks, from a worker, in at most [`BOTTLENECK_BYTES_MAX`] bytes.
    pub bottlenecks: Vec<(TaskId, String)>,
}

impl Measures {
    /// Returns whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.clients.is_empty()
            && self.links.is_none()
            && self.bottlenecks.is_empty()
    }
}
