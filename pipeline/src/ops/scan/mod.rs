//! The operation `scan`, which applies a function to each element and to a state that the function
//! updates.

mod definition;
pub(crate) mod exec;

pub use definition::Scan;
