//! Where a process is, as far as others must know to say whether they are near it.
//!
//! Refuses to know how that is found out: whoever composes a process says it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// Where a process is. What is not known is near nobody.
///
/// The numbers are compared and nothing else; neither is a secret, and neither is believed beyond the choice of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Whereabouts {
    /// Of its host: the same for all processes under one running kernel, whatever container they are in.
    #[n(0)]
    pub host: Option<u64>,
    /// Of the process, or of a part of it whose workers and readers shall see each other: drawn at random.
    #[n(1)]
    pub process: Option<u64>,
}

impl Whereabouts {
    /// Whether both are in one process.
    pub fn is_same_process(&self, other: &Whereabouts) -> bool {
        self.process.is_some() && self.process == other.process
    }

    /// Whether both are on one host.
    pub fn is_same_host(&self, other: &Whereabouts) -> bool {
        self.is_same_process(other) || (self.host.is_some() && self.host == other.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_near_nobody_and_one_process_is_on_one_host() {
        let at = |host, process| Whereabouts { host, process };
        let nowhere = Whereabouts::default();
        assert!(!nowhere.is_same_process(&nowhere) && !nowhere.is_same_host(&nowhere));
        assert!(at(None, Some(1)).is_same_host(&at(None, Some(1))));
        assert!(at(Some(7), Some(1)).is_same_host(&at(Some(7), Some(2))));
        assert!(!at(Some(7), Some(1)).is_same_process(&at(Some(7), Some(2))));
        assert!(!at(Some(7), None).is_same_host(&at(Some(8), None)));
    }
}
