//! The end of the service that somebody has asked for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::moment::Moment;
use crate::error::Error;

/// A service that ends: the person who asked for it, and when nobody is waited for any longer.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) by: String,
    pub(super) until: Moment,
}

impl Closing {
    /// The refusal of a request that would begin something.
    pub(super) fn refusal(&self) -> Error {
        let by = &self.by;
        Error::precondition(format!(
            "this service is being shut down by {by}: nothing new begins"
        ))
    }
}
