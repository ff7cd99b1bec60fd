//! The number of workers that a service wants, decided from the reports of its readers and workers.
//!
//! The policy only decides. It holds no workers, reads no clock, and knows no identifiers of the service.
//!
//! | file | contents |
//! |---|---|
//! | `config` | the bounds and the waiting times of a policy |
//! | `observation` | the input: the readers and workers at one moment |
//! | `wanted` | the output: a number of workers with its reason |
//! | `experience` | the numbers of workers that failed steps have taught |
//! | `readers` | the readers that the policy knows |
//! | `smoothed` | the moving averages of observations |
//! | `trial` | the check whether more workers help the readers |
//! | `growth` | the limit of one step up |
//! | `policy` | the decisions |
//! | `simulation` | tests with a simulated service |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod config;
mod experience;
mod growth;
mod observation;
mod policy;
mod readers;
#[cfg(test)]
mod simulation;
mod smoothed;
mod trial;
mod wanted;

pub use config::ScalingConfig;
pub(crate) use growth::growth_limit;
pub(crate) use observation::Observation;
pub(crate) use policy::ScalingPolicy;
