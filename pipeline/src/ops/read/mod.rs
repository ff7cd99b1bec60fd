//! `read`: the contents of the files whose paths come in.

mod definition;
pub(crate) mod exec;
mod listing;

pub use definition::Read;
pub(crate) use listing::{is_of_shards, with_example};
