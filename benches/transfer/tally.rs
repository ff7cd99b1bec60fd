//! Counts of the elements that the reader returned, with the time since their production.

use hdrhistogram::Histogram;

use crate::args::Load;
use crate::local::with_cpu;
use crate::report::{Latency, Record};
use crate::stamp;
use crate::yardstick::{Measured, Meter};

/// The largest latency in the histogram, a minute in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// The number of small elements between two clock readings.
const LOOK_EVERY: u64 = 64;

/// The size in bytes from which on the clock is read for each element, because large elements are few.
const LARGE_BYTES: u64 = 4096;

/// Returns the number of elements between two clock readings, which both ends use.
pub(crate) fn look_every(element_bytes: u64, rate: Option<u64>) -> u64 {
    if element_bytes >= LARGE_BYTES || rate.is_some() {
        1
    } else {
        LOOK_EVERY
    }
}

/// A running count.
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

    /// Counts an element. Returns the finished count when the time is over.
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
    /// Adds the counts to the record.
    pub(crate) fn into_record(self, record: Record) -> Record {
        let record = Record {
            latency_us: self.latency,
            ..record
        };
        let measured = self.measured;
        with_cpu(record.with_rate(measured.units, measured.seconds), measured)
    }
}
