//! Packs: many elements side by side in one slot, each starting at a 64-byte boundary. The elements share one
//! allocation and one reference count, and are sent together.
//!
//! - `ends`: the end of each element of a pack, shared by all parts of the pack
//! - `finished`: [`Pack`], finished elements that can be split and sent
//! - `open`: [`OpenPack`], the side that takes elements while more elements are written
//! - `write`: [`PackWriter`], the side that writes elements

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
