//! The operation `zip`, which combines one element of each input.

mod definition;
pub(crate) mod exec;

pub use definition::Zip;
