//! What several tests need: elements to send, links to send them over, a watchdog.

pub(crate) mod elements;
pub(crate) mod links;

use std::time::Duration;

/// Ten times what the slowest step takes on a busy machine: a test that runs longer hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs a test's future on a runtime of its own, under the watchdog.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async { tokio::time::timeout(WATCHDOG, test).await.expect("the test hangs") })
}
