//! A flag that stops a pipeline, and that blocked operations can wait on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::error::ExecError;

/// Tells every operation of a tree to stop. Clones are the same flag.
#[derive(Debug, Clone)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    /// Dropped by `cancel`, which disconnects `closed`: a channel that never carries anything.
    open: Mutex<Option<Sender<()>>>,
    closed: Receiver<()>,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

impl Cancel {
    /// A flag not raised.
    pub fn new() -> Cancel {
        let (open, closed) = bounded(0);
        let shared = Shared {
            cancelled: AtomicBool::new(false),
            open: Mutex::new(Some(open)),
            closed,
        };
        Cancel {
            shared: Arc::new(shared),
        }
    }

    /// Raises the flag. Operations that wait wake at once; a user's function under way is not interrupted.
    pub fn cancel(&self) {
        // Release pairs with the acquire in `is_cancelled`.
        self.shared.cancelled.store(true, Ordering::Release);
        self.shared.open.lock().take();
    }

    /// Whether the flag is raised.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// An error if the flag is raised.
    pub(crate) fn check(&self, op: &str) -> Result<(), ExecError> {
        if self.is_cancelled() {
            Err(ExecError::cancelled(op))
        } else {
            Ok(())
        }
    }

    /// A channel that disconnects when the flag is raised, to wait on beside others.
    pub(crate) fn signal(&self) -> &Receiver<()> {
        &self.shared.closed
    }

    /// Waits for so long, or until the flag is raised, which is an error.
    pub(crate) fn pause(&self, op: &str, duration: Duration) -> Result<(), ExecError> {
        // Nothing is ever sent: this returns when the time is up or the channel is closed.
        let _ = self.shared.closed.recv_timeout(duration);
        self.check(op)
    }
}
