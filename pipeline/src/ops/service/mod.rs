//! The operation `service`, which yields the elements of another service.

mod definition;
pub(crate) mod exec;

pub use definition::ServiceReader;
