//! The operation `counter`, which counts up or down without end.

mod definition;
pub(crate) mod exec;

pub use definition::Counter;
