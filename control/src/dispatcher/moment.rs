//! The time of the dispatcher, which its caller passes in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// A point in time, counted from the start of the caller's clock.
pub type Moment = Duration;
