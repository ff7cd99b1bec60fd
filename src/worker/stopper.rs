//! The wishes for a worker: to serve, to shut down gracefully, or to end.
//!
//! Wishes only grow, so they may be repeated and come from anywhere.

use tokio::sync::watch;

/// A wish for a worker. Each is more than the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// The worker is to serve.
    #[default]
    Serve,
    /// The worker is to bring what it has begun to its end, and leave.
    Drain,
    /// The worker is to say goodbye and end.
    Stop,
}

/// Ends a worker, from any thread and as often as one likes. Clones are the same one.
#[derive(Debug, Clone)]
pub struct WorkerStopper {
    wish: watch::Sender<Wish>,
}

/// The worker's end of it.
#[derive(Debug)]
pub(super) struct Wishes {
    wish: watch::Receiver<Wish>,
    /// Keeps the channel open: nobody's going away is a wish.
    _stopper: WorkerStopper,
}

impl Default for WorkerStopper {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerStopper {
    /// For a worker that is yet to start: see [`Worker::start_stoppable`](super::Worker::start_stoppable).
    pub fn new() -> Self {
        let (wish, _) = watch::channel(Wish::default());
        Self { wish }
    }

    /// Has the worker leave in good order: it takes no more work, brings what it has begun to its readers,
    /// and ends. See [`Worker::drain`](super::Worker::drain). Returns at once; has no effect on a worker that
    /// ends already.
    pub fn drain(&self) {
        self.raise(Wish::Drain);
    }

    /// Has the worker end now. Returns at once.
    pub fn stop(&self) {
        self.raise(Wish::Stop);
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
    /// Waits until this much is wanted. Cancel-safe.
    pub(super) async fn reach(&self, wish: Wish) {
        // Fails when the sender is gone, which this holds.
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
