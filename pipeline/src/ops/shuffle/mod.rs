//! The operation `shuffle`, which draws elements at random from a buffer.

mod definition;
pub(crate) mod exec;

pub use definition::Shuffle;
