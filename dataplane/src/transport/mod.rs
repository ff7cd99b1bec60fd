//! How messages and packs cross from one process to another: one trait, one file or folder per mechanism.
//!
//! - [`memory`]: within a process; a pack's slot moves, nothing is copied
//! - [`quic`]: between hosts; the only part of this crate that names quinn
//!
//! A transport moves frames and bounds what it holds; it knows no credits. It asks an [`Admission`] before it takes
//! memory for what a peer announces, so a grant exists before a byte does.

pub mod body;
mod lost;
pub mod memory;
pub mod quic;
mod report;

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::proto::message::{TaskId, ToClient, ToWorker};
use crate::proto::receive::ReceiveError;
use crate::proto::send::TaskPack;
use millstream_element::SlotAlloc;

pub use body::{Body, BodyError, Compressed, Compression};
pub use lost::LinkLost;
pub use report::LinkReport;

/// Bytes of one element at most: a pack's table gives its length in 32 bits (D2.2).
pub const ELEMENT_BYTES_MAX: usize = u32::MAX as usize;

/// What a worker sends: a message, or elements.
#[derive(Debug)]
pub enum Downstream<P> {
    /// A message.
    Message(ToClient),
    /// Elements of one task.
    Pack(P),
}

/// Elements as they leave a worker.
#[derive(Debug)]
pub struct OutPack {
    /// The elements and their place in the subscription.
    pub elements: TaskPack,
    /// Their compressed form, where that is what travels.
    pub compressed: Option<Compressed>,
}

/// Elements as they reach a client.
#[derive(Debug)]
pub struct InPack {
    /// The task they belong to.
    pub task: TaskId,
    /// Elements of this subscription before them.
    pub first: u64,
    /// How many they are.
    pub elements: u64,
    /// Them.
    pub body: Body,
}

/// A worker's end of a link.
pub type WorkerLink = dyn Transport<Out = Downstream<OutPack>, In = ToWorker>;

/// A client's end of a link.
pub type ClientLink = dyn Transport<Out = ToWorker, In = Downstream<InPack>>;

/// One end of a link between a client process and a worker.
///
/// All methods return at once; the `poll_` ones wake the task of their context when they may get further. Whoever
/// holds an end closes it with the reason, so that the peer hears it; dropping an end closes the link without one. What
/// was queued may be lost either way.
pub trait Transport: Send + Debug {
    /// What this end sends.
    type Out: Send;
    /// What this end receives.
    type In: Send;

    /// Whether one more frame can be queued. Ready is a promise for the next [`Transport::try_send`].
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>>;

    /// Queues a frame. Call only after `poll_ready` said so; a frame beyond the bound is an error and is lost.
    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost>;

    /// The next frame from the peer. Messages arrive in order among themselves; packs in any order.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>>;

    /// Ends the link and tells the peer why, if it can still be told (D1.3). Nothing can be sent behind it.
    fn close(&mut self, why: &LinkLost);

    /// Where elements for this link are best produced.
    fn slot_alloc(&self) -> Arc<dyn SlotAlloc>;

    /// Whether payloads cross a network here, so that compressing them can pay.
    fn is_network(&self) -> bool;

    /// What is in force on this link.
    fn report(&self) -> LinkReport;
}

/// Says whether announced elements may come in, and where they go.
pub trait Admission: Send + Sync + Debug {
    /// Books `elements` of `region_bytes` in all, that begin behind `first`, or says what is wrong with them (D2.3).
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError>;

    /// Memory for what was admitted.
    fn slot_alloc(&self) -> &dyn SlotAlloc;
}
