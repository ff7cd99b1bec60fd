//! The end of a task's buffer to which a pipeline writes, on the pipeline's own thread.
//!
//! The producer owns the packs that are being written, and the wait for room. The computation of elements is
//! unknown to it.

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

/// Maximum number of elements of a pack.
pub const PACK_ELEMENTS: usize = 8192;

/// Maximum number of elements of a pack of larger elements. Packs of larger elements are written if clients
/// take elements without a copy and each element is written within [`QUICK`]. For such elements, handing over
/// packs of one element would take longer than writing the packs.
/// [`QUICK`]: then handing over packs of one would take longer than writing them.
const FEW_ELEMENTS: usize = 4;

/// Maximum bytes of a pack of larger elements. The limit keeps waiting elements within the caches. A client
/// that keeps one element of a pack keeps the whole pack in memory.
const FEW_BYTES: usize = 4 << 20;

/// Maximum time to write an element of such a pack: ten times the cost of handing over a pack.
const QUICK: Duration = Duration::from_micros(10);

/// The time for which the producer waits for memory. The producer waits longer than a client without a link
/// may keep its elements.
const MEMORY_WAIT: Duration = Duration::from_secs(120);

/// The time between two attempts to allocate memory. The return of a slot is not announced.
const MEMORY_LOOK: Duration = Duration::from_millis(2);

/// The error of a task that was stopped, by the dispatcher or with its worker.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the task was stopped")]
pub struct Stopped;

/// The reason for which nothing was written.
#[derive(Debug, Error)]
pub enum ProduceError<E> {
    /// The element does not fit the rest of the pack. A new pack of at least `needed_bytes` would fit it.
    #[error("the pack is full")]
    Full {
        /// The size of the element, in bytes.
        needed_bytes: usize,
    },
    /// The element exceeds the maximum size of elements.
    #[error(
        "expected an element of at most {ELEMENT_BYTES_MAX} bytes, found {element_bytes} bytes; make smaller batches"
    )]
    TooLarge {
        /// The size of the element, in bytes.
        element_bytes: usize,
    },
    /// The element is larger than the cross-trainer cache of its task (D8.4).
    #[error(
        "an element takes {stride_bytes} bytes, but the cross-trainer cache of a task has only {cache_bytes} bytes: \
         raise cross_trainer_cache_bytes on the workers, or make smaller batches"
    )]
    LargerThanCache {
        /// The size of the element including the gap after it, in bytes.
        stride_bytes: usize,
        /// The size of the cache, in bytes.
        cache_bytes: u64,
    },
    /// The task was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No memory for a pack was available, for two minutes if the memory was only used up.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The element could not be computed.
    #[error("{0}")]
    Compute(E),
}

/// The writing end of a task's buffer.
#[derive(Debug)]
pub struct Producer {
    buffer: Arc<TaskBuffer>,
    alloc: Arc<dyn SlotAlloc>,
    layout: Arc<Layout>,
    /// The size of a typical element in bytes if the specification is static, else 0.
    typical_bytes: usize,
    /// The packs that are being written, which take elements in turn: one for each consumer of a coordinated
    /// read, otherwise one.
    lanes: Vec<PackLane>,
    written_elements: u64,
    written_bytes: u64,
    /// True if the last elements took at most [`QUICK`] each.
    is_quick: bool,
    linger: Linger,
}

/// A pack that is being written.
#[derive(Debug, Default)]
struct PackLane {
    writer: Option<PackWriter>,
    /// The size of the next element in bytes, if it did not fit the pack.
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

    /// Returns the layout of the task's elements.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Blocks until a client asks for a first element.
    pub fn wait_started(&self) -> Result<(), Stopped> {
        if self.buffer.wait_started() {
            Ok(())
        } else {
            Err(Stopped)
        }
    }

    /// Returns whether a client asked for a first element, for producers without a thread that can block.
    pub fn is_started(&self) -> bool {
        self.buffer.is_started()
    }

    /// Returns whether the buffer has room for one more element, for producers without a thread that can
    /// block.
    pub fn has_room(&self) -> bool {
        self.buffer.has_room(self.written_elements, self.written_bytes)
    }

    /// Blocks until the buffer has room for one more element.
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

    /// Returns whether the task was stopped, for a producer that computes for a long time before it writes.
    pub fn is_stopped(&self) -> bool {
        self.buffer.is_stopped()
    }

    /// Returns the maximum number of elements that one [`Producer::write`] may commit. The maximum is one if
    /// the next element is for another consumer.
    pub fn run_elements_max(&self) -> usize {
        if self.lanes.len() == 1 { usize::MAX } else { 1 }
    }

    /// Runs `write` on the present pack, and again on a new pack if the element does not fit. `write` may
    /// commit at most [`Producer::run_elements_max`] elements, which can be sent at once. Blocks while no
    /// memory is available.
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
                "one consumer got {elements} consecutive elements"
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
                    // The origins of elements make them larger than the minimum of a static specification.
                    // The following elements have a similar size.
                    if layout.is_static() {
                        self.typical_bytes = self.typical_bytes.max(needed_bytes);
                    }
                }
                other => return other,
            }
        }
    }

    /// Records that a split has no further elements. Blocks while 4096 ends of splits are untold. If the task
    /// is read through the cross-trainer cache, clients are not told of ends (D8.5).
    pub fn split_done(&self, lease: u64, attempt: u32) {
        self.buffer.push_mark(Mark {
            position: self.written_elements,
            lease,
            attempt,
        });
    }

    /// Ends the task. Returns the ending that the task's clients receive. The end of a read through the
    /// cross-trainer cache is a failure (D8.4).
    pub fn finish(self, ending: Ending) -> Ending {
        self.buffer.end(ending, self.written_elements)
    }

    /// Returns the number of elements written so far.
    pub fn written_elements(&self) -> u64 {
        self.written_elements
    }

    /// Returns the lane of the next element.
    fn turn(&self) -> usize {
        match self.lanes.len() {
            1 => 0,
            lanes => (self.written_elements % lanes as u64) as usize,
        }
    }

    /// Opens the next pack of a lane, large enough for the element that did not fit the last pack.
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
        // The last pack is complete, so the slot is freed when the readers of the pack are done.
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

/// Returns the size in bytes of a pack whose elements take `stride_bytes` each. An element that fills most of
/// a pack gets a slot of its own, which is freed as soon as the element was read.
fn capacity_bytes(stride_bytes: usize, limits: PackLimits, lanes: usize, is_quick: bool) -> usize {
    let pack_bytes = (limits.pack_bytes / lanes).next_multiple_of(64);
    if stride_bytes * 2 <= pack_bytes {
        return pack_bytes;
    }
    let is_few = limits.may_be_large && is_quick;
    let few = if is_few { FEW_BYTES / stride_bytes } else { 1 };
    stride_bytes * few.clamp(1, FEW_ELEMENTS)
}

/// Returns the number of bytes written, including the gap after the last element.
fn strides_bytes(writer: &PackWriter) -> u64 {
    writer.committed_bytes().next_multiple_of(64) as u64
}

/// Returns the size in bytes of every element of a static specification, or 0 for other specifications.
pub(super) fn typical_element_bytes(layout: &Layout) -> usize {
    if layout.is_static() {
        layout.element_bytes(&[], 0).unwrap_or_default()
    } else {
        0
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let failure = crate::proto::message::Failure::new(
            "internal",
            "the task's producer was dropped before its end",
            "",
            "",
        );
        // The call has no effect after `finish`.
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
