//! Counters that the producing processes and the reader share: elements that left the task buffers, and
//! elements that the reader returned.
//!
//! All processes map one page of a file. The worker counts an element when it leaves the worker's buffer, and
//! then records the outstanding elements. The reader counts an element before its credit is free again.
#![expect(unsafe_code, reason = "processes share memory through a mapped file")]

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;

/// The distance between two counters in bytes: each counter has its own cache line.
const LINE_BYTES: usize = 64;
const LINES: usize = 8;

/// The shared counters.
#[derive(Debug)]
pub(crate) struct Gauge {
    map: MmapMut,
}

#[derive(Debug, Clone, Copy)]
enum Counter {
    Left = 0,
    Handed = 1,
    Peak = 2,
    WorkerMtu = 3,
    Copied = 4,
    Notes = 5,
}

impl Gauge {
    /// Opens the file of the counters, and creates the file if it is missing.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len((LINE_BYTES * LINES) as u64)?;
        // SAFETY: the file belongs to this benchmark, in a directory of its own. The benchmark's processes
        // map the whole file, never truncate it below this size, and access it through atomics only.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Self { map })
    }

    /// Counts elements that left a task buffer.
    pub(crate) fn count_left(&self, elements: u64) {
        let left = self.counter(Counter::Left).fetch_add(elements, Ordering::SeqCst) + elements;
        let outstanding = left.saturating_sub(self.counter(Counter::Handed).load(Ordering::SeqCst));
        self.counter(Counter::Peak)
            .fetch_max(outstanding, Ordering::Relaxed);
    }

    /// Counts an element that the reader returned. There is only one reader.
    pub(crate) fn count_handed(&self) {
        self.counter(Counter::Handed).fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of outstanding elements.
    pub(crate) fn outstanding(&self) -> u64 {
        let handed = self.counter(Counter::Handed).load(Ordering::SeqCst);
        self.counter(Counter::Left)
            .load(Ordering::SeqCst)
            .saturating_sub(handed)
    }

    /// Returns the maximum number of outstanding elements.
    pub(crate) fn peak(&self) -> u64 {
        self.counter(Counter::Peak).load(Ordering::Relaxed)
    }

    /// Records the current MTU of a worker.
    pub(crate) fn note_worker_mtu(&self, mtu: u16) {
        self.counter(Counter::WorkerMtu)
            .store(mtu.into(), Ordering::Relaxed);
    }

    /// Returns the MTU that was recorded last.
    pub(crate) fn worker_mtu(&self) -> Option<u16> {
        u16::try_from(self.counter(Counter::WorkerMtu).load(Ordering::Relaxed))
            .ok()
            .filter(|mtu| *mtu > 0)
    }

    /// Adds payload bytes that a worker has copied since its previous record.
    pub(crate) fn note_copied(&self, bytes: u64) {
        self.counter(Counter::Copied).fetch_add(bytes, Ordering::Relaxed);
        self.counter(Counter::Notes).fetch_add(1, Ordering::Release);
    }

    /// Returns the number of records of copied bytes.
    pub(crate) fn notes(&self) -> u64 {
        self.counter(Counter::Notes).load(Ordering::Acquire)
    }

    /// Returns the number of elements that left the task buffers so far.
    pub(crate) fn left(&self) -> u64 {
        self.counter(Counter::Left).load(Ordering::SeqCst)
    }

    /// Returns the payload bytes that workers have recorded as copied.
    pub(crate) fn copied(&self) -> u64 {
        self.counter(Counter::Copied).load(Ordering::Relaxed)
    }

    fn counter(&self, counter: Counter) -> &AtomicU64 {
        let place = self.map[counter as usize * LINE_BYTES..]
            .as_ptr()
            .cast::<u64>()
            .cast_mut();
        // SAFETY: the address is within the map and aligned to a cache line. The map lives as long as `self`,
        // and all processes access it through atomics only.
        unsafe { AtomicU64::from_ptr(place) }
    }
}
