//! The request of a session to be woken for the next element of a task. The producer checks the request after
//! each commit.
//!
//! The module owns the order of the two checks. A session makes a request, and then looks for an element
//! again. A producer commits, and then looks for a request. Therefore at least one side sees the other. The
//! way of waking a session is unknown to the module.

#[cfg(feature = "loom")]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(feature = "loom"))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The request of sessions that found no element and want to be woken.
#[derive(Debug)]
pub(super) struct WakeRequest {
    is_asked: AtomicBool,
}

impl WakeRequest {
    /// Makes the object without a request.
    pub(super) fn new() -> WakeRequest {
        WakeRequest {
            is_asked: AtomicBool::new(false),
        }
    }

    /// Requests a wake-up. The session must look for an element once more before it waits.
    pub(super) fn ask(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns whether a session made a request since the last call. The producer calls the method after it
    /// committed an element.
    pub(super) fn take(&self) -> bool {
        // Pairs with the fence in `ask`: either this load sees the request, or the session sees the element.
        fence(Ordering::SeqCst);
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::SeqCst)
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_models {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicU64;
    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// The number of elements that the producer commits.
    const ELEMENTS: u64 = 2;

    /// The state that sessions and the producer of a task share.
    struct Task {
        request: WakeRequest,
        committed: AtomicU64,
        is_woken: Mutex<bool>,
        wakes: Condvar,
    }

    impl Task {
        fn new() -> Arc<Task> {
            Arc::new(Task {
                request: WakeRequest::new(),
                committed: AtomicU64::new(0),
                is_woken: Mutex::new(false),
                wakes: Condvar::new(),
            })
        }

        fn produce(&self) {
            for element in 1..=ELEMENTS {
                self.committed.store(element, Ordering::Release);
                if self.request.take() {
                    *self.is_woken.lock().expect("no holder panics") = true;
                    self.wakes.notify_all();
                }
            }
        }

        /// Waits for a wake-up. A lost wake-up ends as a deadlock, which Loom reports.
        fn sleep(&self) {
            let mut is_woken = self.is_woken.lock().expect("no holder panics");
            while !*is_woken {
                is_woken = self.wakes.wait(is_woken).expect("no holder panics");
            }
            *is_woken = false;
        }

        fn consume(&self) {
            let mut taken = 0;
            while taken < ELEMENTS {
                let is_there = || self.committed.load(Ordering::Acquire) > taken;
                if !is_there() {
                    self.request.ask();
                    if !is_there() {
                        self.sleep();
                        continue;
                    }
                }
                taken = self.committed.load(Ordering::Acquire);
            }
        }
    }

    #[test]
    fn a_session_that_asks_is_woken() {
        loom::model(|| {
            let task = Task::new();
            let producer = {
                let task = Arc::clone(&task);
                thread::spawn(move || task.produce())
            };
            task.consume();
            producer.join().expect("no panic");
        });
    }
}
