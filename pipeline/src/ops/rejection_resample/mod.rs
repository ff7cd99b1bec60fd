//! The operation `rejection_resample`, which drops elements until their classes have the target
//! frequencies.

mod definition;
pub(crate) mod exec;

pub use definition::{RejectionResample, Resampling};
