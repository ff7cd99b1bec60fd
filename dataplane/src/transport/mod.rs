//! The transports that carry messages and packs from one process to another. All transports implement one
//! trait, each in a file or folder of its own.
//!
//! - [`memory`] links two ends within a process. The slot of a pack moves without a copy.
//! - [`quic`] links processes of different hosts. No other part of this crate names quinn.
//! - [`shm`] links two processes of one host through memory that both processes map.
//!
//! A transport moves frames and limits the frames that it holds, but knows no credits. Before a transport
//! allocates memory for a pack that a peer announces, it asks an [`Admission`]. Therefore no byte is received
//! without a grant.

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

use crate::proto::message::ToClient;
use crate::proto::send::TaskPack;

pub use body::{Body, BodyError, Compression};
pub use link::{Admission, ClientLink, Doze, TaskMemory, Transport, WorkerLink};
pub use lost::LinkLost;
#[cfg(not(target_os = "linux"))]
pub use nap::Doorbell;
pub use nap::Nap;
pub use report::LinkReport;
#[cfg(target_os = "linux")]
pub use shm::{Arena, ArenaBudget, Doorbell, PageKind};

/// Maximum size of an element, in bytes. A pack's table stores the length of an element in 32 bits (D2.2).
pub const ELEMENT_BYTES_MAX: usize = u32::MAX as usize;

/// A message or a pack of elements from a worker.
#[derive(Debug)]
pub enum Downstream<P = TaskPack<Body>> {
    /// A message.
    Message(ToClient),
    /// A pack of elements of one task.
    Pack(P),
}
