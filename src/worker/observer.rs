//! Observing a worker from its own process.

use std::convert::Infallible;

use millstream_dataplane::worker::Server;
use tokio::sync::mpsc;

use super::stopper::WorkerStopper;

/// A handle that observes a worker of this process. Clones observe the same worker.
#[derive(Clone, Debug)]
pub struct WorkerObserver {
    pub(super) address: String,
    pub(super) server: Server,
    pub(super) stopper: WorkerStopper,
    /// The channel that disconnects when the worker has ended.
    pub(super) alive: mpsc::Sender<Infallible>,
}

impl WorkerObserver {
    /// Returns the address that readers receive.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the server of the data plane.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns whether the worker was asked to shut down or to stop.
    pub fn is_leaving(&self) -> bool {
        self.stopper.is_raised()
    }

    /// Returns whether the worker has ended.
    pub fn has_ended(&self) -> bool {
        self.alive.is_closed()
    }
}
