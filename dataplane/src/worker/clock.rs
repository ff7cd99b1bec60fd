//! What time it is for sessions: the runtime's, so that whoever holds its clock still holds theirs.

use std::time::Instant;

/// Now.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
