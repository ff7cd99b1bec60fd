//! The number of workers that a service wants, decided from the reports of its readers and workers.
//!
//! The policy only decides. It holds no workers, reads no clock, and knows no identifiers of the service.
//!
//! | file | contents |
//! |---|---|
//! | `config` | the bounds and the waiting times of a policy |
//! | `observation` | the input: the readers and workers at one moment |
//! | `wanted` | the output: a number of workers with its reason |
//! | `smoothed` | the moving averages of observations |
//! | `trial` | the check whether more workers help the readers |
//! | `policy` | the decisions |
//! | `simulation` | tests with a simulated service |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod config;
mod observation;
mod policy;
#[cfg(test)]
mod simulation;
mod smoothed;
mod trial;
mod wanted;

pub use config::ScalingConfig;
pub(crate) use observation::Observation;
pub(crate) use policy::Policy;
