//! Counts elements that are handed over, and how long ago each was produced.

use hdrhistogram::Histogram;

use crate::args::Load;
use crate::local::with_cpu;
use crate::report::{Latency, Record};
use crate::stamp;
use crate::yardstick::{Measured, Meter};

/// Longest latency told apart: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Elements between two looks at the clock when they are small and many.
const LOOK_EVERY: u64 = 64;

/// Elements of this size and larger are few enough for a look at the clock each.
const LARGE_BYTES: u64 = 4096;

/// Returns how often both ends look at the clock: once in so many elements.
pub(crate) fn look_every(element_bytes: u64, rate: Option<u64>) -> u64 {
    if element_bytes >= LARGE_BYTES || rate.is_some() {
        1
    } else {
        LOOK_EVERY
    }
}

/// A count under way.
#[derive(Debug)]
pub(crate) struct Tally {
    meter: Meter,
    latency: Histogram<u64>,
    look_every: u64,
    unseen: u64,
}

impl Tally {
    pub(crate) fn new(load: &Load, element_bytes: u64, meter: Meter) -> Result<Self, String> {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3);
        Ok(Self {
            meter,
            latency: latency.map_err(|error| error.to_string())?,
            look_every: look_every(element_bytes, load.rate),
            unseen: 0,
        })
    }

    /// Counts an element; `Some` when the time is over.
    pub(crate) fn count(&mut self, produced_ns: u64) -> Option<Tallied> {
        self.unseen += 1;
        if self.unseen < self.look_every {
            return None;
        }
        let age_ns = stamp::now_ns().saturating_sub(produced_ns).max(1);
        self.latency.saturating_record(age_ns);
        let measured = self.meter.count(std::mem::take(&mut self.unseen))?;
        Some(Tallied {
            measured,
            latency: Latency::of(&self.latency),
        })
    }
}

/// A finished count of elements.
#[derive(Debug)]
pub(crate) struct Tallied {
    measured: Measured,
    latency: Option<Latency>,
}

impl Tallied {
    /// Adds what was counted.
    pub(crate) fn into_record(self, record: Record) -> Record {
        let record = Record {
            latency_us: self.latency,
            ..record
        };
        let measured = self.measured;
        with_cpu(record.with_rate(measured.units, measured.seconds), measured)
    }
}
