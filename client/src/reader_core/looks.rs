//! Counts of the parts of the service that a waiting consumer was found to wait for, and the resulting
//! bottleneck.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::stats::Bottleneck;

/// The number of samples in which the consumer waited for each part of the service.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looks {
    workers: u64,
    network: u64,
    dispatcher: u64,
    no_workers: u64,
}

impl Looks {
    pub(super) fn note(&mut self, what: Bottleneck) {
        match what {
            Bottleneck::Workers => self.workers += 1,
            Bottleneck::Network => self.network += 1,
            Bottleneck::Dispatcher => self.dispatcher += 1,
            Bottleneck::NoWorkers => self.no_workers += 1,
            Bottleneck::Trainer | Bottleneck::Unmeasured => {}
        }
    }

    /// Returns the part that the consumer waited for most; `None` if no sample found it waiting.
    pub(super) fn verdict(&self) -> Option<Bottleneck> {
        let counts = [
            (self.workers, Bottleneck::Workers),
            (self.network, Bottleneck::Network),
            (self.dispatcher, Bottleneck::Dispatcher),
            (self.no_workers, Bottleneck::NoWorkers),
        ];
        let most = counts.into_iter().max_by_key(|(count, _)| *count)?;
        (most.0 > 0).then_some(most.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_what_was_seen_most() {
        let mut looks = Looks::default();
        assert_eq!(looks.verdict(), None);
        for what in [Bottleneck::Network, Bottleneck::Workers, Bottleneck::Network] {
            looks.note(what);
        }
        assert_eq!(looks.verdict(), Some(Bottleneck::Network));
    }
}
