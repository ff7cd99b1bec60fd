//! `service`: what another pool of workers yields.

mod definition;
pub(crate) mod exec;

pub use definition::ServiceReader;
