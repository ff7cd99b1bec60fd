//! The operation `repeat`, which yields its input several times.

mod definition;
pub(crate) mod exec;

pub use definition::Repeat;
