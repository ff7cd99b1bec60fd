//! `prefetch`: a buffer that a thread of its own fills.

mod definition;
pub(crate) mod exec;

pub use definition::Prefetch;
