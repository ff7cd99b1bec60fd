//! The facts about the dispatcher's program that an answer with the status names.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::dispatcher::{ProgramStatus, Reply};
use crate::error::Error;

/// Adds the program to an answer that is the status.
pub(super) fn add_to(answer: &mut Result<Reply, Error>) {
    if let Ok(Reply::Status(status)) = answer {
        status.program = program();
    }
}

/// Returns the version of this program, and the time of the clock.
pub(super) fn program() -> ProgramStatus {
    // A clock before 1970 is as wrong as one in 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ProgramStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
    }
}
