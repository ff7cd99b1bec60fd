//! The operation `rebatch`, which cuts batches into batches of other sizes.

mod definition;
pub(crate) mod exec;

pub use definition::Rebatch;
