//! The interface through which a reader makes links to workers. Knows no transport.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use millstream_dataplane::transport::{Admission, ClientLink, LinkLost};

use crate::place::WorkerPlace;

/// A link, and the reason why it is not a better one.
#[derive(Debug)]
pub struct Connected {
    /// The reader's end.
    pub link: Box<ClientLink>,
    /// Why it is not by a better transport, if there is one; becomes
    /// [`LinkReport::not_better`](millstream_dataplane::transport::LinkReport::not_better).
    pub not_better: Option<Arc<str>>,
}

impl From<Box<ClientLink>> for Connected {
    /// Wraps a link of the best kind.
    fn from(link: Box<ClientLink>) -> Self {
        Self {
            link,
            not_better: None,
        }
    }
}

/// The reason why an attempt to reach a worker failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConnected {
    /// The attempt, and how it failed.
    pub reason: String,
    /// Whether the worker is there, and takes no further link.
    pub is_full: bool,
}

impl From<String> for NotConnected {
    /// The worker cannot be reached.
    fn from(reason: String) -> Self {
        Self {
            reason,
            is_full: false,
        }
    }
}

impl From<LinkLost> for NotConnected {
    fn from(lost: LinkLost) -> Self {
        Self {
            is_full: matches!(lost, LinkLost::Full(_)),
            reason: lost.to_string(),
        }
    }
}

/// The future of a link.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, NotConnected>> + Send + 'a>>;

/// Makes links to workers; chooses how by where they are.
pub trait Connector: Send + Sync + Debug {
    /// Connects to this worker, within a bounded time. Errors say what was tried.
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a>;

    /// Hears that a link of this transport was lost, so that another may be chosen for the next.
    fn note_lost(&self, _worker: &WorkerPlace, _transport: &'static str, _why: &LinkLost) {}
}
