//! `millstream autoscale`: starts and ends workers as the service wants them.
//!
//! - `args`: the flags of the command, and the flags of the dispatcher's policy
//! - `follower`: the decision when to act, without a clock
//! - `engine`: the programs that start and end workers
//! - `command`: the loop that observes the service and acts
//!
//! The dispatcher decides how many workers are wanted. The command only keeps the number within its bounds.

mod args;
mod command;
mod engine;
mod follower;

pub(crate) use args::{AutoscaleArgs, ScalingFlags};
pub(crate) use command::run;
