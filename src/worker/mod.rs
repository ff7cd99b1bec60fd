//! A worker: a control agent, the pipeline and the data plane in one process.
//!
//! - [`config`]: what a worker is told
//! - [`running`]: starting, following the dispatcher, stopping
//! - `task`: one task, on a thread of its own
//! - `tasks`: those under way; dropping them stops them
//! - `feed`: splits from the dispatcher, as the pipeline reads them

pub mod config;
mod feed;
pub mod running;
mod task;
mod tasks;

pub use config::WorkerConfig;
pub use running::{Worker, WorkerError};
