//! Fails a test that hangs, and waits for conditions.

use std::fmt::Debug;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Many times what the slowest test takes on a busy machine: a test that runs longer hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a test's future on a runtime of its own, under the watchdog.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        tokio::time::timeout(WATCHDOG, test)
            .await
            .expect("the test hangs")
    })
}

/// Runs a test that blocks its thread, under the watchdog. `what` is said of one that hangs.
pub(crate) fn watched<T: Send + 'static>(what: &str, test: impl FnOnce() -> T + Send + 'static) -> T {
    watched_for(WATCHDOG, what, test)
}

/// Runs a test under a watchdog of another duration.
pub(crate) fn watched_for<T: Send + 'static>(
    watchdog: Duration,
    what: &str,
    test: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, outcome) = mpsc::channel();
    let body = thread::Builder::new().name(what.to_owned()).spawn(move || {
        let _ = done.send(test());
    });
    let body = body.expect("a thread starts");
    match outcome.recv_timeout(watchdog) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: hangs, {} s have passed", watchdog.as_secs()),
        Err(mpsc::RecvTimeoutError::Disconnected) => match body.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a body that returns has sent its value"),
        },
    }
}

/// Waits until `look` yields `wanted`; fails with what it yields instead when the watchdog barks.
pub(crate) fn eventually<T: PartialEq + Debug>(what: &str, wanted: &T, mut look: impl FnMut() -> T) {
    let deadline = Instant::now() + WATCHDOG / 4;
    loop {
        let seen = look();
        if seen == *wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: {seen:?} instead of {wanted:?}"
        );
        thread::sleep(LOOK_EVERY);
    }
}
