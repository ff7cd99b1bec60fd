//! The measurements of an iterator that other threads may read while the iterator waits for an element.
//!
//! The iterator's thread writes counters with plain stores. The module does not know elements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream::StageCosts;
use millstream::client::{Bottleneck, Notice, ReaderWatch};
use millstream::pipeline::exec::Stats;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The counters of one iterator, and the views of the parts that feed it.
#[derive(Debug)]
pub(crate) struct Probe {
    born: Instant,
    delivered: AtomicU64,
    bytes: AtomicU64,
    waited_ns: AtomicU64,
    /// The time of the first request, in nanoseconds since `born`, plus 1. The value 0 means no request.
    began_ns: AtomicU64,
    /// The start of the current wait, as `began_ns`. The value 0 means that nobody waits.
    waiting_since_ns: AtomicU64,
    /// The end of the pass, as `began_ns`. The value 0 means that the pass has not ended.
    ended_ns: AtomicU64,
    /// The number of splits that the reader reported as skipped.
    skipped_splits: AtomicU64,
    /// The reader of a service that feeds the iterator, which is the latest one.
    reader: Mutex<Option<ReaderWatch>>,
    stages: Mutex<Option<StageCosts>>,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe {
            born: Instant::now(),
            delivered: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            waiting_since_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            skipped_splits: AtomicU64::new(0),
            reader: Mutex::new(None),
            stages: Mutex::new(None),
        }
    }
}

impl Probe {
    /// Notes an element of this size.
    #[inline]
    pub(crate) fn note_element(&self, bytes: usize) {
        // Only one thread at a time requests elements, so no addition is lost.
        add(&self.delivered, 1);
        add(&self.bytes, bytes as u64);
    }

    /// Notes the end of the pass.
    pub(crate) fn note_end(&self) {
        self.ended_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// Notes that the caller begins to wait. The guard notes the end of the wait.
    pub(crate) fn wait(&self) -> Wait<'_> {
        let since_ns = self.now_ns();
        if self.began_ns.load(Ordering::Relaxed) == 0 {
            self.began_ns.store(since_ns, Ordering::Relaxed);
        }
        self.waiting_since_ns.store(since_ns, Ordering::Relaxed);
        Wait {
            probe: self,
            since_ns,
        }
    }

    /// Notes the reader that feeds the iterator from now on.
    pub(crate) fn note_reader(&self, watch: ReaderWatch) {
        *self.reader.lock() = Some(watch);
    }

    /// Notes a notice of the reader.
    pub(crate) fn note(&self, notice: &Notice) {
        if let Notice::SplitSkipped { .. } = notice {
            add(&self.skipped_splits, 1);
        }
    }

    /// Notes the costs of the stages that this process runs.
    pub(crate) fn note_stages(&self, costs: StageCosts) {
        *self.stages.lock() = Some(costs);
    }

    /// Returns the number of elements so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Adds the measurements to a dict. Never waits for the iterator.
    pub(crate) fn describe(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        let began_ns = self.began_ns.load(Ordering::Relaxed);
        let elapsed_ns = match began_ns {
            0 => 0,
            began_ns => self.until_ns().saturating_sub(began_ns),
        };
        let waiting_ns = match self.waiting_since_ns.load(Ordering::Relaxed) {
            0 => 0,
            since_ns => self.now_ns().saturating_sub(since_ns),
        };
        let waited_ns = self.waited_ns.load(Ordering::Relaxed).saturating_add(waiting_ns);
        into.set_item("delivered", self.delivered())?;
        into.set_item("elements", self.delivered())?;
        into.set_item("bytes", self.bytes.load(Ordering::Relaxed))?;
        into.set_item("elapsed_s", seconds(elapsed_ns))?;
        into.set_item("waited_s", seconds(waited_ns.min(elapsed_ns)))?;
        into.set_item("wait_share", share(waited_ns, elapsed_ns))?;
        into.set_item("skipped_splits", self.skipped_splits.load(Ordering::Relaxed))?;
        self.describe_reader(into)?;
        let stages = self.stages.lock().as_ref().and_then(StageCosts::latest);
        if let Some(stats) = stages {
            describe_stages(&stats, into)?;
        }
        Ok(())
    }

    fn describe_reader(&self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        let watch = self.reader.lock().clone();
        let Some(view) = watch.and_then(|watch| watch.view()) else {
            return Ok(());
        };
        let links = view.links.iter();
        let transports: BTreeMap<&str, &str> = links
            .map(|(worker, link)| (worker.as_str(), link.transport))
            .collect();
        into.set_item("transports", transports)?;
        into.set_item("waited_for", view.waited_for.map(Bottleneck::name))?;
        into.set_item("prefetched", view.ready)?;
        into.set_item("reconnects", view.reconnects)?;
        into.set_item("lost_splits", view.lost_splits)
    }

    /// Returns the time of the end of the pass, or the present time.
    fn until_ns(&self) -> u64 {
        match self.ended_ns.load(Ordering::Relaxed) {
            0 => self.now_ns(),
            ended_ns => ended_ns,
        }
    }

    /// Returns the time since the start, plus 1, so that 0 means no time.
    fn now_ns(&self) -> u64 {
        nanoseconds(self.born.elapsed()).saturating_add(1)
    }
}

/// A wait for an element, which ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Wait<'p> {
    probe: &'p Probe,
    since_ns: u64,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waited_ns = self.probe.now_ns().saturating_sub(self.since_ns);
        self.probe.waiting_since_ns.store(0, Ordering::Relaxed);
        add(&self.probe.waited_ns, waited_ns);
    }
}

fn add(sum: &AtomicU64, more: u64) {
    sum.store(
        sum.load(Ordering::Relaxed).saturating_add(more),
        Ordering::Relaxed,
    );
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    match whole_ns {
        0 => 0.0,
        whole_ns => (part_ns as f64 / whole_ns as f64).min(1.0),
    }
}

/// Adds the stages of the pipeline in this process, with the output first, and the name of the slowest part.
fn describe_stages(stats: &Stats, into: &Bound<'_, PyDict>) -> PyResult<()> {
    let stages: PyResult<Vec<_>> = stats
        .stages
        .iter()
        .map(|stage| {
            let known = PyDict::new(into.py());
            known.set_item("name", &stage.label)?;
            known.set_item("elements", stage.elements)?;
            known.set_item("busy_s", stage.busy.as_secs_f64())?;
            known.set_item("waited_s", stage.waited.as_secs_f64())?;
            known.set_item("threads", stage.threads)?;
            known.set_item("load", stage.load)?;
            Ok(known)
        })
        .collect();
    into.set_item("stages", stages?)?;
    into.set_item("stages_elapsed_s", stats.elapsed.as_secs_f64())?;
    into.set_item("stage", stats.bottleneck_name())
}
