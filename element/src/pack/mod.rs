//! Packs: many elements side by side in one slot, each starting at a 64-byte boundary. They share one
//! allocation and one reference count, and travel together.
//!
//! - `ends`: where each element of a pack ends, shared by all its parts
//! - `finished`: [`Pack`], finished elements that can be split and sent
//! - `open`: [`OpenPack`], the side that takes elements while more are written
//! - `write`: [`PackWriter`], the side that writes

mod ends;
mod finished;
mod open;
mod write;

#[cfg(test)]
mod tests;

pub use ends::MAX_PACK_ELEMENTS;
pub use finished::{Pack, PackError};
pub use open::OpenPack;
pub use write::{ElementWriter, PackWriter, TensorBytes, TensorRef, WriteError};
