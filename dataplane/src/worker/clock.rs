//! The time of sessions. Sessions use the clock of the runtime, so that a test that pauses the runtime's
//! clock pauses the sessions too.

use std::time::Instant;

/// Returns the present time of the runtime.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
