//! Access to the file systems of this machine.

mod file;
mod listing;

#[cfg(feature = "storage")]
pub(super) use file::whole;
pub(super) use file::{LocalFile, open};
pub(super) use listing::list;
