//! A time limit for tests, and a function that waits for conditions.

use std::fmt::Debug;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of a test, many times the duration of the slowest test on a busy machine.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// The interval between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a test's future on a new runtime, with the time limit.
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

/// Runs a test that blocks its thread, with the time limit. `what` is the name of the test in the message
/// about a timeout.
pub(crate) fn watched<T: Send + 'static>(what: &str, test: impl FnOnce() -> T + Send + 'static) -> T {
    watched_for(WATCHDOG, what, test)
}

/// Runs a test with another time limit.
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

/// Waits until `look` returns `wanted`. Fails after a quarter of the time limit, and shows the last value
/// instead.
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
