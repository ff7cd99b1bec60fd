//! The file systems of this machine, as the operating system has them.

mod file;
mod listing;

pub(super) use file::{LocalFile, open};
pub(super) use listing::list;
