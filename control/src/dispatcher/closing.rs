//! The shutdown of the service, after a process has asked for the shutdown.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::moment::Moment;
use crate::error::Error;

/// A service that shuts down: the name of the process that asked, and the end of the quiet period.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) by: String,
    pub(super) until: Moment,
}

impl Closing {
    /// Returns the error that refuses a request which would begin something new.
    pub(super) fn refusal(&self) -> Error {
        let by = &self.by;
        Error::precondition(format!(
            "this service is being shut down by {by}: nothing new begins"
        ))
    }
}
