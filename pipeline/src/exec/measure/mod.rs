//! The costs of a running pipeline's stages: always counted, and timed in samples, so that measuring takes a
//! few hundredths of the time of even the cheapest elements.
//!
//! - [`Meter`]: the stages of a program, and of the bodies of its functions;
//! - [`Stage`]: the counts of one operation;
//! - [`Staged`]: an operation where it stands;
//! - [`Sampler`]: when the clock is read;
//! - [`Stats`], [`Bottleneck`]: what is known at one moment, and which stage holds the others up.

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
