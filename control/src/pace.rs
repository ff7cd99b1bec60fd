//! The pace of tasks and clients, which heartbeats report.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::{ClientId, TaskId};
use crate::links::{ClientLinks, LinkCounts};
use crate::load::WorkerLoad;
use crate::stage::StagePace;

/// Maximum bytes of a bottleneck's name. A longer name is cut off.
pub const BOTTLENECK_BYTES_MAX: usize = 64;

/// The age from which on a report says nothing about the present: its process hangs, or is gone.
pub(crate) const STALE: Duration = Duration::from_secs(5);

/// The progress of a task or a client. The time for an element excludes waiting for the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Pace {
    /// The number of elements that the task has produced, or that the client has handed to its user, since
    /// its start.
    #[n(0)]
    pub elements: u64,
    /// The time for an element, in nanoseconds: the time in which a task produces it, or in which a user
    /// returns for the next element. `None` until it is known.
    #[n(1)]
    pub element_ns: Option<u64>,
    /// The time for which a client's user has waited for elements since the start, in milliseconds. 0 for
    /// tasks.
    #[cbor(n(2), default)]
    pub waited_ms: u64,
    /// The time for which a task has computed since its start, in milliseconds. An element in progress
    /// counts. 0 for clients, and for tasks of workers that do not measure it.
    #[cbor(n(3), default)]
    pub busy_ms: u64,
}

impl Pace {
    /// Returns the time for an element, if it is known and not zero.
    pub fn element_time(&self) -> Option<Duration> {
        self.element_ns.filter(|ns| *ns > 0).map(Duration::from_nanos)
    }
}

/// The measurements that a process reports with a heartbeat about its own tasks and clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// The paces of tasks, reported by a worker.
    pub tasks: Vec<(TaskId, Pace)>,
    /// The paces of clients, reported by a trainer.
    pub clients: Vec<(ClientId, Pace)>,
    /// The kinds of the worker's links with readers, reported by a worker.
    pub links: Option<LinkCounts>,
    /// The links of clients, reported by a trainer.
    pub client_links: Vec<(ClientId, ClientLinks)>,
    /// The bottlenecks of tasks, reported by a worker, in at most [`BOTTLENECK_BYTES_MAX`] bytes each.
    pub bottlenecks: Vec<(TaskId, String)>,
    /// The recent work of the stages of tasks, reported by a worker.
    pub stages: Vec<(TaskId, Vec<StagePace>)>,
    /// The load of the worker, reported by the worker.
    pub load: Option<WorkerLoad>,
}

impl Measures {
    /// Returns whether the report is empty.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.clients.is_empty()
            && self.links.is_none()
            && self.client_links.is_empty()
            && self.bottlenecks.is_empty()
            && self.stages.is_empty()
            && self.load.is_none()
    }
}
