//! The operation `take`, which yields the first elements.

mod definition;
pub(crate) mod exec;

pub use definition::Take;
