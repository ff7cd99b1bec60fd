//! `files`: the paths that a glob pattern matches.

mod definition;
pub(crate) mod exec;
mod part;

pub use definition::Files;
pub use part::FilePart;
