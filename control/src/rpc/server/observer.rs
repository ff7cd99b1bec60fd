//! Observing a dispatcher from its own process. An observation needs no connection and no role.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::about;
use super::connection::Shared;
use super::event_loop::{Input, Observed};

/// A handle that observes a dispatcher of this process. Clones observe the same dispatcher.
#[derive(Clone)]
pub struct ServerObserver {
    /// The parts of the dispatcher while it leads.
    leading: watch::Receiver<Option<Arc<Shared>>>,
}

impl ServerObserver {
    pub(super) fn new(leading: watch::Receiver<Option<Arc<Shared>>>) -> ServerObserver {
        ServerObserver { leading }
    }

    /// Returns the state of the dispatcher, after all earlier requests of its processes. Returns `None` while
    /// the dispatcher does not lead, and after its end. Cancel-safe.
    pub async fn observe(&self) -> Option<Observed> {
        let shared = self.leading.borrow().clone()?;
        let (reply, observed) = oneshot::channel();
        shared.inputs.send(Input::Observed(reply)).await.ok()?;
        let mut observed = observed.await.ok()?;
        observed.status.refusals = shared.refusals.all();
        observed.status.program = about::program();
        Some(observed)
    }
}

impl std::fmt::Debug for ServerObserver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_leading = self.leading.borrow().is_some();
        formatter
            .debug_struct("ServerObserver")
            .field("is_leading", &is_leading)
            .finish()
    }
}
