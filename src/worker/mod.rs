//! A worker: a control agent, the pipeline and the data plane in one process.
//!
//! - [`config`]: the settings of a worker
//! - `advertised`: the address that readers receive
//! - [`error`]: the error of a worker as a whole
//! - [`running`]: starts the worker, follows the dispatcher, and stops
//! - [`observer`]: observing the worker from its own process
//! - [`stopper`]: the requests to drain or stop the worker
//! - `drain`: the graceful shutdown
//! - `lanes`: the threads of the sockets, and the endpoints on them
//! - `task`: one task, on its own thread
//! - `sharding`: the share of the dataset that a task reads
//! - `tasks`: the running tasks, which stop when the value is dropped
//! - `threads`: the threads of the tasks, joined with the worker
//! - `reports`: the reports about ended tasks to the dispatcher
//! - `feed`: the splits from the dispatcher, as the pipeline's type
//! - `pace`, `stages`, `load`: the measurements that the dispatcher receives
//! - `traced`: the spans of sampled splits

mod advertised;
pub mod config;
mod drain;
pub mod error;
mod feed;
mod lanes;
mod load;
pub mod observer;
mod pace;
mod reports;
pub mod running;
mod sharding;
mod stages;
pub mod stopper;
mod task;
mod tasks;
mod threads;
mod traced;

pub use config::WorkerConfig;
pub use error::WorkerError;
pub use observer::WorkerObserver;
pub use running::Worker;
pub use stopper::WorkerStopper;
