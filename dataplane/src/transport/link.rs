//! The trait that every transport implements, and the traits that both ends of a link require of their
//! callers. No transport is named here.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};

use millstream_element::SlotAlloc;

#[cfg(target_os = "linux")]
use super::Arena;
use super::{Doorbell, Downstream, LinkLost, LinkReport};
use crate::proto::message::{TaskId, ToWorker};
use crate::proto::receive::ReceiveError;

/// A worker's end of a link.
pub type WorkerLink = dyn Transport<Out = Downstream, In = ToWorker>;

/// A client's end of a link.
pub type ClientLink = dyn Transport<Out = ToWorker, In = Downstream>;

/// One end of a link between a client process and a worker.
///
/// All methods return at once. A `poll_` method that returns `Pending` wakes the task of its context when the
/// method can make progress.
///
/// The owner of an end should close the link with a reason, which the peer receives. Dropping an end closes
/// the link without a reason. Either way, queued frames may be lost.
pub trait Transport: Send + Debug {
    /// The messages that this end sends.
    type Out: Send;
    /// The messages that this end receives.
    type In: Send;

    /// Returns whether one more frame can be queued. `Ready(Ok)` guarantees that the next
    /// [`Transport::try_send`] has room.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>>;

    /// Queues a frame. The caller must have received `Ready` from `poll_ready`; a frame beyond the limit is
    /// lost with an error.
    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost>;

    /// Returns the next frame from the peer. Messages arrive in order among each other; packs arrive in any
    /// order.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>>;

    /// Returns the next frame from the peer without waiting, or `None` if no frame has arrived. The calling
    /// thread must look again by itself. Later frames wake no task until `poll_recv` was pending or
    /// [`Transport::doze`] returned a place to sleep. The method is only for links within a host
    /// ([`Transport::is_network`]).
    ///
    /// # Errors
    /// Returns an error if the link is lost.
    fn try_recv(&mut self) -> Result<Option<Self::In>, LinkLost> {
        Ok(None)
    }

    /// Prepares a thread that found no frame to sleep until the peer has sent a frame.
    ///
    /// # Errors
    /// Returns an error if the link is lost.
    fn doze(&mut self) -> Result<Doze, LinkLost> {
        Ok(Doze::Nowhere)
    }

    /// Ends the link and tells the peer the reason, if the peer can still be reached (D1.3). Nothing can be
    /// sent after a call of this method.
    fn close(&mut self, why: &LinkLost);

    /// Prepares a worker's end for the elements of a task, before the first element is sent. A link that
    /// shares memory with its client announces the task's memory to the client.
    ///
    /// Returns an error if the link cannot carry the task. The link is then lost.
    fn attach(&mut self, _task: TaskId, _memory: &dyn TaskMemory) -> Result<(), LinkLost> {
        Ok(())
    }

    /// Releases the preparations of [`Transport::attach`]. No element of the task may follow.
    ///
    /// # Errors
    /// Returns an error if the link is lost.
    fn detach(&mut self, _task: TaskId) -> Result<(), LinkLost> {
        Ok(())
    }

    /// Returns whether the link crosses a network, so that compression can pay off.
    fn is_network(&self) -> bool;

    /// Returns the properties that are in force on this link.
    fn report(&self) -> LinkReport;

    /// Returns [`LinkReport::bytes_copied`] alone. The caller asks at every step, so links with an expensive
    /// report override this method.
    fn bytes_copied(&self) -> u64 {
        self.report().bytes_copied
    }
}

/// The way in which a thread can wait for a link.
#[derive(Debug, Clone)]
pub enum Doze {
    /// The thread cannot sleep for this link, because the link wakes only tasks.
    Nowhere,
    /// The thread need not sleep, because something has arrived.
    Awake,
    /// The thread can sleep at this doorbell until the caller next receives from the link.
    At(Doorbell),
}

/// The memory of a task's elements.
pub trait TaskMemory {
    /// Returns the memory in which elements are produced from now on and which readers of this host can map.
    /// Returns `None` if the task has no such memory.
    #[cfg(target_os = "linux")]
    fn arena(&self) -> Option<Arc<Arena>>;

    /// Returns whether each element is sent to several readers.
    fn is_shared(&self) -> bool;
}

/// The decision whether announced elements may be received, and the memory for these elements.
pub trait Admission: Send + Sync + Debug {
    /// Books `elements` of `region_bytes` in total, the first of which has number `first` in the
    /// subscription. Returns an error if the pack violates the grants (D2.3).
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError>;

    /// Returns the allocator of the memory for admitted elements.
    fn slot_alloc(&self) -> &dyn SlotAlloc;
}
