//! The host and process of a process, by which others recognise that they are near.
//!
//! This file does not know how a host or process is identified: the program that sets up a process passes
//! the numbers in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// The host and process of a process. Unknown values equal no other value.
///
/// The numbers are only compared. Neither number is a secret, and both numbers only affect the choice of
/// workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Whereabouts {
    /// The number of the host, equal for all processes under one running kernel, also in different
    /// containers.
    #[n(0)]
    pub host: Option<u64>,
    /// The random number of the process, or of a part of a process whose workers and readers shall find
    /// each other.
    #[n(1)]
    pub process: Option<u64>,
}

impl Whereabouts {
    /// Returns whether both are in one process.
    pub fn is_same_process(&self, other: &Whereabouts) -> bool {
        self.process.is_some() && self.process == other.process
    }

    /// Returns whether both are on one host.
    pub fn is_same_host(&self, other: &Whereabouts) -> bool {
        self.is_same_process(other) || (self.host.is_some() && self.host == other.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_places_are_remote_and_processes_have_hosts() {
        let at = |host, process| Whereabouts { host, process };
        let nowhere = Whereabouts::default();
        assert!(!nowhere.is_same_process(&nowhere) && !nowhere.is_same_host(&nowhere));
        assert!(at(None, Some(1)).is_same_host(&at(None, Some(1))));
        assert!(at(Some(7), Some(1)).is_same_host(&at(Some(7), Some(2))));
        assert!(!at(Some(7), Some(1)).is_same_process(&at(Some(7), Some(2))));
        assert!(!at(Some(7), None).is_same_host(&at(Some(8), None)));
    }
}
