//! Python's own code on a worker: functions and iterables, run by processes of the user's interpreter that
//! this one supervises. The worker itself runs no Python and is linked against none.
//!
//! - `crew`: the executors of one function: who is idle, who has died, who is ended
//! - `crews`: the crews of this process, which stay for a while between tasks
//! - `descendants`: the memory and the number of the processes that one has started
//! - `described`: what executors are told beside the code (pure)
//! - `ending`: why an executor's call has no result, in words
//! - `environment`: the variables that executors see
//! - `isolation`: how far their code is kept from what the worker may do
//! - `executor`: one process that calls the function, and the wait for what it makes
//! - `foreman`: the process that imports what code needs, and starts and reaps executors
//! - `function`, `flat_map`, `iterable`: the kinds of code that the pipeline runs
//! - `registration`: their registration with the pipeline
//! - `interpreter`: which Python
//! - `params`: the parameters of both: what they yield and the code, with limits
//! - `region`: memory that this process and one executor share (unsafe)
//! - `socket`: datagrams with descriptors, and deadlines
//! - `wire`: what is said to executors (pure)

#[cfg(target_os = "linux")]
mod crew;
#[cfg(target_os = "linux")]
mod crews;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
mod described;
#[cfg(target_os = "linux")]
mod ending;
mod environment;
#[cfg(target_os = "linux")]
mod executor;
#[cfg(target_os = "linux")]
mod flat_map;
#[cfg(target_os = "linux")]
mod foreman;
#[cfg(target_os = "linux")]
mod function;
mod interpreter;
mod isolation;
#[cfg(target_os = "linux")]
mod iterable;
mod params;
#[cfg(target_os = "linux")]
mod region;
#[cfg(target_os = "linux")]
mod registration;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod wire;

pub use environment::ExecutorEnvironment;
pub use interpreter::Interpreter;
pub use isolation::{Isolation, UnknownIsolation};
pub use params::{Limits, NAME, PythonParams};
#[cfg(target_os = "linux")]
pub use registration::registered;
