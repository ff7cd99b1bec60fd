//! Measurements of a pipeline's `statistics` operations by name: counts and histograms, readable while it
//! runs. The operations choose what to measure and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Digits that a histogram tells apart: a value is known to one part in a hundred.
const DIGITS: u8 = 2;

/// The measurements of one executor. Clones are the same measurements.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// At most one for each operation of a graph.
    stages: Arc<Mutex<BTreeMap<String, Stage>>>,
}

/// The measurements under one name. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug)]
struct Counts {
    bytes: u64,
    failures: u64,
    wait_ns: Histogram<u64>,
    element_bytes: Histogram<u64>,
}

/// Measurements under one name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Elements that passed.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Failures that came instead of an element.
    pub failures: u64,
    /// How long each element was waited for, in nanoseconds: what everything below took, as far as it was not
    /// done ahead.
    pub wait_ns: Quantiles,
    /// How large each element was, in bytes.
    pub element_bytes: Quantiles,
}

/// How a quantity is distributed, to about one part in a hundred. All 0 where nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// The smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
}

impl Statistics {
    /// Returns the measurements so far, by name.
    pub fn measured(&self) -> BTreeMap<String, Measured> {
        let stages = self.stages.lock();
        let measured = |(name, stage): (&String, &Stage)| (name.clone(), stage.measured());
        stages.iter().map(measured).collect()
    }

    /// Returns the stage that measures under `name`.
    pub(crate) fn stage(&self, name: &str) -> Stage {
        let mut stages = self.stages.lock();
        stages.entry(name.to_owned()).or_insert_with(Stage::new).clone()
    }
}

impl Stage {
    fn new() -> Stage {
        let empty = || Histogram::new(DIGITS).expect("a histogram has up to five significant digits");
        let counts = Counts {
            bytes: 0,
            failures: 0,
            wait_ns: empty(),
            element_bytes: empty(),
        };
        Stage {
            counts: Arc::new(Mutex::new(counts)),
        }
    }

    /// An element of `bytes` came after `wait`.
    pub(crate) fn element(&self, wait: Duration, bytes: usize) {
        let mut counts = self.counts.lock();
        counts.bytes = counts.bytes.saturating_add(bytes as u64);
        // A histogram that grows takes every value but those that memory is too small for.
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        counts.wait_ns.saturating_record(wait_ns);
        counts.element_bytes.saturating_record(bytes as u64);
    }

    /// A failure came instead of an element.
    pub(crate) fn failure(&self) {
        let mut counts = self.counts.lock();
        counts.failures = counts.failures.saturating_add(1);
    }

    fn measured(&self) -> Measured {
        let counts = self.counts.lock();
        Measured {
            elements: counts.element_bytes.len(),
            bytes: counts.bytes,
            failures: counts.failures,
            wait_ns: Quantiles::of(&counts.wait_ns),
            element_bytes: Quantiles::of(&counts.element_bytes),
        }
    }
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Quantiles {
        Quantiles {
            min: histogram.min(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}
