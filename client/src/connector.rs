//! The interface through which a reader makes links to workers. This file knows no transport.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use millstream_dataplane::transport::{Admission, ClientLink, LinkLost};

use crate::place::WorkerPlace;

/// A link, and the reason why it does not use a better transport.
#[derive(Debug)]
pub struct Connected {
    /// The reader's end of the link.
    pub link: Box<ClientLink>,
    /// The reason why the link does not use a better transport, if a better transport exists. Reported as
    /// [`LinkReport::not_better`](millstream_dataplane::transport::LinkReport::not_better).
    pub not_better: Option<Arc<str>>,
}

impl From<Box<ClientLink>> for Connected {
    /// Wraps a link of the best transport.
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
    /// Description of the attempt and of its failure.
    pub reason: String,
    /// True if the worker is reachable but accepts no further link.
    pub is_full: bool,
}

impl From<String> for NotConnected {
    /// Makes the error of a worker that cannot be reached.
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

/// The future that [`Connector::connect`] returns.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connected, NotConnected>> + Send + 'a>>;

/// Makes links to workers, and chooses the transport by the worker's location.
pub trait Connector: Send + Sync + Debug {
    /// Connects to the worker within a bounded time. The error describes the attempts that were made.
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a>;

    /// Notes that a link of this transport was lost, so that the next link may use another transport.
    fn note_lost(&self, _worker: &WorkerPlace, _transport: &'static str, _why: &LinkLost) {}
}
