//! The output of a scaling policy: a number of workers with the reason for the number.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::time::Duration;

/// A number of workers, with the reason for the number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// The number of workers.
    pub(crate) workers: u64,
    /// The reason for the number.
    pub(crate) reason: Reason,
}

/// The reason for which a policy wants a number of workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reason {
    /// The policy has begun with the living workers.
    Present,
    /// The first readers have arrived.
    FirstReaders,
    /// Readers wait for elements for this share of their time.
    ReadersWait(f64),
    /// More workers have not reduced the waiting of the readers, and the next attempt follows after this
    /// time.
    NoHelp(Duration),
    /// The workers were idle except for this number of busy workers.
    Idle(f64),
    /// Readers have waited since workers were removed.
    MissedWorkers,
    /// The readers have taken no element for this time.
    Paused(Duration),
    /// No reader exists for this time.
    NoReaders(Duration),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Present => write!(f, "the present workers suffice until readers report"),
            Reason::FirstReaders => write!(f, "readers have arrived"),
            Reason::ReadersWait(share) => {
                write!(f, "readers wait for data {:.0} % of the time", share * 100.0)
            }
            Reason::NoHelp(retry) => write!(
                f,
                "more workers did not reduce the readers' waiting; the next attempt follows in {} s",
                retry.as_secs()
            ),
            Reason::Idle(load) => write!(f, "{load:.1} busy workers serve the readers"),
            Reason::MissedWorkers => write!(f, "readers wait for data since workers were removed"),
            Reason::Paused(time) => {
                write!(f, "the readers have taken no element for {} s", time.as_secs())
            }
            Reason::NoReaders(time) => write!(f, "no reader for {} s", time.as_secs()),
        }
    }
}
