//! The threads of a worker's tasks. A thread that has ended is joined when the next thread starts; the
//! remaining threads are joined with the worker.
//!
//! Does not know the work of the threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// The set of threads. Clones share the set: the worker's owner joins threads that its lane started.
#[derive(Debug, Clone)]
pub(super) struct Threads {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    running: Vec<JoinHandle<()>>,
    /// The sender that each thread clones and holds until its end. `None` forbids further threads.
    alive: Option<Sender<()>>,
    /// The receiver that disconnects when the last thread has ended.
    ended: Receiver<()>,
}

impl Threads {
    /// Creates an empty set of threads.
    pub(super) fn new() -> Self {
        let (alive, ended) = channel();
        let inner = Inner {
            running: Vec::new(),
            alive: Some(alive),
            ended,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Starts a thread, and joins threads that have ended.
    pub(super) fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let mut inner = self.inner.lock();
        let Some(alive) = inner.alive.clone() else {
            return Err(format!("cannot start the thread {name}: the worker ends"));
        };
        for thread in inner.running.extract_if(.., |thread| thread.is_finished()) {
            // The panic hook has printed the message of a panic.
            let _ = thread.join();
        }
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                body();
                drop(alive);
            })
            .map_err(|error| format!("cannot start the thread {name}: {error}"))?;
        inner.running.push(thread);
        Ok(())
    }

    /// Waits until all threads have ended, for `grace` at most. No thread can start afterwards. Logs a
    /// warning for threads that are stuck in a user's function, and abandons them, because a thread cannot be
    /// killed.
    pub(super) fn join(&self, grace: Duration) {
        let mut inner = self.inner.lock();
        inner.alive = None;
        let all_ended = matches!(
            inner.ended.recv_timeout(grace),
            Err(RecvTimeoutError::Disconnected)
        );
        let mut stuck = 0;
        for thread in inner.running.drain(..) {
            if all_ended || thread.is_finished() {
                let _ = thread.join();
            } else {
                stuck += 1;
            }
        }
        if stuck > 0 {
            tracing::warn!(stuck, "threads are stuck in user functions and are abandoned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_threads_are_left_behind_in_time() {
        let threads = Threads::new();
        let held = Arc::new(());
        let (release, stuck) = channel::<()>();
        let witness = held.clone();
        let body = move || {
            let _witness = witness;
            let _ = stuck.recv();
        };
        threads.start("stuck", body).unwrap();
        threads.join(Duration::from_millis(1));
        assert_eq!(Arc::strong_count(&held), 2, "the thread still holds its clone");
        assert!(
            threads.start("late", || {}).is_err(),
            "no thread starts after join"
        );
        drop(release);

        let threads = Threads::new();
        for _ in 0..3 {
            let witness = held.clone();
            threads.start("quick", move || drop(witness)).unwrap();
        }
        threads.join(Duration::from_secs(60));
        let left = threads.inner.lock().running.len();
        assert_eq!(left, 0);
    }
}
