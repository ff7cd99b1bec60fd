//! The part of the service that a waiting consumer waits for, looked at from time to time.
//!
//! The one sign of a slow network is that elements are on their way: a pack whose header has arrived and
//! whose end has not, or credits so fresh that no answer can be here. Where neither is so, the worker with
//! the credits has no elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use tokio::time::Instant;

use super::entry::Entry;
use super::outbox::Outbox;
use super::state::ReaderCore;
use crate::stats::Bottleneck;

/// The time of an answer besides the round trip: time slices of busy hosts.
const SLACK: Duration = Duration::from_millis(1);

/// The round trip of a network of which nothing is known yet.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(10);

impl ReaderCore {
    /// Notes what the consumer waits for, if it waits.
    pub(crate) fn note_wait(&mut self) {
        if let Some(what) = self.waits_for(self.now) {
            self.looks.note(what);
        }
    }

    /// Returns what was waited for most, and whether all links are within this host.
    pub(crate) fn looks(&self) -> (Option<Bottleneck>, bool) {
        // Links are forgotten when nothing of them is wanted, their reports are not.
        let mut links = self.reports.values();
        (self.looks.verdict(), links.all(|link| link.transport != "quic"))
    }

    /// Returns the parts that a consumer waits for now. Empty if there is something for it.
    pub(super) fn waits_for(&self, now: Instant) -> Option<Bottleneck> {
        if !self.is_open || self.has_something() {
            return None;
        }
        let is_on_way = |outbox: &Outbox| outbox.packs_on_way > 0 && !outbox.is_local;
        if self.links.values().any(is_on_way) {
            return Some(Bottleneck::Network);
        }
        if self.outages.is_open() {
            return Some(Bottleneck::Dispatcher);
        }
        let mut wanted = self.tasks.values().filter(|entry| entry.is_wanted()).peekable();
        if wanted.peek().is_none() {
            return Some(if self.tasks.is_empty() {
                Bottleneck::NoWorkers
            } else {
                Bottleneck::Dispatcher
            });
        }
        let is_at_worker = wanted.any(|entry| self.is_at_worker(entry, now));
        Some(if is_at_worker {
            Bottleneck::Workers
        } else {
            Bottleneck::Network
        })
    }

    /// Returns whether a task's worker is what is waited for: it had credits for so long that an element
    /// would be here, or gave them back for want of elements.
    fn is_at_worker(&self, entry: &Entry, now: Instant) -> bool {
        let Some(outbox) = self.links.get(&entry.worker).filter(|outbox| outbox.is_up) else {
            return false;
        };
        if !entry.is_subscribed {
            return false;
        }
        if outbox.is_local {
            // Nothing lies between.
            return true;
        }
        let report = self.reports.get(&*entry.worker);
        let round_trip = report.and_then(|report| report.round_trip);
        let round_trip = round_trip.unwrap_or(ROUND_TRIP_UNKNOWN);
        let is_old = |at: Instant| now.saturating_duration_since(at) > 2 * round_trip + SLACK;
        entry.has_yielded || (entry.half.outstanding() > 0 && outbox.stirred_at.is_none_or(is_old))
    }
}
