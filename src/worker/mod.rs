//! A worker: a control agent, the pipeline and the data plane in one process.
//!
//! - [`config`]: what a worker is told
//! - `advertised`: the address that readers are told
//! - [`error`]: the error of a worker as a whole
//! - [`running`]: starting, following the dispatcher, stopping
//! - [`stopper`]: what is wanted of it
//! - `drain`: how it leaves in good order
//! - `task`: one task, on a thread of its own
//! - `sharding`: which share of its dataset it reads
//! - `tasks`: those under way; dropping them stops them
//! - `threads`: what they run on, joined with the worker
//! - `reports`: what the dispatcher is told of those that ended
//! - `feed`: splits from the dispatcher, as the pipeline reads them

mod advertised;
pub mod config;
mod drain;
pub mod error;
mod feed;
mod pace;
mod reports;
pub mod running;
mod sharding;
pub mod stopper;
mod task;
mod tasks;
mod threads;

pub use config::WorkerConfig;
pub use error::WorkerError;
pub use running::Worker;
pub use stopper::WorkerStopper;
