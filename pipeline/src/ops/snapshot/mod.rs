//! The operation `snapshot`, which writes the elements of the first complete pass and reads them
//! afterwards.

mod definition;
pub(crate) mod exec;
#[cfg(feature = "saved")]
pub(crate) mod writing;

pub use definition::{Packing, Snapshot};
