//! Determines, by periodic samples, which part of the service a waiting consumer waits for.
//!
//! Only elements on the way indicate a slow network. Either a pack's header has arrived but its end has not,
//! or the last grant is too recent for an answer to have arrived. In all other cases, the worker that holds
//! the credits has no elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use tokio::time::Instant;

use super::entry::Entry;
use super::outbox::Outbox;
use super::state::ReaderCore;
use crate::stats::Bottleneck;

/// The time allowed for an answer in addition to the round trip, for scheduling delays on busy hosts.
const SLACK: Duration = Duration::from_millis(1);

/// The assumed round trip of a network that has not been measured yet.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(10);

impl ReaderCore {
    /// Samples the part of the service that the consumer waits for, if it waits.
    pub(crate) fn note_wait(&mut self) {
        if let Some(what) = self.waits_for(self.now) {
            self.looks.note(what);
        }
    }

    /// Returns the part that the consumer waited for most, and whether all links are within this host.
    pub(crate) fn looks(&self) -> (Option<Bottleneck>, bool) {
        // Links are forgotten once none of their tasks is read, but their reports are kept.
        let mut links = self.reports.values();
        (self.looks.verdict(), links.all(|link| link.transport != "quic"))
    }

    /// Returns the part of the service that a waiting consumer waits for now; `None` if the consumer need not
    /// wait.
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

    /// Returns whether the consumer waits for this task's worker. The worker either has held credits for long
    /// enough that an element should have arrived, or gave its credits back because it had no elements.
    fn is_at_worker(&self, entry: &Entry, now: Instant) -> bool {
        let Some(outbox) = self.links.get(&entry.worker).filter(|outbox| outbox.is_up) else {
            return false;
        };
        if !entry.is_subscribed {
            return false;
        }
        if outbox.is_local {
            // No network lies between the reader and a local worker.
            return true;
        }
        let report = self.reports.get(&*entry.worker);
        let round_trip = report.and_then(|report| report.round_trip);
        let round_trip = round_trip.unwrap_or(ROUND_TRIP_UNKNOWN);
        let is_old = |at: Instant| now.saturating_duration_since(at) > 2 * round_trip + SLACK;
        entry.has_yielded || (entry.half.outstanding() > 0 && outbox.stirred_at.is_none_or(is_old))
    }
}
