//! The measurements of an iterator that other threads may read while the iterator waits for an element.
//!
//! A hand-over without a wait takes no lock. No count falls, whichever readers come and go. The module does
//! not know elements.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream::StageCosts;
use millstream::client::{Bottleneck, Notice, ReaderView, ReaderWatch};
use millstream::pipeline::exec::Stats;
use millstream::python::NAME;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::fork::Here;

/// The maximum number of readers of one iterator that are watched at once. The count of an older reader stays
/// at its last value.
const WATCHED_MAX: usize = 16;

/// The counters of one iterator, and the views of the parts that feed it.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    delivered: AtomicU64,
    bytes: AtomicU64,
    waits: Mutex<Waits>,
    /// The number of splits that the readers reported as skipped.
    skipped_splits: AtomicU64,
    /// The number of elements that the readers reported as quarantined.
    quarantined_elements: AtomicU64,
    readers: Mutex<Readers>,
    stages: Mutex<Option<StageCosts>>,
}

/// The waits of the iterator's caller.
#[derive(Debug, Default, Clone, Copy)]
struct Waits {
    /// The time of the first request that waited.
    began: Option<Instant>,
    /// The start of the present wait.
    since: Option<Instant>,
    /// True while the iterator opens its source.
    is_opening: bool,
    /// The sum of the waits that have ended.
    waited: Duration,
    /// The part of `waited` before the first element.
    first: Duration,
    /// The time of the end of the pass.
    ended: Option<Instant>,
}

/// The readers of services that feed the iterator, with the latest one at the end.
#[derive(Debug, Default)]
struct Readers {
    watched: Vec<ReaderWatch>,
    /// The counts of the readers that are no longer watched.
    reconnects: u64,
    lost_splits: u64,
}

impl Probe {
    /// Notes an element of this size.
    #[inline]
    pub(crate) fn note_element(&self, bytes: usize) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes the end of the pass.
    pub(crate) fn note_end(&self) {
        let mut waits = self.waits.lock();
        waits.ended = Some(Instant::now());
    }

    /// Notes that the caller begins to wait. The guard notes the end of the wait.
    pub(crate) fn wait(self: &Arc<Probe>) -> Wait {
        let now = Instant::now();
        let mut waits = self.waits.lock();
        waits.began.get_or_insert(now);
        waits.since = Some(now);
        Wait {
            probe: Arc::clone(self),
            is_first: self.delivered() == 0,
        }
    }

    /// Notes a reader that feeds the iterator from now on.
    pub(crate) fn note_reader(&self, watch: ReaderWatch) {
        self.readers.lock().add(watch);
    }

    /// Notes a notice of the reader.
    pub(crate) fn note(&self, notice: &Notice) {
        if let Notice::SplitSkipped { .. } = notice {
            self.skipped_splits.fetch_add(1, Ordering::Relaxed);
        }
        if let Notice::ElementQuarantined { .. } = notice {
            self.quarantined_elements.fetch_add(1, Ordering::Relaxed);
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
        let delivered = self.delivered();
        // The time is read under the lock, so that no viewer counts a wait beyond its end.
        let (waits, now) = {
            let waits = self.waits.lock();
            (*waits, Instant::now())
        };
        into.set_item("delivered", delivered)?;
        into.set_item("elements", delivered)?;
        into.set_item("bytes", self.bytes.load(Ordering::Relaxed))?;
        waits.describe(now, delivered, into)?;
        into.set_item("skipped_splits", self.skipped_splits.load(Ordering::Relaxed))?;
        let quarantined = self.quarantined_elements.load(Ordering::Relaxed);
        into.set_item("quarantined_elements", quarantined)?;
        // The lock is free while Python objects are made. A new object may start a garbage collection, whose
        // finalisers may measure. Another thread may also wait for the lock with the interpreter's lock held.
        let read = self.readers.lock().read();
        if let Some(read) = read {
            read.describe(into)?;
        }
        let stages = self.stages.lock().clone();
        if let Some(stats) = stages.and_then(|costs| costs.latest()) {
            describe_stages(&stats, into)?;
        }
        Ok(())
    }
}

impl Waits {
    fn describe(&self, now: Instant, delivered: u64, into: &Bound<'_, PyDict>) -> PyResult<()> {
        let time = |from: Option<Instant>, to: Instant| {
            from.map_or(Duration::ZERO, |from| to.saturating_duration_since(from))
        };
        let elapsed = time(self.began, self.ended.unwrap_or(now));
        let waiting = time(self.since, now);
        let waited = (self.waited + waiting).min(elapsed);
        let first = if delivered == 0 { waited } else { self.first };
        let share = if elapsed.is_zero() {
            0.0
        } else {
            waited.as_secs_f64() / elapsed.as_secs_f64()
        };
        into.set_item("elapsed_s", elapsed.as_secs_f64())?;
        into.set_item("waited_s", waited.as_secs_f64())?;
        into.set_item("first_wait_s", first.as_secs_f64())?;
        into.set_item("waiting_s", waiting.as_secs_f64())?;
        into.set_item("wait_share", share)?;
        into.set_item("is_opening", self.is_opening)?;
        into.set_item("has_ended", self.ended.is_some())
    }
}

impl Readers {
    fn add(&mut self, watch: ReaderWatch) {
        self.watched.push(watch);
        // The latest reader stays, although it may have ended, because it shows the transports.
        let latest = self.watched.len() - 1;
        let surplus = self.watched.len().saturating_sub(WATCHED_MAX);
        for (index, watch) in std::mem::take(&mut self.watched).into_iter().enumerate() {
            if index < latest && (index < surplus || watch.has_ended()) {
                self.count(watch.view().as_ref());
            } else {
                self.watched.push(watch);
            }
        }
    }

    /// Adds the counts of a reader to those of the readers that are no longer watched.
    fn count(&mut self, view: Option<&ReaderView>) {
        self.reconnects += view.map_or(0, |view| view.reconnects);
        self.lost_splits += view.map_or(0, |view| view.lost_splits);
    }

    /// Returns the measurements of all readers, if there was one.
    fn read(&self) -> Option<ReadCounts> {
        let views: Vec<ReaderView> = self.watched.iter().filter_map(ReaderWatch::view).collect();
        let latest = views.last()?;
        let links = latest.links.iter();
        let transports = links.map(|(worker, link)| (worker.clone(), link.transport));
        let sum = |of: fn(&ReaderView) -> u64| views.iter().map(of).sum::<u64>();
        Some(ReadCounts {
            transports: transports.collect(),
            waited_for: latest.waited_for,
            prefetched: sum(|view| view.ready),
            reconnects: self.reconnects + sum(|view| view.reconnects),
            lost_splits: self.lost_splits + sum(|view| view.lost_splits),
        })
    }
}

/// The measurements of all readers at one moment.
#[derive(Debug)]
struct ReadCounts {
    /// The transports of the latest reader's links, by worker address.
    transports: BTreeMap<String, &'static str>,
    waited_for: Option<Bottleneck>,
    prefetched: u64,
    reconnects: u64,
    lost_splits: u64,
}

impl ReadCounts {
    fn describe(self, into: &Bound<'_, PyDict>) -> PyResult<()> {
        into.set_item("transports", self.transports)?;
        into.set_item("waited_for", self.waited_for.map(Bottleneck::name))?;
        into.set_item("prefetched", self.prefetched)?;
        into.set_item("reconnects", self.reconnects)?;
        into.set_item("lost_splits", self.lost_splits)
    }
}

/// A wait for an element, which ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    probe: Arc<Probe>,
    /// True if no element has been delivered yet.
    is_first: bool,
}

impl Wait {
    /// Notes that the wait is one for the opening of the source, until [`Wait::opened`].
    pub(crate) fn opens(&self) {
        self.probe.waits.lock().is_opening = true;
    }

    /// Continues the wait in the probe of the source, which is open now.
    pub(crate) fn opened(&mut self, probe: &Arc<Probe>) {
        let mut waits = *self.probe.waits.lock();
        waits.is_opening = false;
        *probe.waits.lock() = waits;
        // The former probe has no wait of its own any more, so nothing is left to note at its end.
        self.probe = Arc::clone(probe);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.probe.waits.lock();
        let waited = waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        waits.is_opening = false;
        waits.waited += waited;
        if self.is_first {
            waits.first += waited;
        }
    }
}

/// The measurements of an iterator, which this object does not keep alive.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Measurements {
    probe: SharedProbe,
}

/// The probe of an iterator. The iterator replaces the probe by that of the source that it opens.
pub(crate) type SharedProbe = Arc<Here<Mutex<Arc<Probe>>>>;

impl Measurements {
    pub(crate) fn new(probe: &SharedProbe) -> Measurements {
        Measurements {
            probe: Arc::clone(probe),
        }
    }
}

#[pymethods]
impl Measurements {
    /// Returns the measurements so far, also while a thread waits for an element, and after the end of the
    /// iterator.
    pub(crate) fn glance<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let probe = Arc::clone(&self.probe.get("iterator")?.lock());
        let stats = PyDict::new(py);
        probe.describe(&stats)?;
        Ok(stats)
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
            known.set_item("is_python", stage.function.as_deref() == Some(NAME))?;
            Ok(known)
        })
        .collect();
    into.set_item("stages", stages?)?;
    into.set_item("stages_elapsed_s", stats.elapsed.as_secs_f64())?;
    into.set_item("stage", stats.bottleneck_name())?;
    into.set_item("stage_index", stats.bottleneck_index())
}
