//! The time of sessions, which is that of the runtime, so that a test that stops its clock stops theirs.

use std::time::Instant;

/// Now.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
