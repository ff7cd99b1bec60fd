//! How fast something goes: what tasks and clients say of themselves with each sign of life.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::{ClientId, TaskId};
use crate::links::LinkCounts;

/// Bytes of a bottleneck's name; of a longer one the beginning is told.
pub const BOTTLENECK_BYTES_MAX: usize = 64;

/// How far a task or a client has come, and how fast it would go if it never had to wait for the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Pace {
    /// Elements that a task has produced, or that a client has handed to its user, since it began.
    #[n(0)]
    pub elements: u64,
    /// What an element takes, in nanoseconds: a task to produce one, a user to come back for the next. `None` as long as nobody
    /// knows.
    #[n(1)]
    pub element_ns: Option<u64>,
}

impl Pace {
    /// What an element takes, if it is known and takes any time.
    pub fn element_time(&self) -> Option<Duration> {
        self.element_ns.filter(|ns| *ns > 0).map(Duration::from_nanos)
    }
}

/// What a process says with a sign of life of what is its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// How fast tasks of a worker go.
    pub tasks: Vec<(TaskId, Pace)>,
    /// How fast clients of a trainer go.
    pub clients: Vec<(ClientId, Pace)>,
    /// How readers are linked with it, if it is a worker and says so.
    pub links: Option<LinkCounts>,
    /// What holds tasks of a worker up, in words of up to [`BOTTLENECK_BYTES_MAX`].
    pub bottlenecks: Vec<(TaskId, String)>,
}

impl Measures {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.clients.is_empty()
            && self.links.is_none()
            && self.bottlenecks.is_empty()
    }
}
