//! The values of pixels: grey, scaled to a mean and a deviation, jittered.

mod grey;
mod jitter;
mod normalise;

pub(crate) use grey::{grey, to_grey};
pub(crate) use jitter::Adjustment;
pub(crate) use normalise::Normaliser;
