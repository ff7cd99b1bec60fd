//! The costs of a running pipeline's stages. Elements are always counted, and times are measured in samples,
//! so that measuring takes a few percent of the time of even the cheapest elements.
//!
//! - [`Meter`]: the stages of a program, and of the bodies of its functions;
//! - [`Stage`]: the counts of one operation;
//! - [`Staged`]: an operation with its place in the graph and its measurements;
//! - [`Sampler`]: the choice of the calls at which the clock is read;
//! - [`Stats`], [`Bottleneck`]: the measurements at one moment, and the stage that limits the rate.

mod meter;
mod sampler;
mod stage;
mod staged;
mod stats;

pub use stats::{Bottleneck, StageStats, Stats};

pub(crate) use meter::Meter;
pub(crate) use sampler::{Sampler, is_sampled};
pub(crate) use stage::Stage;
pub(crate) use staged::Staged;
pub(crate) use stats::Placed;
