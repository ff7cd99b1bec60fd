//! The requests to a worker: to serve, to shut down gracefully, or to stop.
//!
//! A request can only be raised, so the order and the number of calls do not matter.

use tokio::sync::watch;

/// The state that a worker should reach. Each variant overrides the variants before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// The worker should serve.
    #[default]
    Serve,
    /// The worker should shut down gracefully.
    Drain,
    /// The worker should say goodbye and end at once.
    Stop,
}

/// A handle that ends a worker from any thread. A handle may be used several times, and clones affect the
/// same worker.
#[derive(Debug, Clone)]
pub struct WorkerStopper {
    wish: watch::Sender<Wish>,
}

/// The worker's end of the channel of requests.
#[derive(Debug)]
pub(super) struct Wishes {
    wish: watch::Receiver<Wish>,
    /// A sender that keeps the channel open, because dropping all handles is not a request.
    _stopper: WorkerStopper,
}

impl Default for WorkerStopper {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerStopper {
    /// Creates a handle for a worker that has not started yet: see
    /// [`Worker::start_stoppable`](super::Worker::start_stoppable).
    pub fn new() -> Self {
        let (wish, _) = watch::channel(Wish::default());
        Self { wish }
    }

    /// Requests a graceful shutdown: the worker accepts no more work, delivers the elements that it has
    /// begun, and ends. See [`Worker::drain`](super::Worker::drain). Returns at once. Has no effect on a
    /// worker that is ending already.
    pub fn drain(&self) {
        self.raise(Wish::Drain);
    }

    /// Requests the end of the worker. Returns at once.
    pub fn stop(&self) {
        self.raise(Wish::Stop);
    }

    /// Returns whether a request was made.
    pub fn is_raised(&self) -> bool {
        *self.wish.borrow() != Wish::Serve
    }

    pub(super) fn wishes(&self) -> Wishes {
        Wishes {
            wish: self.wish.subscribe(),
            _stopper: self.clone(),
        }
    }

    fn raise(&self, to: Wish) {
        self.wish.send_if_modified(|wish| {
            let is_more = *wish < to;
            *wish = to.max(*wish);
            is_more
        });
    }
}

impl Wishes {
    /// Waits until this request, or a higher one, was made. Cancel-safe.
    pub(super) async fn reach(&self, wish: Wish) {
        // Waiting fails only without a sender, and this value holds a sender.
        let _ = self.wish.clone().wait_for(|wanted| *wanted >= wish).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_order_overrides_draining() {
        let stopper = WorkerStopper::new();
        for (act, wanted) in [
            (WorkerStopper::drain as fn(&WorkerStopper), Wish::Drain),
            (WorkerStopper::stop, Wish::Stop),
            (WorkerStopper::drain, Wish::Stop),
            (WorkerStopper::stop, Wish::Stop),
        ] {
            act(&stopper);
            assert_eq!(*stopper.wish.borrow(), wanted);
        }
    }
}
