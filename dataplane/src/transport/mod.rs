//! How messages and packs cross from one process to another: one trait, one file or folder per mechanism.
//!
//! - [`memory`]: within a process; a pack's slot moves, nothing is copied
//! - [`quic`]: between hosts; the only part of this crate that names quinn
//! - [`shm`]: between processes of one host, through memory that both have mapped
//!
//! A transport moves frames and bounds what it holds; it knows no credits. It asks an [`Admission`] before it
//! takes memory for what a peer announces, so a grant exists before a byte does.

pub mod body;
mod link;
mod lost;
pub mod memory;
#[cfg_attr(not(target_os = "linux"), path = "nap_elsewhere.rs")]
mod nap;
pub mod quic;
mod report;
#[cfg(target_os = "linux")]
pub mod shm;

use crate::proto::message::{TaskId, ToClient};
use crate::proto::send::TaskPack;

pub use body::{Body, BodyError, Compressed, Compression};
pub use link::{Admission, ClientLink, Doze, TaskMemory, Transport, WorkerLink};
pub use lost::LinkLost;
#[cfg(not(target_os = "linux"))]
pub use nap::Doorbell;
pub use nap::Nap;
pub use report::LinkReport;
#[cfg(target_os = "linux")]
pub use shm::{Arena, ArenaBudget, Doorbell, PageKind};

/// Bytes of one element at most: a pack's table gives its length in 32 bits (D2.2).
pub const ELEMENT_BYTES_MAX: usize = u32::MAX as usize;

/// A message or elements from a worker.
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
    /// The number of elements.
    pub elements: u64,
    /// The elements.
    pub body: Body,
}
