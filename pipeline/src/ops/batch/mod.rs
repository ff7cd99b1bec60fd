//! `batch`: consecutive elements stacked.

mod definition;
pub(crate) mod exec;

pub use definition::Batch;
