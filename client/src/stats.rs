//! The statistics of a reader: the elements that it got, the time that it waited, and the part that it waited
//! for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use millstream_dataplane::transport::LinkReport;

use crate::loss::LostSplits;
use crate::pace::PaceMeter;

/// Share of the time that a reader may wait before it counts as held up.
const HELD_UP_SHARE: f64 = 0.05;

/// Longest wait that the histogram tells apart, in microseconds: an hour.
const WAIT_MAX_US: u64 = 3_600_000_000;

/// The part that keeps a reader from going faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Elements wait for the trainer.
    Trainer,
    /// The trainer waits, and workers say that they have nothing ready.
    Workers,
    /// The trainer waits although workers have elements: the path between them, or too few of them
    /// outstanding.
    Network,
    /// The trainer waits for the dispatcher: it is out of reach, or has not said what is to be read next.
    Dispatcher,
    /// The trainer waits for a first worker.
    NoWorkers,
    /// Nothing was read, and nothing was waited for.
    Unmeasured,
}

impl Bottleneck {
    /// The word for it in tables.
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
    /// Elements handed over.
    pub elements: u64,
    /// Bytes of them, headers included.
    pub bytes: u64,
    /// Since the first element was asked for.
    pub elapsed: Duration,
    /// The time among it in which the consumer waited for an element.
    pub waited: Duration,
    /// The waits, in microseconds; hand-overs that did not wait are not in it.
    pub waits_us: Histogram<u64>,
    /// The part that holds the reader up.
    pub bottleneck: Bottleneck,
    /// Splits of which elements were lost with their worker.
    pub lost_splits: Vec<LostSplits>,
    /// The properties of the links to the workers, by address, a moment ago: the transport, and the reason
    /// why it is not a better one.
    pub links: BTreeMap<String, LinkReport>,
}

impl ReaderStats {
    /// Part of the time that the consumer waited, 0 to 1.
    pub fn wait_share(&self) -> f64 {
        share(self.waited, self.elapsed)
    }
}

/// Measures hand-overs. Costs two additions for one that did not wait.
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
    /// One whose hand-overs and waits the meter shows too.
    pub(crate) fn new(meter: Arc<PaceMeter>) -> Self {
        // One to an hour with three digits: a valid range whatever happens.
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

    pub(crate) fn waiting_since(&mut self, now: Instant) {
        self.started.get_or_insert(now);
        self.meter.note_wait(now);
    }

    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
        self.meter.note_waited(self.waited);
        self.waits_us.saturating_record((time.as_micros() as u64).max(1));
    }

    /// Returns the figures. `waits` is how long the wait that goes on has lasted. `looks` says what the
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
        // A reader that waits for its first element has not waited to the end yet.
        let is_held_up = self.elements == 0 || share(waited, elapsed) > HELD_UP_SHARE;
        let bottleneck = match waited_for {
            _ if !is_held_up => Bottleneck::Trainer,
            // A reading that has ended without an element waits for nothing.
            Some(Bottleneck::Network | Bottleneck::Workers | Bottleneck::Dispatcher)
                if self.elements == 0 && waits.is_zero() =>
            {
                Bottleneck::Unmeasured
            }
            Some(waited_for) => waited_for,
            None if self.elements == 0 => Bottleneck::Unmeasured,
            // Too short to be looked at: within a host there is no network.
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
