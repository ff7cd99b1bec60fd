//! The operation `random`, which yields random integers without end.

mod definition;
pub(crate) mod exec;

pub use definition::Random;
