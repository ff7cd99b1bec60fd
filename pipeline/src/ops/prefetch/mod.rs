//! The operation `prefetch`, which buffers elements before the caller asks for them.

mod definition;
pub(crate) mod exec;

pub use definition::Prefetch;
