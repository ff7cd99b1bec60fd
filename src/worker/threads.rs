//! The threads of a worker's tasks. Each is joined: one that has ended when the next starts, the rest with
//! the worker.
//!
//! Refuses to know what they run.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// The threads. Clones are the same ones: the worker's owner joins what its lane has started.
#[derive(Debug, Clone)]
pub(super) struct Threads {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    running: Vec<JoinHandle<()>>,
    /// Each thread has a clone and sends nothing; without it no further one starts.
    alive: Option<Sender<()>>,
    /// Disconnects when the last thread has ended.
    ended: Receiver<()>,
}

impl Threads {
    /// None yet.
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

    /// Starts a thread, and joins those that have ended.
    pub(super) fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let mut inner = self.inner.lock();
        let Some(alive) = inner.alive.clone() else {
            return Err(format!("no thread for {name}: the worker ends"));
        };
        for thread in inner.running.extract_if(.., |thread| thread.is_finished()) {
            // What it panicked with has been printed.
            let _ = thread.join();
        }
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                body();
                drop(alive);
            })
            .map_err(|error| format!("no thread for {name}: {error}"))?;
        inner.running.push(thread);
        Ok(())
    }

    /// Waits until all have ended, at most this long; nothing starts afterwards. Those that are stuck in a
    /// user's function are left behind, with a warning: nothing can take them back.
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
            tracing::warn!(
                stuck,
                "threads are still inside user functions and are left behind"
            );
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
        assert_eq!(Arc::strong_count(&held), 2, "it is still there");
        assert!(
            threads.start("late", || {}).is_err(),
            "nothing starts behind the end"
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
