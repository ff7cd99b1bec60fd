//! The one trait that every mechanism implements, and the demands of its two ends on their users. Refuses to
//! know any mechanism.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};

use millstream_element::SlotAlloc;

#[cfg(target_os = "linux")]
use super::Arena;
use super::{Doorbell, Downstream, InPack, LinkLost, LinkReport, OutPack};
use crate::proto::message::{TaskId, ToWorker};
use crate::proto::receive::ReceiveError;

/// A worker's end of a link.
pub type WorkerLink = dyn Transport<Out = Downstream<OutPack>, In = ToWorker>;

/// A client's end of a link.
pub type ClientLink = dyn Transport<Out = ToWorker, In = Downstream<InPack>>;

/// One end of a link between a client process and a worker.
///
/// All methods return at once; the `poll_` ones wake the task of their context when they may get further. The
/// holder of an end closes it with the reason, so that the peer hears it; dropping an end closes the link
/// without one. What was queued may be lost either way.
pub trait Transport: Send + Debug {
    /// The messages that this end sends.
    type Out: Send;
    /// The messages that this end receives.
    type In: Send;

    /// Returns whether one more frame can be queued. Ready is a promise for the next [`Transport::try_send`].
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>>;

    /// Queues a frame. Call only after `poll_ready` said so; a frame beyond the bound is an error and is
    /// lost.
    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost>;

    /// The next frame from the peer. Messages arrive in order among themselves; packs in any order.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>>;

    /// The next frame from the peer, if there is one, for a thread that will look again by itself: no task is
    /// woken for what comes later, until `poll_recv` was pending or [`Transport::doze`] said where to sleep.
    /// Only for links within a host ([`Transport::is_network`]).
    ///
    /// # Errors
    /// The link is lost.
    fn try_recv(&mut self) -> Result<Option<Self::In>, LinkLost> {
        Ok(None)
    }

    /// Lets the thread that found nothing sleep until the peer has sent something.
    ///
    /// # Errors
    /// The link is lost.
    fn doze(&mut self) -> Result<Doze, LinkLost> {
        Ok(Doze::Nowhere)
    }

    /// Ends the link and tells the peer why, if it can still be told (D1.3). Nothing can be sent behind it.
    fn close(&mut self, why: &LinkLost);

    /// Prepares this end of a worker for a task's elements, before the first of them: one that shares memory
    /// with its client tells it of the task's.
    ///
    /// # Errors
    /// The link cannot carry the task, and is lost.
    fn attach(&mut self, _task: TaskId, _memory: &dyn TaskMemory) -> Result<(), LinkLost> {
        Ok(())
    }

    /// Forgets what [`Transport::attach`] prepared: nothing more of the task follows.
    ///
    /// # Errors
    /// The link is lost.
    fn detach(&mut self, _task: TaskId) -> Result<(), LinkLost> {
        Ok(())
    }

    /// Returns whether payloads cross a network here, so that compressing them can pay.
    fn is_network(&self) -> bool;

    /// Returns the properties that are in force on this link.
    fn report(&self) -> LinkReport;

    /// [`LinkReport::bytes_copied`] alone, which is asked for at every step: links whose report is dear have
    /// it apart.
    fn bytes_copied(&self) -> u64 {
        self.report().bytes_copied
    }
}

/// The way in which a thread can wait for a link.
#[derive(Debug, Clone)]
pub enum Doze {
    /// Nowhere: a link of this kind wakes tasks alone.
    Nowhere,
    /// The thread need not wait, because something came.
    Awake,
    /// Here, until the link is received from again.
    At(Doorbell),
}

/// The memory of a task's elements.
pub trait TaskMemory {
    /// Memory that readers of this host can map, in which elements are produced from now on. `None` where
    /// there is none.
    #[cfg(target_os = "linux")]
    fn arena(&self) -> Option<Arc<Arena>>;

    /// Returns whether each element goes to several readers.
    fn is_shared(&self) -> bool;
}

/// Says whether announced elements may come in, and where they go.
pub trait Admission: Send + Sync + Debug {
    /// Books `elements` of `region_bytes` in all, that begin behind `first`, or says what is wrong with them
    /// (D2.3).
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError>;

    /// Memory for what was admitted.
    fn slot_alloc(&self) -> &dyn SlotAlloc;
}
