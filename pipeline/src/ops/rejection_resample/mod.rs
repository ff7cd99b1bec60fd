//! `rejection_resample`: elements with their classes, dropped until classes are as frequent as is wanted.

mod definition;
pub(crate) mod exec;

pub use definition::{RejectionResample, Resampling};
