//! The statistics of a reader: the elements that it received, the time that it waited, and the part of the
//! service that it waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use millstream_dataplane::transport::LinkReport;

use crate::loss::LostSplits;
use crate::pace::PaceMeter;

/// The share of the time for which a reader may wait before it counts as held up.
const HELD_UP_SHARE: f64 = 0.05;

/// The longest wait that the histogram distinguishes: one hour, in microseconds.
const WAIT_MAX_US: u64 = 3_600_000_000;

/// The part of the service that limits a reader's throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Elements wait for the trainer.
    Trainer,
    /// The trainer waits, and the workers report that they have no element ready.
    Workers,
    /// The trainer waits although workers have elements. The cause is the path between them, or too few
    /// outstanding elements.
    Network,
    /// The trainer waits for the dispatcher, which is out of reach or has not assigned further tasks.
    Dispatcher,
    /// The trainer waits for a first worker.
    NoWorkers,
    /// The reader has neither read nor waited.
    Unmeasured,
}

impl Bottleneck {
    /// Returns the name of this variant in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trainer => "trainer",
            Self::Workers => "workers",
            Self::Network => "network",
            Self::Dispatcher => "dispatcher",
            Self::NoWorkers => "none: waiting for workers",
            Self::Unmeasured => "none",
        }
    }
}

/// The statistics of a reader so far.
#[derive(Debug, Clone)]
pub struct ReaderStats {
    /// The number of elements handed over.
    pub elements: u64,
    /// The number of bytes of these elements, headers included.
    pub bytes: u64,
    /// The time since the first element was requested.
    pub elapsed: Duration,
    /// The part of `elapsed` in which the consumer waited for an element.
    pub waited: Duration,
    /// The durations of the waits, in microseconds. Hand-overs without a wait are not included.
    pub waits_us: Histogram<u64>,
    /// The part of the service that limits the reader.
    pub bottleneck: Bottleneck,
    /// Splits that lost elements together with their worker.
    pub lost_splits: Vec<LostSplits>,
    /// The latest known properties of the links to the workers, by worker address. The properties include the
    /// transport, and the reason why the link does not use a better transport.
    pub links: BTreeMap<String, LinkReport>,
}

impl ReaderStats {
    /// Returns the share of the time that the consumer waited, from 0 to 1.
    pub fn wait_share(&self) -> f64 {
        share(self.waited, self.elapsed)
    }
}

/// Measures hand-overs. A hand-over without a wait costs two additions.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    elements: u64,
    bytes: u64,
    started: Option<Instant>,
    waited: Duration,
    waits_us: Histogram<u64>,
    meter: Arc<PaceMeter>,
}

impl Stopwatch {
    /// Makes a stopwatch that also records its hand-overs and waits in `meter`.
    pub(crate) fn new(meter: Arc<PaceMeter>) -> Self {
        // A histogram from one to an hour with three digits always has valid bounds.
        let waits_us =
            Histogram::new_with_bounds(1, WAIT_MAX_US, 3).unwrap_or_else(|_| unreachable!("valid bounds"));
        Self {
            elements: 0,
            bytes: 0,
            started: None,
            waited: Duration::ZERO,
            waits_us,
            meter,
        }
    }

    pub(crate) fn handed_over(&mut self, bytes: usize) {
        self.elements += 1;
        self.bytes += bytes as u64;
        self.meter.note_elements(self.elements);
    }

    /// Records the number of handed-over elements that the consumer buffers for its user.
    pub(crate) fn buffered(&self, elements: u64) {
        self.meter.note_buffered(elements);
    }

    pub(crate) fn waiting_since(&mut self, now: Instant) {
        self.started.get_or_insert(now);
        self.meter.note_wait(now);
    }

    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
        self.meter.note_waited(self.waited);
        self.waits_us.saturating_record((time.as_micros() as u64).max(1));
    }

    /// Returns the statistics. `waits` is the duration of the current wait. `looks` is the part that the
    /// consumer was found to wait for, and whether all links are within this host.
    pub(crate) fn stats(
        &self,
        now: Instant,
        waits: Duration,
        looks: (Option<Bottleneck>, bool),
        lost_splits: Vec<LostSplits>,
        links: BTreeMap<String, LinkReport>,
    ) -> ReaderStats {
        let elapsed = self
            .started
            .map_or(Duration::ZERO, |started| now.duration_since(started));
        let waited = self.waited + waits;
        let (waited_for, is_local) = looks;
        // A reader without any element counts as held up, because its first wait has not ended.
        let is_held_up = self.elements == 0 || share(waited, elapsed) > HELD_UP_SHARE;
        let bottleneck = match waited_for {
            _ if !is_held_up => Bottleneck::Trainer,
            // A read that has ended without an element waits for no part of the service.
            Some(Bottleneck::Network | Bottleneck::Workers | Bottleneck::Dispatcher)
                if self.elements == 0 && waits.is_zero() =>
            {
                Bottleneck::Unmeasured
            }
            Some(waited_for) => waited_for,
            None if self.elements == 0 => Bottleneck::Unmeasured,
            // The waits were too short to be sampled. Within a host the network cannot be the cause.
            None if is_local => Bottleneck::Workers,
            None => Bottleneck::Network,
        };
        let (elements, bytes) = (self.elements, self.bytes);
        ReaderStats {
            elements,
            bytes,
            elapsed,
            waited,
            waits_us: self.waits_us.clone(),
            bottleneck,
            lost_splits,
            links,
        }
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        0.0
    } else {
        (part.as_secs_f64() / whole.as_secs_f64()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bottleneck_without_elements(waits: Duration, waited_for: Bottleneck) -> Bottleneck {
        let mut stopwatch = Stopwatch::new(Arc::default());
        let began = Instant::now();
        stopwatch.waiting_since(began);
        let now = began + Duration::from_secs(1);
        let stats = stopwatch.stats(now, waits, (Some(waited_for), true), Vec::new(), BTreeMap::new());
        stats.bottleneck
    }

    #[test]
    fn an_ended_reading_without_elements_blames_nobody() {
        for seen in [Bottleneck::Network, Bottleneck::Workers, Bottleneck::Dispatcher] {
            assert_eq!(
                bottleneck_without_elements(Duration::ZERO, seen),
                Bottleneck::Unmeasured
            );
        }
    }

    #[test]
    fn waiting_for_the_first_element_names_its_cause() {
        let waits = Duration::from_secs(1);
        for seen in [Bottleneck::Network, Bottleneck::Workers, Bottleneck::NoWorkers] {
            assert_eq!(bottleneck_without_elements(waits, seen), seen);
        }
    }
}
