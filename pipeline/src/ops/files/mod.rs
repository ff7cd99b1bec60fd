//! The operation `files`, which yields the paths that match a glob pattern.

mod definition;
pub(crate) mod exec;
mod part;

pub use definition::Files;
pub use part::FilePart;
