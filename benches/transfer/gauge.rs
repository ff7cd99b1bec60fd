//! Counters that the producing processes and the reader share: what left the task buffers, what was handed
//! over.
//!
//! One page of a file, mapped by all of them. The worker counts an element as it leaves its buffer and looks
//! at once how many are outstanding then; the reader counts a hand-over before its credit is free.
#![expect(
    unsafe_code,
    reason = "a mapped file is the only memory that processes share without a library for it"
)]

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;

/// Counters of 8 bytes, each on a cache line of its own.
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
    /// Opens the file, which is made when it is not there.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len((LINE_BYTES * LINES) as u64)?;
        // SAFETY: the file is this benchmark's own, in a directory of its own; its processes map it whole,
        // never truncate it below this size, and touch it through atomics only.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Self { map })
    }

    /// Elements left a task buffer.
    pub(crate) fn count_left(&self, elements: u64) {
        let left = self.counter(Counter::Left).fetch_add(elements, Ordering::SeqCst) + elements;
        let outstanding = left.saturating_sub(self.counter(Counter::Handed).load(Ordering::SeqCst));
        self.counter(Counter::Peak)
            .fetch_max(outstanding, Ordering::Relaxed);
    }

    /// An element was handed over; there is one reader.
    pub(crate) fn count_handed(&self) {
        self.counter(Counter::Handed).fetch_add(1, Ordering::SeqCst);
    }

    /// Elements outstanding now.
    pub(crate) fn outstanding(&self) -> u64 {
        let handed = self.counter(Counter::Handed).load(Ordering::SeqCst);
        self.counter(Counter::Left)
            .load(Ordering::SeqCst)
            .saturating_sub(handed)
    }

    /// The most that were outstanding.
    pub(crate) fn peak(&self) -> u64 {
        self.counter(Counter::Peak).load(Ordering::Relaxed)
    }

    /// Notes the MTU in force at a worker.
    pub(crate) fn note_worker_mtu(&self, mtu: u16) {
        self.counter(Counter::WorkerMtu)
            .store(mtu.into(), Ordering::Relaxed);
    }

    /// The MTU last noted.
    pub(crate) fn worker_mtu(&self) -> Option<u16> {
        u16::try_from(self.counter(Counter::WorkerMtu).load(Ordering::Relaxed))
            .ok()
            .filter(|mtu| *mtu > 0)
    }

    /// A worker copied so many payload bytes more since it last said so.
    pub(crate) fn note_copied(&self, bytes: u64) {
        self.counter(Counter::Copied).fetch_add(bytes, Ordering::Relaxed);
        self.counter(Counter::Notes).fetch_add(1, Ordering::Release);
    }

    /// Returns how often workers said what they copied.
    pub(crate) fn notes(&self) -> u64 {
        self.counter(Counter::Notes).load(Ordering::Acquire)
    }

    /// Elements that left the task buffers so far.
    pub(crate) fn left(&self) -> u64 {
        self.counter(Counter::Left).load(Ordering::SeqCst)
    }

    /// Payload bytes that the workers have said they copied.
    pub(crate) fn copied(&self) -> u64 {
        self.counter(Counter::Copied).load(Ordering::Relaxed)
    }

    fn counter(&self, counter: Counter) -> &AtomicU64 {
        let place = self.map[counter as usize * LINE_BYTES..]
            .as_ptr()
            .cast::<u64>()
            .cast_mut();
        // SAFETY: the place is within the map and aligned to a cache line. It lives as long as `self`, and
        // all processes access it through atomics alone.
        unsafe { AtomicU64::from_ptr(place) }
    }
}
