//! The measurements of a pipeline's `statistics` operations by name: counts and histograms, which can be read
//! while the pipeline runs. The operations choose which values to measure, and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Number of significant digits of a histogram: values are exact to one percent.
const DIGITS: u8 = 2;

/// The measurements of one executor. Clones share the measurements.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// The stages by name: at most one for each operation of a graph.
    stages: Arc<Mutex<BTreeMap<String, Stage>>>,
}

/// The measurements under one name. Clones share the measurements.
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

/// The measurements under one name at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The number of elements that passed the operation.
    pub elements: u64,
    /// The total bytes of the elements.
    pub bytes: u64,
    /// The number of failures that the operation received instead of an element.
    pub failures: u64,
    /// The time for which the operation waited for each element, in nanoseconds. The time is that of all
    /// operations below, except for elements that were prefetched.
    pub wait_ns: Quantiles,
    /// The size of each element, in bytes.
    pub element_bytes: Quantiles,
}

/// The distribution of a quantity, exact to about one percent. All fields are 0 if there are no measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// The smallest value.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
    /// The mean of all values.
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

    /// Records an element of `bytes` that arrived after `wait`.
    pub(crate) fn element(&self, wait: Duration, bytes: usize) {
        let mut counts = self.counts.lock();
        counts.bytes = counts.bytes.saturating_add(bytes as u64);
        // A growing histogram records every value, unless memory for its growth is missing.
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        counts.wait_ns.saturating_record(wait_ns);
        counts.element_bytes.saturating_record(bytes as u64);
    }

    /// Records a failure that arrived instead of an element.
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
