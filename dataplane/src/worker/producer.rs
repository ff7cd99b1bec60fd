//! The end of a task's buffer that a pipeline writes to, from its own thread.
//!
//! Owns the packs in the making and the wait for room. Refuses to know what is computed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_element::{AllocError, Layout, PackWriter, SlotAlloc};
use thiserror::Error;

use super::buffer::{Mark, TaskBuffer};
use super::clock;
use super::pack_limits::PackLimits;
use crate::linger::Linger;
use crate::proto::send::Ending;
use crate::transport::ELEMENT_BYTES_MAX;

/// Elements of a pack at most.
pub const PACK_ELEMENTS: usize = 8192;

/// Elements of a pack that gathers larger ones, which it does where clients take them without a copy and each
/// is written within
/// [`QUICK`]: then handing over packs of one would take longer than writing them.
const FEW_ELEMENTS: usize = 4;

/// Bytes of such a pack at most: what waits within the caches at any time, and what a client that keeps one
/// of them keeps.
const FEW_BYTES: usize = 4 << 20;

/// The time that an element of such a pack may take to write: ten times the cost of handing one over.
const QUICK: Duration = Duration::from_micros(10);

/// The time for which the producer waits for memory: longer than clients that lost their link may keep
/// theirs.
const MEMORY_WAIT: Duration = Duration::from_secs(120);

/// The time between two requests for memory meanwhile; a slot that comes back is not announced.
const MEMORY_LOOK: Duration = Duration::from_millis(2);

/// The task was stopped, by its dispatcher or with its worker.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the task was stopped")]
pub struct Stopped;

/// Why nothing was written.
#[derive(Debug, Error)]
pub enum ProduceError<E> {
    /// The elements do not fit what is left of the pack; a new one of `needed_bytes` at least will do.
    #[error("the pack is full")]
    Full {
        /// The bytes of the element.
        needed_bytes: usize,
    },
    /// The element is larger than any can be.
    #[error(
        "an element takes {element_bytes} bytes, it can have {ELEMENT_BYTES_MAX} at most; make smaller batches"
    )]
    TooLarge {
        /// The bytes of the element.
        element_bytes: usize,
    },
    /// The element is larger than the cross-trainer cache that is to keep it (D8.4).
    #[error(
        "an element takes {stride_bytes} bytes, more than the {cache_bytes} that the cross-trainer cache of a task has: \
         give the workers more (cross_trainer_cache_bytes), or make smaller batches"
    )]
    LargerThanCache {
        /// The bytes of the element with the gap after it.
        stride_bytes: usize,
        /// The bytes of the cache.
        cache_bytes: u64,
    },
    /// The task was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// There is no memory for a pack, nor was there any for two minutes.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The element could not be computed.
    #[error("{0}")]
    Compute(E),
}

/// Writes a task's elements.
#[derive(Debug)]
pub struct Producer {
    buffer: Arc<TaskBuffer>,
    alloc: Arc<dyn SlotAlloc>,
    layout: Arc<Layout>,
    /// The bytes of an element, where all have the same size.
    typical_bytes: usize,
    /// Packs in the making, which take elements in turn: one for each consumer of a coordinated read, else
    /// one.
    lanes: Vec<PackLane>,
    written_elements: u64,
    written_bytes: u64,
    /// The last elements took no longer than [`QUICK`] each.
    is_quick: bool,
    linger: Linger,
}

/// A pack in the making.
#[derive(Debug, Default)]
struct PackLane {
    writer: Option<PackWriter>,
    /// The bytes of its next element, when it did not fit.
    needed_bytes: usize,
}

impl Producer {
    pub(super) fn new(buffer: Arc<TaskBuffer>, alloc: Arc<dyn SlotAlloc>, layout: Arc<Layout>) -> Self {
        let typical_bytes = typical_element_bytes(&layout);
        let lanes = std::iter::repeat_with(PackLane::default).take(buffer.mode().lanes());
        Self {
            lanes: lanes.collect(),
            buffer,
            alloc,
            layout,
            typical_bytes,
            written_elements: 0,
            written_bytes: 0,
            is_quick: false,
            linger: Linger::default(),
        }
    }

    /// The layout of the task's elements.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Waits until a client asked for a first element. Blocks the thread.
    pub fn wait_started(&self) -> Result<(), Stopped> {
        if self.buffer.wait_started() {
            Ok(())
        } else {
            Err(Stopped)
        }
    }

    /// Returns whether a client asked for a first element. For producers that have no thread to wait in.
    pub fn is_started(&self) -> bool {
        self.buffer.is_started()
    }

    /// Returns whether the buffer takes one more element now. For producers that have no thread to wait in.
    pub fn has_room(&self) -> bool {
        self.buffer.has_room(self.written_elements, self.written_bytes)
    }

    /// Waits until the buffer takes one more element. Blocks the thread.
    pub fn wait_room(&mut self) -> Result<(), Stopped> {
        if self.has_room() {
            return Ok(());
        }
        let (elements, bytes) = (self.written_elements, self.written_bytes);
        if self.buffer.wait_room(elements, bytes, &mut self.linger) {
            Ok(())
        } else {
            Err(Stopped)
        }
    }

    /// Returns whether the task was stopped, for a producer that computes long before it writes.
    pub fn is_stopped(&self) -> bool {
        self.buffer.is_stopped()
    }

    /// The most elements that one [`Producer::write`] may commit: one where the next is another consumer's.
    pub fn run_elements_max(&self) -> usize {
        if self.lanes.len() == 1 { usize::MAX } else { 1 }
    }

    /// Runs `write` on the pack in the making, and again on a new one if the element does not fit. What
    /// `write` commits, [`Producer::run_elements_max`] at most, can leave at once. Blocks the thread while
    /// the allocator is used up.
    pub fn write<E>(
        &mut self,
        mut write: impl FnMut(&mut PackWriter, &Layout) -> Result<(), ProduceError<E>>,
    ) -> Result<(), ProduceError<E>> {
        let (layout, run_max) = (self.layout.clone(), self.run_elements_max() as u64);
        loop {
            let turn = self.turn();
            let is_fresh = self.lanes[turn].writer.is_none() || self.lanes[turn].needed_bytes > 0;
            if is_fresh {
                self.open(turn)?;
            }
            let Some(writer) = self.lanes[turn].writer.as_mut() else {
                return Err(Stopped.into());
            };
            let before = (writer.len() as u64, strides_bytes(writer));
            let begun = clock::now();
            let outcome = write(writer, &layout);
            let took = clock::now() - begun;
            let (elements, bytes) = (writer.len() as u64 - before.0, strides_bytes(writer) - before.1);
            debug_assert!(
                elements <= run_max,
                "{elements} elements went to one consumer in a row"
            );
            self.written_elements += elements;
            self.written_bytes += bytes;
            if elements > 0 {
                self.is_quick = took.as_nanos() <= QUICK.as_nanos() * u128::from(elements);
                self.buffer.committed(bytes);
            }
            match outcome {
                Err(ProduceError::Full { needed_bytes }) => {
                    let is_enough = writer.capacity_bytes() >= needed_bytes;
                    self.lanes[turn].needed_bytes = needed_bytes.max(1);
                    if elements > 0 {
                        return Ok(());
                    }
                    if is_fresh && is_enough {
                        return Err(ProduceError::Full { needed_bytes });
                    }
                    // Provenance makes elements of a static specification larger than their least; the next
                    // are alike.
                    if layout.is_static() {
                        self.typical_bytes = self.typical_bytes.max(needed_bytes);
                    }
                }
                other => return other,
            }
        }
    }

    /// Says that a split has no further elements. Blocks the thread while 4096 such ends wait to be told.
    /// Nobody is told where the task is read through the cross-trainer cache (D8.5).
    pub fn split_done(&self, lease: u64, attempt: u32) {
        self.buffer.push_mark(Mark {
            position: self.written_elements,
            lease,
            attempt,
        });
    }

    /// Says that nothing follows. Returns what the task's clients hear: a coordinated read that is exhausted
    /// has failed (D7.5), and so has one through the cross-trainer cache (D8.4).
    pub fn finish(self, ending: Ending) -> Ending {
        self.buffer.end(ending, self.written_elements)
    }

    /// Elements written so far.
    pub fn written_elements(&self) -> u64 {
        self.written_elements
    }

    /// The lane of the next element.
    fn turn(&self) -> usize {
        match self.lanes.len() {
            1 => 0,
            lanes => (self.written_elements % lanes as u64) as usize,
        }
    }

    /// Opens the next pack of a lane, large enough for the element that did not fit the last one.
    fn open<E>(&mut self, turn: usize) -> Result<(), ProduceError<E>> {
        let needed_bytes = std::mem::take(&mut self.lanes[turn].needed_bytes);
        let element_bytes = self.typical_bytes.max(needed_bytes);
        if element_bytes > ELEMENT_BYTES_MAX {
            return Err(ProduceError::TooLarge { element_bytes });
        }
        let (limits, stride_bytes) = (self.buffer.pack_limits(), element_bytes.next_multiple_of(64));
        if let Some(cache_bytes) = limits.cache_bytes.filter(|bytes| stride_bytes as u64 > *bytes) {
            return Err(ProduceError::LargerThanCache {
                stride_bytes,
                cache_bytes,
            });
        }
        let capacity = capacity_bytes(stride_bytes, limits, self.lanes.len(), self.is_quick);
        let elements_max = (capacity / element_bytes.max(64)).clamp(1, PACK_ELEMENTS);
        // The pack before is complete; its slot is free as soon as its readers are done.
        self.lanes[turn].writer = None;
        let mut waiting_since = None;
        let (writer, open) = loop {
            match PackWriter::open(&*self.alloc, capacity, elements_max) {
                Err(error @ AllocError::Exhausted { .. }) => {
                    let since = *waiting_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > MEMORY_WAIT {
                        return Err(error.into());
                    }
                    if !self.buffer.wait_a_moment(MEMORY_LOOK) {
                        return Err(Stopped.into());
                    }
                }
                Err(error @ (AllocError::TooLarge { .. } | AllocError::OutOfMemory { .. })) => {
                    return Err(error.into());
                }
                Ok(opened) => break opened,
            }
        };
        self.buffer.push_pack(turn, open);
        self.lanes[turn].writer = Some(writer);
        Ok(())
    }
}

/// Bytes of a pack whose elements take `stride_bytes` each. One that fills most of a pack gets a slot of its
/// own, which is freed as soon as it was read.
fn capacity_bytes(stride_bytes: usize, limits: PackLimits, lanes: usize, is_quick: bool) -> usize {
    let pack_bytes = (limits.pack_bytes / lanes).next_multiple_of(64);
    if stride_bytes * 2 <= pack_bytes {
        return pack_bytes;
    }
    let is_few = limits.may_be_large && is_quick;
    let few = if is_few { FEW_BYTES / stride_bytes } else { 1 };
    stride_bytes * few.clamp(1, FEW_ELEMENTS)
}

/// Bytes written, the gap behind the last element included.
fn strides_bytes(writer: &PackWriter) -> u64 {
    writer.committed_bytes().next_multiple_of(64) as u64
}

/// Returns the bytes of every element of a static specification; 0 for others.
pub(super) fn typical_element_bytes(layout: &Layout) -> usize {
    if layout.is_static() {
        layout.element_bytes(&[], 0).unwrap_or_default()
    } else {
        0
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let failure =
            crate::proto::message::Failure::new("internal", "the task's producer went away", "", "");
        // Has no effect behind `finish`.
        self.buffer.end(Ending::Failed(failure), self.written_elements);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pack_limits::PACK_BYTES;
    use super::*;

    #[test]
    fn only_quick_copyless_elements_share_packs() {
        let limits = |may_be_large| PackLimits {
            pack_bytes: PACK_BYTES,
            may_be_large,
            cache_bytes: None,
        };
        let capacity = |stride_bytes, is_local, is_quick| {
            capacity_bytes(stride_bytes, limits(is_local), 1, is_quick) / stride_bytes
        };
        for (stride_bytes, few) in [
            (64 << 10, 4),
            (192 << 10, 4),
            (1 << 20, 4),
            (2 << 20, 2),
            (3 << 20, 1),
        ] {
            let alone = (PACK_BYTES / stride_bytes).max(1);
            assert_eq!(capacity(stride_bytes, true, true), few, "{stride_bytes}");
            assert_eq!(capacity(stride_bytes, true, false), alone, "{stride_bytes}");
            assert_eq!(capacity(stride_bytes, false, true), alone, "{stride_bytes}");
        }
    }

    #[test]
    fn coordinated_consumers_share_packs() {
        let limits = PackLimits {
            pack_bytes: PACK_BYTES,
            may_be_large: false,
            cache_bytes: None,
        };
        assert_eq!(capacity_bytes(64, limits, 4, true), PACK_BYTES / 4);
    }
}
