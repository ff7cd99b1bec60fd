//! A call on its own thread, whose result is awaited until a deadline.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// A call in progress. A call that misses its deadline is abandoned, and ends with the process.
#[derive(Debug)]
pub(super) struct Bounded<T> {
    answer: Receiver<T>,
    limit: Duration,
    until: Instant,
}

impl<T: Send + 'static> Bounded<T> {
    /// Starts a call.
    pub(super) fn start(limit: Duration, call: impl FnOnce() -> T + Send + 'static) -> Self {
        let (tell, answer) = sync_channel(1);
        // Without a thread the sender is dropped, and the call counts as unanswered.
        let _ = std::thread::Builder::new().spawn(move || {
            // Sending fails only after the deadline.
            let _ = tell.send(call());
        });
        Bounded {
            answer,
            limit,
            until: Instant::now() + limit,
        }
    }

    /// Returns the time that the call may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Waits for the result; returns `None` if the call has panicked or missed its deadline.
    pub(super) fn wait(self) -> Option<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.answer.recv_timeout(left).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_hangs_is_abandoned() {
        let (release, held) = sync_channel::<()>(0);
        let hanging = Bounded::start(Duration::from_millis(1), move || held.recv());
        assert_eq!(hanging.wait(), None);
        drop(release);
        let prompt = Bounded::start(Duration::from_secs(60), || 7);
        assert_eq!(prompt.wait(), Some(7));
    }
}
