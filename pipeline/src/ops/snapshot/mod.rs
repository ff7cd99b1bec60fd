//! `snapshot`: the elements that were written when the same dataset was first read to its end.

mod definition;
pub(crate) mod exec;
#[cfg(feature = "saved")]
pub(crate) mod writing;

pub use definition::{Packing, Snapshot};
